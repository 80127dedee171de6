/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: packages are installed in five steps, of which the session itself sees only the last.
 *
 *  1  A sandbox is made as every session's is, of the same image, so that its Python knows which wheels fit. In it a
 *     resolver runs (runtimes/python/resolve.py; for npm, runtimes/javascript/resolve.js). It has no network: what it
 *     wants to know of the index it asks for on its standard output, by the name of a project or an address that the
 *     index named, and codebox-packages looks. For conda, that sandbox only says which Python it has; the resolver
 *     (runtimes/python/solve.py) then runs in one of the image conda. What was asked a moment ago is not asked again
 *     (resolved.c).
 *  2  Its answer, all packages that are needed, is read strictly and judged by the policy. The sandbox is closed.
 *  3  codebox-packages compares them with advisories and popular names, fetches what the store lacks, checks it against
 *     what was judged, and makes a directory of links.
 *  4  The supervisor mounts that directory in the session's sandbox.
 *  5  A .pth file in the session's home names the mount, for the interpreter that runs and those that follow. The one
 *     that runs is asked what it has imported in another version; one that runs a cell tells that at the cell's end.
 *     Node finds packages of npm by the link /node_modules, which the supervisor turns to the mount. Then their scripts
 *     run, where the policy lets them (scripts.c).
 *
 * A later installation resolves what was asked for before as well, and makes another directory: what fails on the way
 * leaves the session as it was. Directories stay until the session ends, since what was imported may still load from
 * them.
 *
 * All ends come about in one place, the `work` event, so that nothing is called from inside a call.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/timer.h"
#include "box/link.h"
#include "session/install.h"

#define ANSWER_MAX KIB(64) /* of a job that installs */

/* ---- ends ---- */

void cbx_install_end(struct cbx_install *in, const struct cbx_err *err)
{
	if (in->over)
		return;
	in->over = true;
	if (err)
		in->failure = *err;
	event_active(in->work, EV_TIMEOUT, 1);
}

static void dropped(struct cbx_job *j)
{
	cbx_job_end(j);
	free(j);
}

/* Directories that no session has any more. */
static void drop_directories(struct cbx_engine *e, cJSON *tokens)
{
	_cleanup_json_ cJSON *what = cbx_json_new_obj();
	struct cbx_err ignored;
	struct cbx_job *j;

	cbx_json_set_str(what, "job", "drop");
	cbx_json_set(what, "tokens", tokens);
	if (!e->jobs || e->freeing) /* they go with all that codebox-packages has made */
		return;
	j = cbx_xcalloc(1, sizeof(*j));
	j->done = dropped;
	j->max = ANSWER_MAX;
	if (cbx_job_begin(e->jobs, j, what, &ignored) < 0)
		free(j);
}

/* Its process has been hung up on by now, but may have been done before. */
static void drop_unwanted(const struct cbx_install *in)
{
	cJSON *tokens;

	if (!in->making[0])
		return;
	tokens = cbx_json_new_arr();
	cbx_json_push_str(tokens, in->making);
	drop_directories(in->engine, tokens);
}

static void install_free(struct cbx_install *in)
{
	struct event *events[] = { in->work, in->timer };

	cbx_resolver_close(in);
	if (in->target)
		in->target->install = NULL;
	if (in->entry.tqe_prev)
		TAILQ_REMOVE(&in->engine->installs, in, entry);
	if (in->installing)
		cbx_job_end(&in->job);
	drop_unwanted(in);
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		cbx_event_free_p(&events[i]);
	cbx_requirements_release(&in->wanted);
	cbx_sums_release(&in->sums);
	cbx_lock_release(&in->lock);
	cJSON_Delete(in->requirements);
	cJSON_Delete(in->elsewhere);
	cJSON_Delete(in->facts);
	cJSON_Delete(in->found);
	cJSON_Delete(in->imported);
	free(in->question);
	cJSON_Delete(in->warnings);
	cbx_buf_release(&in->line);
	cbx_buf_release(&in->feed);
	cbx_buf_release(&in->trace);
	cbx_buf_release(&in->said);
	free(in);
}

