/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the first step of an installation (packages.c). The resolver is a cell of a session of its own.
 * Its standard output has a line for each question, or piece of what it has built, which codebox-packages answers by
 * way of its standard input, and at last one for all that is needed, or why that cannot be. All of it is the word of a
 * sandbox.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "packages/conda.h"
#include "session/install.h"

#define ASKS_MAX    12 /* of one resolver at once, each of a process */
#define LINE_MAX    MIB(4)
#define TRACE_MAX   2000
#define RESOLVE	    "import runpy; runpy.run_path('" CBX_INSIDE_RUNTIMES "/python/resolve.py', run_name='__main__')"
#define FACTS	    "import runpy; runpy.run_path('" CBX_INSIDE_RUNTIMES "/python/facts.py', run_name='__main__')"
#define SOLVE	    "import runpy; runpy.run_path('" CBX_INSIDE_RUNTIMES "/python/solve.py', run_name='__main__')"
#define HELPER	    "conda" /* the image in which that runs */
#define RESOLVE_NPM "void require('" CBX_INSIDE_RUNTIMES "/javascript/resolve.js')"

struct cbx_ask {
	TAILQ_ENTRY(cbx_ask) entry;
	uint64_t id;
	cJSON *what;
};

/* A process that answers, one question after the other. */
struct cbx_answerer {
	TAILQ_ENTRY(cbx_answerer) entry;
	struct cbx_install *install;
	struct cbx_job job;
	uint64_t id; /* of the question; 0: it is idle */
};

static void ask_free(struct cbx_ask *a)
{
	cJSON_Delete(a->what);
	free(a);
}

static void answerer_free(struct cbx_answerer *w)
{
	if (w->id) {
		TAILQ_REMOVE(&w->install->busy, w, entry);
		w->install->nbusy--;
	} else {
		TAILQ_REMOVE(&w->install->idle, w, entry);
	}
	cbx_job_end(&w->job);
	free(w);
}

static void drop_asks(struct cbx_install *in)
{
	struct cbx_answerer *w;
	struct cbx_ask *a;

	while ((w = TAILQ_FIRST(&in->busy)) || (w = TAILQ_FIRST(&in->idle)))
		answerer_free(w);
	while ((a = TAILQ_FIRST(&in->waiting))) {
		TAILQ_REMOVE(&in->waiting, a, entry);
		ask_free(a);
	}
	in->waiting_bytes = 0;
}

void cbx_resolver_close(struct cbx_install *in)
{
	struct cbx_session *s = take_ptr(&in->resolver);

	cbx_ops_cancel(&in->caller.ops);
	in->watch.x = NULL;
	drop_asks(in);
	if (s)
		cbx_session_close(NULL, s, "packages were resolved");
}

static void feed(struct cbx_install *in)
{
	struct cbx_err err;
	int r;

	if (!in->feed.len || !in->watch.x || cbx_op_pending(&in->input.op))
		return;
	r = cbx_execution_input(in->watch.x, in->feed.data, in->feed.len, &in->input, &err);
	in->given = r == 0 ? in->feed.len : 0;
	cbx_buf_release(&in->feed);
	if (r < 0)
		cbx_install_end(in, &err);
}

/* What has gathered meanwhile follows, and what waited for room. */
static void fed(struct cbx_input_op *op, const struct cbx_err *err)
{
	struct cbx_install *in = cbx_container_of(op, struct cbx_install, input);

	in->given = 0;
	if (!err)
		event_active(in->work, EV_READ, 1);
}

/*
 * A resolver asks as fast as it likes and reads what it likes. While it has much to read, no answer comes in; while
 * many come in at once, only the first does, so that one becomes complete.
 */
static bool has_room(const struct cbx_install *in)
{
	return in->feed.len + in->given <= CBX_INSTALL_UNREAD_MAX;
}