static void remember(struct cbx_install *in)
{
	struct cbx_session *s = in->target;
	struct cbx_packages *all = s->packages ? s->packages : (s->packages = cbx_xcalloc(1, sizeof(*all)));
	struct cbx_had *p = &all->had[in->kind];

	cJSON_Delete(p->requirements);
	cJSON_Delete(p->wheels);
	memcpy(p->token, in->token, sizeof(p->token));
	p->requirements = take_ptr(&in->requirements);
	p->wheels = cJSON_DetachItemFromObjectCaseSensitive(in->found, "packages");
}

static void drop_token(struct cbx_session *s, const char *token)
{
	if (!s->packages)
		s->packages = cbx_xcalloc(1, sizeof(*s->packages));
	if (!s->packages->tokens)
		s->packages->tokens = cbx_json_new_arr();
	cbx_json_push_str(s->packages->tokens, token);
}

static void tell_installed(const struct cbx_install *in, const struct cbx_err *err)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_PACKAGES, .outcome = err ? "failed" : "ok" };

	h.why = err ? err->msg : NULL;
	h.via = in->known ? &in->via : NULL;
	cbx_session_happened(in->target, &h);
}

/* What waited for the packages of a new session. */
static void fitted_out(struct cbx_session *s, const struct cbx_err *err)
{
	struct cbx_err why = *err;

	if (!s->outfitting)
		return;
	if (err->code) {
		cbx_wrap(&why, "packages");
		s->install = NULL; /* it ends here, not by the session's end */
		cbx_session_fail(s, &why);
		return;
	}
	s->outfitting = false;
	cbx_session_work(s);
}

static void work(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_install *in = arg;
	struct cbx_answer_op *op = cbx_op_take(&in->op);
	_cleanup_json_ cJSON *answer = NULL;
	struct cbx_err err = in->failure;

	if (!err.code) {
		answer = cbx_install_outcome(in);
		if (in->token[0])
			remember(in);
	}
	if (in->target && !in->elsewhere)
		tell_installed(in, in->failure.code ? &err : NULL);
	if (in->target)
		fitted_out(in->target, &err);
	if (in->target && !in->elsewhere)
		cbx_session_note(in->target,
				 err.code ? "packages were not installed: %.300s" : "packages were installed%s",
				 err.code ? err.msg : "");
	install_free(in);
	if (op)
		op->done(op, answer, err.code ? &err : NULL);
}

static void late(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_err err;

	cbx_refuse(&err, "timeout", ETIMEDOUT,
		   "the installation took more than %d s, and was given up; try again, or ask for less",
		   CBX_INSTALL_TIMEOUT_S);
	cbx_install_end(arg, &err);
}

/* ---- steps 3 to 5 ---- */

/* What an interpreter says is hostile: only names that were installed count, and of them only versions. */
static void stale(struct cbx_answer_op *op, const cJSON *answer, const struct cbx_err *err)
{
	struct cbx_install *in = cbx_container_of(op, struct cbx_install, stale);
	const cJSON *p;

	for (size_t i = 0; !err && i < in->lock.n; i++)
		cJSON_ArrayForEach(p, answer) {
			const char *name = cbx_json_text(p, "name"), *version = cbx_json_text(p, "version");
			char normal[CBX_PROJECT_MAX];
			struct cbx_version v;
			cJSON *o;

			if (!cbx_project_name(name, strlen(name), normal) ||
			    strcmp(normal, cbx_kind_bare(in->lock.wheels[i].name)) != 0 ||
			    !cbx_version_parse(version, strlen(version), &v))
				continue;
			o = cbx_json_new_obj();
			cbx_json_set_str(o, "name", normal);
			cbx_json_set_str(o, "version", version);
			cbx_json_set_str(o, "installed", in->lock.wheels[i].version);
			if (!in->imported)
				in->imported = cbx_json_new_arr();
			cbx_json_push(in->imported, o);
			break;
		}
	cbx_install_end(in, NULL); /* it is installed, whether or not there was an answer */
}

static void told(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_install *in = cbx_container_of(op, struct cbx_install, file);
	struct cbx_err full;

	/* Packages take no room of the session's disk; the line that names them does. */
	if (err && strcmp(err->kind, "disk_full") == 0) {
		cbx_refuse(&full, err->kind, err->code,
			   "the disk of session %s is full, so the packages cannot be named to its interpreter; remove "
			   "files of the session, or use one with more disk, and install them again",
			   in->target->spec.id);
		err = &full;
	}

	in->stale = (struct cbx_answer_op){ .op.ops = &in->caller.ops, .done = stale };
	if (err || in->over || in->target->outfitting || !cbx_cells_ask_stale(&in->target->cells, &in->stale))
		cbx_install_end(in, err);
	else
		cbx_session_work(in->target);
}

/* Tell the session's interpreters where its packages are. */
static int tell(struct cbx_install *in, struct cbx_err *err)
{
	const char *version = cbx_json_text(in->found, "python");
	_cleanup_free_ char *path = NULL, *text = NULL;

	if (!version || strlen(version) > 10 || version[strspn(version, "0123456789.")])
		return cbx_refuse(err, "invalid_lock", EBADMSG, "the resolver does not say which Python it is");
	path = cbx_xasprintf(CBX_INSIDE_HOME "/.local/lib/python%s/site-packages/codebox-%s.pth", version,
			     in->kind == CBX_KIND_CONDA ? "prefix" : "packages");
	text = in->kind == CBX_KIND_CONDA
		       ? cbx_xasprintf(CBX_INSIDE_PACKAGES "/%s/lib/python%s/site-packages\n", in->token, version)
		       : cbx_xasprintf(CBX_INSIDE_PACKAGES "/%s/site\n", in->token);
	in->file = (struct cbx_file_op){ .op.ops = &in->caller.ops, .done = told };
	return cbx_session_file_write(in->target, path, 0, CBX_FILE_TRUNCATE, text, strlen(text), &in->file, err);
}

static void attached(struct cbx_session *s, const struct cbx_err *err)
{
	struct cbx_install *in = s->install;
	struct cbx_err ours;

	if (!in || in->over || !in->token[0])
		return;
	if (!err && in->kind == CBX_KIND_NPM) {
		cbx_install_warn_of_changed(in);
		if (!in->scripts)
			cbx_install_end(in, NULL);
		else if (cbx_install_scripts(in, &ours) < 0)
			cbx_install_end(in, &ours);
		else
			cbx_timer_set(in->timer, (CBX_INSTALL_TIMEOUT_S + 30) * 1000ull);
	} else if (err || tell(in, &ours) < 0) {
		cbx_install_end(in, err ? err : &ours);
	}
}

/* A sandbox that is being set up may wait for a mount that does not answer; the supervisor is not to wait with it. */
static void show(struct cbx_session *s)
{
	struct cbx_install *in = s->install;

	if (!in || in->over || in->shown || !in->token[0] || !s->box.init.ready)
		return;
	in->shown = true;
	cbx_link_packages(&s->box, in->token);
}

static void installed(struct cbx_job *j)
{
	struct cbx_install *in = cbx_container_of(j, struct cbx_install, job);
	_cleanup_json_ cJSON *answer = NULL;
	struct cbx_err err = { 0 };
	const char *token;
	size_t rest;
	int r = cbx_job_read(j, &answer, &rest, &err);

	token = r < 0 ? NULL : cbx_json_text(answer, "token");
	if (r >= 0 && (!token || strcmp(token, in->making) != 0))
		r = cbx_refuse(&err, "install_failed", EBADMSG, "the process that installs packages gave no answer");
	if (r >= 0 && in->over)
		return;
	if (r >= 0) {
		memcpy(in->token, in->making, sizeof(in->token));
		in->making[0] = '\0';
		in->scripts = cJSON_IsTrue(cbx_json_member(answer, "scripts"));
		cbx_install_warn_of_added(in, cbx_json_member(answer, "warnings"));
		drop_token(in->target, token); /* when the session ends */
		show(in->target);
	}
	if (r < 0)
		cbx_install_end(in, &err);
}