static void make_wait(struct cbx_install *in)
{
	size_t coming = 0;
	struct cbx_answerer *w;

	if (in->over) /* perhaps since one of them could not be begun */
		return;
	TAILQ_FOREACH(w, &in->busy, entry)
		coming += w->job.got.len;
	TAILQ_FOREACH(w, &in->busy, entry)
		cbx_job_pause(&w->job,
			      !has_room(in) || (coming > CBX_INSTALL_UNREAD_MAX && w != TAILQ_FIRST(&in->busy)));
}

/* The resolver gets an answer as codebox-packages spells it, behind its question's number. */
static void give(struct cbx_install *in, uint64_t id, const char *p, size_t n)
{
	cbx_buf_addf(&in->feed, "%llu ", (unsigned long long)id);
	cbx_buf_add(&in->feed, p, n);
}

static void answerer_ended(struct cbx_job *j)
{
	struct cbx_answerer *w = cbx_container_of(j, struct cbx_answerer, job);
	struct cbx_install *in = w->install;
	static const char failed[] =
		"{\"kind\":\"install_failed\",\"message\":\"the index could not be asked; see the log\"}\n";
	_cleanup_free_ char *answer = cbx_xasprintf("%zu\n%s", sizeof(failed) - 1, failed);

	if (w->id)
		give(in, w->id, answer, strlen(answer));
	answerer_free(w);
	cbx_resolver_go_on(in);
}

/* 1: there is an answer, and nothing else. 0: not yet. */
static int is_whole(const struct cbx_answerer *w)
{
	const struct cbx_buf *got = &w->job.got;
	size_t n = 0, i = 0;

	for (; i < got->len && got->data[i] >= '0' && got->data[i] <= '9' && n <= w->job.max; i++)
		n = 10 * n + (size_t)(got->data[i] - '0');
	if (i == got->len && n <= w->job.max)
		return 0;
	if (!w->id || !i || n > w->job.max || got->data[i] != '\n' || got->len - i - 1 > n)
		return -EBADMSG;
	return got->len - i - 1 == n;
}

static void coming(struct cbx_job *j)
{
	struct cbx_answerer *w = cbx_container_of(j, struct cbx_answerer, job);
	struct cbx_install *in = w->install;
	int r = is_whole(w);

	if (r == 0) {
		make_wait(in);
	} else if (r < 0) {
		answerer_ended(j);
	} else {
		give(in, w->id, j->got.data, j->got.len);
		cbx_buf_release(&j->got);
		TAILQ_REMOVE(&in->busy, w, entry);
		in->nbusy--;
		w->id = 0;
		TAILQ_INSERT_HEAD(&in->idle, w, entry);
		cbx_job_pause(j, false);
		cbx_resolver_go_on(in);
	}
}

static size_t piece_bytes(const cJSON *what)
{
	const char *data = cbx_json_text(what, "data");

	return data ? strlen(data) : 0;
}

static int begin_answerer(struct cbx_install *in, struct cbx_err *err)
{
	const struct cbx_policy *p = in->target->policy;
	_cleanup_json_ cJSON *job = cbx_json_new_obj();
	struct cbx_answerer *w = cbx_xcalloc(1, sizeof(*w));

	cbx_json_set_str(job, "job", "answer");
	cbx_json_set_str(job, "index", p->index);
	cbx_json_set_u64(job, "cache", p->values[CBX_KEY_CACHE].ceiling);
	cbx_json_set_str(job, "registry", p->registry);
	cbx_json_set_bool(job, "npm", in->kind == CBX_KIND_NPM);
	if (in->kind == CBX_KIND_CONDA)
		cbx_json_set(job, "channels", cbx_channels_json(p));
	w->install = in;
	w->job.done = answerer_ended;
	w->job.some = coming;
	w->job.talks = true;
	w->job.max = (in->kind == CBX_KIND_CONDA ? CBX_CHANNEL_PAGE_MAX : CBX_INSTALL_PAGE_MAX) + KIB(64);
	TAILQ_INSERT_HEAD(&in->idle, w, entry);
	if (cbx_job_begin(in->engine->jobs, &w->job, job, err) >= 0)
		return 0;
	answerer_free(w);
	return -err->code;
}

void cbx_resolver_go_on(struct cbx_install *in)
{
	struct cbx_answerer *w;
	struct cbx_err err;
	struct cbx_ask *a;

	feed(in);
	make_wait(in);
	while (!in->over && in->nbusy < ASKS_MAX && has_room(in) && (a = TAILQ_FIRST(&in->waiting))) {
		if (TAILQ_EMPTY(&in->idle) && begin_answerer(in, &err) < 0) {
			cbx_install_end(in, &err);
			return;
		}
		w = TAILQ_FIRST(&in->idle);
		TAILQ_REMOVE(&in->idle, w, entry);
		TAILQ_INSERT_TAIL(&in->busy, w, entry);
		in->nbusy++;
		w->id = a->id;
		cbx_job_say(&w->job, a->what);
		in->waiting_bytes -= piece_bytes(a->what);
		TAILQ_REMOVE(&in->waiting, a, entry);
		ask_free(a);
	}
}

static bool may_build(const struct cbx_install *in)
{
	return in->target->policy->values[CBX_KEY_SOURCE_BUILDS].ceiling && in->kind == CBX_KIND_PYTHON &&
	       !in->elsewhere;
}

/* A piece of a wheel that was built: its bytes are codebox-packages's to judge. */
static bool take_piece(const struct cbx_install *in, const cJSON *line, cJSON *ask)
{
	const char *sum = cbx_json_text(line, "built"), *data = cbx_json_text(line, "data");
	_cleanup_free_ char *address = cbx_xasprintf(CBX_BUILT "%s/%.64s", in->built, sum);
	struct cbx_err ignored;
	uint64_t at = 0;

	if (!may_build(in) || strlen(sum) != 64 || !data || strlen(data) > CBX_BUILT_PIECE_MAX ||
	    cbx_json_get_u64(line, "at", 0, CBX_BUILT_MAX, &at, &ignored) <= 0)
		return false;
	cbx_json_set_str(ask, "built", address);
	cbx_json_set_u64(ask, "at", at);
	cbx_json_set_str(ask, "data", data);
	return true;
}

/* What a resolver of this kind has to know. */
static bool is_question(const struct cbx_install *in, const char *project, const char *url, const char *built)
{
	const struct cbx_policy *p = in->target->policy;

	if (!!project + !!url + !!built != 1 || strlen(project ? project : url ? url : "") > CBX_INSTALL_ADDRESS_MAX)
		return false;
	if (in->kind != CBX_KIND_CONDA)
		return project ? cbx_kind_of(project) == in->kind : in->kind == CBX_KIND_PYTHON;
	for (size_t i = 0; url && i < p->nchannels; i++) {
		const char *path = cbx_conda_within(p->channels[i], url);

		if (path && cbx_conda_is_list(path))
			return true;
	}
	return false;
}

cJSON *cbx_channels_json(const struct cbx_policy *p)
{
	cJSON *list = cbx_json_new_arr();

	for (size_t i = 0; i < p->nchannels; i++)
		cbx_json_push_str(list, p->channels[i]);
	return list;
}