static void add_names(cJSON *list, const struct cbx_requirements *names)
{
	for (size_t i = 0; i < names->n; i++)
		cbx_json_push_str(list, names->all[i].name);
}

/* What is compared before anything is fetched; names that the policy has are meant. */
static void set_checks(cJSON *job, const struct cbx_install *in)
{
	cJSON *paths = cbx_json_new_arr(), *asked = cbx_json_new_arr(), *known = cbx_json_new_arr();
	const struct cbx_policy *p = in->target->policy;

	for (size_t i = 0; i < p->nadvisories; i++)
		cbx_json_push_str(paths, p->advisories[i]);
	add_names(asked, &in->wanted);
	add_names(known, &p->packages.allow);
	add_names(known, &p->packages.versions);
	cbx_json_set(job, "advisories", paths);
	cbx_json_set_str(job, "on_advisory",
			 p->values[CBX_KEY_ON_ADVISORY].ceiling == CBX_ADVISORY_WARN ? "warn" : "refuse");
	cbx_json_set(job, "asked", asked);
	cbx_json_set(job, "known", known);
}

static void begin_install(struct cbx_install *in)
{
	_cleanup_json_ cJSON *job = cbx_json_new_obj();
	const struct cbx_policy *p = in->target->policy;
	_cleanup_free_ char *at = NULL;
	struct cbx_err err;

	cbx_random_name(in->making, sizeof(in->making) - 1);
	at = cbx_xasprintf(CBX_INSIDE_PACKAGES "/%s", in->making);
	cbx_json_set_str(job, "job", "install");
	cbx_json_set_str(job, "token", in->making);
	cbx_json_set_str(job, "index", p->index);
	cbx_json_set_str(job, "registry", p->registry);
	cbx_json_set_u64(job, "bytes_max", p->values[CBX_KEY_INSTALL_SIZE].ceiling);
	cbx_json_set_u64(job, "cache", p->values[CBX_KEY_CACHE].ceiling);
	cbx_json_set_bool(job, "scripts",
			  in->kind == CBX_KIND_NPM && p->values[CBX_KEY_SCRIPTS].ceiling && !in->sums.no_scripts);
	if (in->kind == CBX_KIND_CONDA) {
		cbx_json_set(job, "channels", cbx_channels_json(p));
		cbx_json_set_str(job, "at", at);
		cbx_json_set_str(job, "version", cbx_json_text(in->found, "python"));
	}
	cbx_json_set_str(job, "python", cbx_wanted_program(in->target, CBX_KIND_PYTHON));
	cbx_json_set(job, "packages", cJSON_Duplicate(cbx_json_member(in->found, "packages"), 1));
	set_checks(job, in);
	in->job.done = installed;
	in->job.max = ANSWER_MAX;
	cbx_timer_set(in->timer, CBX_INSTALL_TIMEOUT_S * 1000ull);
	in->installing = cbx_job_begin(in->engine->jobs, &in->job, job, &err) >= 0;
	if (!in->installing)
		cbx_install_end(in, &err);
}

/* ---- step 2 ---- */

int cbx_install_allowed(const struct cbx_session *s, struct cbx_err *err)
{
	if (!s->policy->values[CBX_KEY_INSTALL].ceiling)
		return cbx_refuse(
			err, "package_refused", EPERM,
			"the policy %s does not let packages be installed (packages.install); use what the image "
			"has, or ask whoever runs codebox",
			s->policy->name);
	if (!s->engine->jobs || !s->has_packages || !s->engine->boxes.link.facts.overlay)
		return cbx_refuse(
			err, "no_packages", ENOSYS,
			"packages cannot be installed in this session; it needs a kernel with overlays in user "
			"namespaces, and a policy that allowed packages when the session was made");
	return 0;
}