static int add_ask(struct cbx_install *in, const cJSON *line, struct cbx_err *err)
{
	const char *project = cbx_json_text(line, "project"), *url = cbx_json_text(line, "url"),
		   *built = cbx_json_text(line, "built");
	_cleanup_json_ cJSON *what = cbx_json_new_obj();
	struct cbx_ask *a;
	uint64_t id = 0, last = 0;

	if (cbx_json_get_u64(line, "ask", 1, UINT32_MAX, &id, err) <= 0 || !is_question(in, project, url, built) ||
	    (built && !take_piece(in, line, what)) ||
	    cbx_json_get_u64(line, "last", 1, CBX_INSTALL_PAGE_MAX, &last, err) < 0 || (last && !url))
		return cbx_refuse(err, "invalid_lock", EBADMSG, "the resolver asks for something impossible");
	if (cbx_install_allowed(in->target, err) < 0)
		return -err->code;
	if (in->asked++ == CBX_INSTALL_QUESTIONS_MAX)
		return cbx_refuse(err, "package_refused", E2BIG,
				  "more than %d pages of the index are needed; name versions, so that fewer fit",
				  CBX_INSTALL_QUESTIONS_MAX);
	a = cbx_xcalloc(1, sizeof(*a));
	a->id = id;
	a->what = take_ptr(&what);
	cbx_json_set_str(a->what, "project", project);
	cbx_json_set_str(a->what, "url", url);
	if (last)
		cbx_json_set_u64(a->what, "last", last);
	TAILQ_INSERT_TAIL(&in->waiting, a, entry);
	in->waiting_bytes += piece_bytes(a->what);
	if (in->waiting_bytes > CBX_BUILT_WAITING_MAX)
		return cbx_refuse(err, "invalid_lock", EBADMSG, "the resolver hands out more than it waits for");
	return 0;
}

/* A resolver's own refusal: its words are those of a sandbox. */
static int refusal(const cJSON *line, struct cbx_err *err)
{
	const char *kind = cbx_json_text(line, "kind"), *message = cbx_json_text(line, "refused");

	cbx_refuse(err, kind ? kind : "package_refused", ENOENT, "%s", message);
	cbx_err_sanitize(err);
	return -ENOENT;
}

/* One line of the resolver's. 1: it was the last. */
static int take_line(struct cbx_install *in, const char *p, size_t n, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };

	if (cbx_json_parse(p, n, &doc, err) < 0 || doc.problem.code || !cJSON_IsObject(doc.root))
		return cbx_refuse(err, "invalid_lock", EBADMSG, "the resolver's answer cannot be read");
	if (cbx_json_text(doc.root, "refused"))
		return refusal(doc.root, err);
	if (in->kind == CBX_KIND_CONDA && !in->resolving) {
		in->facts = take_ptr(&doc.root);
		return 1;
	}
	if (cbx_json_member(doc.root, "ask"))
		return add_ask(in, doc.root, err);
	in->found = take_ptr(&doc.root);
	return 1;
}

/* And nothing else is expected of that sandbox. */
static bool has_facts(const struct cbx_install *in)
{
	return in->facts && !in->resolving;
}

static void resolver_said(struct cbx_install *in, const char *stream, const char *p, size_t n)
{
	struct cbx_err err;
	size_t searched = in->line.len;
	const char *end_of;
	int r = 0;

	if (in->over || in->found || has_facts(in))
		return;
	if (strcmp(stream, "stdout") != 0) {
		cbx_buf_add(&in->trace, p, n);
		if (in->trace.len > TRACE_MAX)
			cbx_buf_drop(&in->trace, in->trace.len - TRACE_MAX);
		return;
	}
	cbx_buf_add(&in->line, p, n);
	while (r == 0 && in->line.len > searched &&
	       (end_of = memchr(in->line.data + searched, '\n', in->line.len - searched))) {
		r = take_line(in, in->line.data, (size_t)(end_of - in->line.data), &err);
		cbx_buf_drop(&in->line, (size_t)(end_of - in->line.data) + 1);
		searched = 0;
	}
	if (r == 0 && in->line.len > LINE_MAX)
		r = cbx_refuse(&err, "invalid_lock", EFBIG, "the resolver's answer is too long");
	if (r < 0)
		cbx_install_end(in, &err);
	else if (r > 0) /* not here: this is a call from its execution */
		event_active(in->work, EV_READ, 1);
	else
		cbx_resolver_go_on(in);
}

static void resolver_ended(struct cbx_install *in, struct cbx_execution *x)
{
	const struct cbx_err *failure = cbx_session_failure(cbx_execution_session(x));
	_cleanup_json_ cJSON *o = cbx_execution_to_json(x, false);
	const cJSON *error = cbx_json_member(o, "error");
	const char *message = cbx_json_text(o, "message");
	struct cbx_err err;

	in->watch.x = NULL;
	if (!message)
		message = cbx_json_text(error, "value");
	cbx_refuse(&err, "install_failed", EIO, "the packages could not be resolved: %.400s",
		   failure		   ? failure->msg
		   : message && message[0] ? message
					   : cbx_buf_str(&in->trace));
	cbx_err_sanitize(&err);
	/* When its sandbox has gone the session is freed right after this, without an answer. */
	cbx_session_close(NULL, take_ptr(&in->resolver), "its resolver has ended");
	if (!in->found && !has_facts(in))
		cbx_install_end(in, &err);
}

static void resolver_does(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	struct cbx_install *in = cbx_container_of(op, struct cbx_install, watch);

	if (progress->what == CBX_STARTED)
		feed(in);
	else if (progress->what == CBX_PRINTED)
		resolver_said(in, progress->stream, progress->p, progress->n);
	else if (progress->what == CBX_ENDED)
		resolver_ended(in, x);
}

/* Those of the kind that is looked for. */
static cJSON *rules_json(const struct cbx_requirements *list, enum cbx_kind kind)
{
	cJSON *all = cbx_requirements_json(list), *next;

	for (cJSON *v = all->child; v; v = next) {
		next = v->next;
		if (cbx_kind_of(v->valuestring) != kind)
			cJSON_Delete(cJSON_DetachItemViaPointer(all, v));
	}
	return all;
}

static cJSON *question(const struct cbx_install *in)
{
	const struct cbx_package_rules *rules = &in->target->policy->packages;
	const struct cbx_had *had = in->target->packages ? &in->target->packages->had[in->kind] : NULL;
	cJSON *o = cbx_json_new_obj(), *r = cbx_json_new_obj(), *newest = cbx_json_new_arr();
	_cleanup_free_ char *builds = cbx_xasprintf(CBX_BUILT "%s/", in->built);

	cbx_json_set_str(o, "builds", may_build(in) ? builds : NULL);
	cbx_json_set(o, "requirements", cJSON_Duplicate(in->requirements, 1));
	cbx_json_set(o, "previous",
		     had && had->wheels && !in->elsewhere ? cJSON_Duplicate(had->wheels, 1) : cbx_json_new_arr());
	if (in->elsewhere)
		cbx_json_set(o, "elsewhere", cJSON_Duplicate(in->elsewhere, 1));
	for (size_t i = 0; in->newest && i < in->wanted.n; i++)
		cbx_json_push_str(newest, in->wanted.all[i].name);
	cbx_json_set(o, "newest", newest);
	if (rules->only)
		cbx_json_set(r, "allow", rules_json(&rules->allow, in->kind));
	cbx_json_set(r, "block", rules_json(&rules->block, in->kind));
	cbx_json_set(r, "versions", rules_json(&rules->versions, in->kind));
	cbx_json_set(o, "rules", r);
	cbx_json_set(o, "locked", cbx_sums_json(&in->sums));
	cbx_json_set_bool(o, "only_locked", in->sums.only);
	return o;
}

/* What the session may have that resolves, and builds: no network, whatever the target has, and no weaker isolation
 * than that. How much of everything is the server's to say: an installation needs no less where the target has little.
 */
static struct cbx_policy *policy_of_resolver(const struct cbx_session *s)
{
	static const enum cbx_key keys[] = { CBX_KEY_PROFILE,	     CBX_KEY_LANDLOCK, CBX_KEY_WRITE_XOR_EXECUTE,
					     CBX_KEY_NO_SPECULATION, CBX_KEY_CGROUP,   CBX_KEY_ZYGOTE };
	struct cbx_policy *p = cbx_policy_narrow(s->engine->policy, s->engine->policy);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct cbx_policy_value *v = &p->values[keys[i]];
		const struct cbx_policy_value *own = &s->policy->values[keys[i]];