static bool all_there(const struct cbx_install *in)
{
	for (size_t i = 0; i < in->lock.n; i++)
		if (!cbx_wanted_had(in->target->packages, &in->lock.wheels[i]))
			return false;
	return true;
}

static int check_kind(const struct cbx_install *in, struct cbx_err *err)
{
	return !in->lock.n || cbx_kind_of(in->lock.wheels[0].name) == in->kind
		       ? 0
		       : cbx_refuse(err, "invalid_lock", EBADMSG, "the resolver found packages of another kind");
}

static void judge(struct cbx_install *in)
{
	const struct cbx_policy *p = in->target->policy;
	struct cbx_err err;

	in->judged = true;
	cbx_resolver_close(in);
	if (cbx_lock_read(in->found, &in->lock, &err) < 0 || check_kind(in, &err) < 0 ||
	    cbx_lock_judge(&in->lock, &p->packages, p->values[CBX_KEY_INSTALL_SIZE].ceiling, &err) < 0 ||
	    cbx_wanted_sums(in, &err) < 0) {
		cbx_install_end(in, &err);
		return;
	}
	cbx_resolved_keep(in);
	if (in->elsewhere || all_there(in))
		cbx_install_end(in, NULL);
	else if (cbx_install_allowed(in->target, &err) < 0)
		cbx_install_end(in, &err);
	else
		begin_install(in);
}

/* Everything that is not to happen inside of a call. */
static void turn(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_install *in = arg;

	if (in->over)
		work(fd, what, in);
	else if (in->found && !in->judged)
		judge(in);
	else if (in->facts && !in->resolving)
		cbx_resolver_next(in);
	else
		cbx_resolver_go_on(in);
}

/* ---- the beginning ---- */

/* elsewhere: as in install.h; it is taken. */
static int begin(const struct cbx_caller *by, struct cbx_session *s, const cJSON *asked, cJSON *elsewhere,
		 struct cbx_answer_op *op, struct cbx_err *err)
{
	_cleanup_json_ cJSON *target = elsewhere, *names = NULL;
	struct cbx_requirements wanted = { 0 };
	struct cbx_sums sums = { 0 };
	struct cbx_install *in;
	int r = cbx_wanted_spelled(s, asked, &sums, &names, err);

	if (r >= 0)
		r = cbx_wanted_check(s, names, &wanted, err);
	if (r >= 0 && s->packages && cJSON_GetArraySize(s->packages->tokens) >= CBX_INSTALLATIONS_MAX)
		r = cbx_refuse(
			err, "busy", EMFILE,
			"packages were installed %d times in session %s, and what each gave stays until it ends; "
			"make another session, and install all that it needs at once",
			CBX_INSTALLATIONS_MAX, s->spec.id);
	if (r >= 0 && target && cbx_kind_of(wanted.all[0].name) != CBX_KIND_PYTHON)
		r = cbx_refuse(err, "invalid_argument", EINVAL, "%s: a lock is of packages of Python alone; omit it",
			       wanted.all[0].name);
	if (r < 0) {
		cbx_requirements_release(&wanted);
		cbx_sums_release(&sums);
		return r;
	}
	in = cbx_xcalloc(1, sizeof(*in));
	in->engine = s->engine;
	in->target = s;
	in->known = by && by->via;
	if (in->known)
		in->via = *by->via;
	in->wanted = wanted;
	in->sums = sums;
	in->kind = cbx_kind_of(wanted.all[0].name);
	in->principal = (struct cbx_principal){ .tenant = "-packages" }; /* nobody can have this name */
	in->caller = (struct cbx_caller){ .engine = s->engine, .principal = &in->principal };
	in->job.fd = -1;
	TAILQ_INIT(&in->busy);
	TAILQ_INIT(&in->idle);
	TAILQ_INIT(&in->waiting);
	in->elsewhere = take_ptr(&target);
	in->requirements = cbx_wanted_gather(in, names);
	in->newest = cJSON_GetArraySize(names) > (int)in->wanted.n;
	in->work = event_new(s->engine->base, -1, 0, turn, in);
	in->timer = event_new(s->engine->base, -1, 0, late, in);
	r = in->work && in->timer ? cbx_resolver_begin(in, err) : cbx_fail(err, ENOMEM, "watch an installation");
	if (r < 0) {
		in->target = NULL;
		install_free(in);
		return r;
	}
	s->install = in;
	TAILQ_INSERT_TAIL(&s->engine->installs, in, entry);
	cbx_timer_set(in->timer, CBX_INSTALL_TIMEOUT_S * 1000ull);
	cbx_session_touch(s);
	if (op)
		cbx_op_begin(&op->op, &in->op);
	return 0;
}