		v->ceiling = cbx_key_lower(keys[i], v->ceiling, own->ceiling);
		v->standard = cbx_key_lower(keys[i], cbx_key_lower(keys[i], v->standard, own->standard), v->ceiling);
	}
	/* What it builds is code of anybody's, and would have packages by the server's rules. */
	p->values[CBX_KEY_INSTALL].ceiling = p->values[CBX_KEY_INSTALL].standard = 0;
	cbx_network_release(&p->network);
	cbx_policy_digest(p, p->digest);
	return p;
}

static int begin_cell(struct cbx_install *in, const char *image, bool helper, const char *code, const char *language,
		      struct cbx_err *err)
{
	struct cbx_cell_spec cell = {
		.code = code, .language = language, .ours = true, .unlimited = true, .streamed = true, .input = true
	};
	struct cbx_policy *policy = policy_of_resolver(in->target);
	struct cbx_session_spec spec;
	struct cbx_execution *x;
	int r;

	cbx_session_spec_init(&spec);
	snprintf(spec.image, sizeof(spec.image), "%s", image);
	spec.one_shot = true;
	spec.helper = helper;
	in->principal.ceiling = policy;
	r = cbx_session_create(&in->caller, &spec, NULL, &in->resolver, err);
	in->principal.ceiling = NULL;
	cbx_policy_free(policy);
	if (r < 0)
		return r;
	in->input = (struct cbx_input_op){ .op.ops = &in->caller.ops, .done = fed };
	in->watch = (struct cbx_watch_op){ .op.ops = &in->caller.ops, .on_progress = resolver_does };
	return cbx_session_start(in->resolver, &cell, &in->watch, &x, err);
}

static void ask_resolver(struct cbx_install *in, const cJSON *asked)
{
	cbx_json_print(&in->feed, asked);
	cbx_buf_addc(&in->feed, '\n');
}

/* What the helper's Python has to know of the session's: its version, and that of the C library. */
void cbx_resolver_next(struct cbx_install *in)
{
	_cleanup_json_ cJSON *asked = question(in);
	struct cbx_err err;

	cbx_resolver_close(in);
	cbx_buf_release(&in->line);
	cbx_buf_release(&in->trace);
	in->resolving = true;
	cbx_json_set(asked, "facts", cJSON_Duplicate(in->facts, 1));
	cbx_json_set(asked, "channels", cbx_channels_json(in->target->policy));
	ask_resolver(in, asked);
	if (begin_cell(in, HELPER, true, SOLVE, "python", &err) >= 0)
		return;
	if (strcmp(err.kind, "image_not_found") == 0)
		cbx_refuse(
			&err, "no_packages", ENOENT,
			"packages of conda are resolved in the image " HELPER
			", which is not there; use packages of PyPI, or ask whoever runs codebox to make it: codebox "
			"image build " HELPER);
	cbx_install_end(in, &err);
}

int cbx_resolver_begin(struct cbx_install *in, struct cbx_err *err)
{
	static const char *const codes[CBX_KINDS] = { RESOLVE, RESOLVE_NPM, FACTS };
	_cleanup_json_ cJSON *asked = NULL;

	cbx_random_name(in->built, sizeof(in->built) - 1);
	asked = question(in);
	if (cbx_resolved_find(in, asked)) {
		event_active(in->work, EV_READ, 1);
		return 0;
	}
	if (in->kind != CBX_KIND_CONDA)
		ask_resolver(in, asked);
	return begin_cell(in, in->target->spec.image, false, codes[in->kind],
			  in->kind == CBX_KIND_NPM ? "javascript" : "python", err);
}