int cbx_session_install(const struct cbx_caller *by, struct cbx_session *s, const cJSON *asked,
			struct cbx_answer_op *op, struct cbx_err *err)
{
	return begin(by, s, asked, NULL, op, err);
}

int cbx_session_lock(const struct cbx_caller *by, struct cbx_session *s, const cJSON *asked, const char *python,
		     const char *machine, struct cbx_answer_op *op, struct cbx_err *err)
{
	cJSON *elsewhere;

	if (!cbx_starts_with(python, "3.") || !python[2] || strlen(python) > 5 ||
	    python[2 + strspn(python + 2, "0123456789")])
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "\"%.20s\" is not a version of Python; write one such as 3.11", python);
	if (!machine[0] || strlen(machine) > 20 || machine[strspn(machine, "abcdefghijklmnopqrstuvwxyz0123456789_")])
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "\"%.20s\" is not a machine; write one such as x86_64", machine);
	elsewhere = cbx_json_new_obj();
	cbx_json_set_str(elsewhere, "python", python);
	cbx_json_set_str(elsewhere, "machine", machine);
	return begin(by, s, asked, elsewhere, op, err);
}

static int outfit(const struct cbx_caller *by, struct cbx_session *s, const cJSON *names, struct cbx_err *err)
{
	int r = cbx_session_install(by, s, names, NULL, err);

	s->outfitting = r >= 0;
	return r < 0 ? cbx_wrap(err, "packages") : 0;
}

/* ---- the end of a session ---- */

static void leave(struct cbx_session *s)
{
	struct cbx_install *in = s->install;

	in->target = NULL;
	s->install = NULL;
	in->over = true;
	cbx_refuse(&in->failure, "session_expired", ENOENT, "session %s was closed while packages were being installed",
		   s->spec.id);
	event_active(in->work, EV_TIMEOUT, 1);
}

static void release(struct cbx_session *s)
{
	struct cbx_packages *p = take_ptr(&s->packages);

	if (p->tokens)
		drop_directories(s->engine, p->tokens);
	for (size_t i = 0; i < ARRAY_SIZE(p->had); i++) {
		cJSON_Delete(p->had[i].requirements);
		cJSON_Delete(p->had[i].wheels);
	}
	free(p);
}

const struct cbx_packages_events cbx_packages_events = {
	.outfit = outfit,
	.ready = show,
	.attached = attached,
	.leave = leave,
	.release = release,
};

/* At the engine's end: nobody is called any more. */
void cbx_packages_end(struct cbx_engine *e)
{
	struct cbx_install *in, *next;

	TAILQ_FOREACH_SAFE(in, &e->installs, entry, next) {
		struct cbx_op *op = in->op;

		if (op)
			cbx_op_cancel(op);
		install_free(in);
	}
	cbx_resolved_free(take_ptr(&e->resolved));
}
