/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd has no directory of artifacts: it asks codebox-store, by a job for each question. What a
 * link says is signed with a key that codebox-store does not have.
 */
#include "session/artifacts.h"

#include <errno.h>
#include <inttypes.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/timer.h"
#include "session/internal.h"
#include "session/jobs.h"
#include "session/kept.h"

/* A question, and who asked. */
struct request {
	LIST_ENTRY(request) entry;
	struct cbx_artifacts *all;
	struct cbx_job job;
	struct cbx_op *op;
	char tenant[CBX_NAME_MAX + 1]; /* whose it is; "": whoever has a link asks, or codeboxd itself */
	bool removing;		       /* its copy in an object store is still to go */
};

struct cbx_artifacts {
	struct cbx_engine *engine;
	struct cbx_jobs *jobs;
	LIST_HEAD(, request) requests;
	size_t n;
	struct event *sweep;
	uint8_t key[CBX_LINK_KEY];
	char *base;
};

/* ---- questions ---- */

static void request_free(struct request *q)
{
	cbx_job_end(&q->job);
	cbx_op_take(&q->op);
	LIST_REMOVE(q, entry);
	q->all->n--;
	free(q);
}

static void answered(struct cbx_job *j);

/* What was removed here has a copy in the object store, which goes next: true. */
static bool remove_copy(struct request *q, struct cbx_artifact_op *op, const cJSON *answer, struct cbx_err *err)
{
	const cJSON *object = cbx_json_member(answer, "object");

	q->removing = false;
	if (!cJSON_IsObject(object))
		return false;
	cbx_job_end(&q->job);
	q->job = (struct cbx_job){ .fd = -1, .done = answered };
	if (cbx_objects_remove(q->all->engine, object, NULL, &q->job, err) < 0)
		return false;
	if (op)
		cbx_op_begin(&op->op, &q->op);
	return true;
}

static void answered(struct cbx_job *j)
{
	struct request *q = cbx_container_of(j, struct request, job);
	struct cbx_artifact_op *op = cbx_op_take(&q->op);
	_cleanup_json_ cJSON *answer = NULL;
	_cleanup_buf_ struct cbx_buf got = { 0 };
	struct cbx_err err = { 0 };
	size_t rest = 0;
	int r = cbx_job_read(j, &answer, &rest, &err);

	if (r >= 0 && q->removing && remove_copy(q, op, answer, &err))
		return;
	if (err.code)
		r = -err.code;
	if (strcmp(err.kind, "artifact_not_found") == 0)
		err.code = ENOENT;
	if (strcmp(err.kind, "invalid_argument") == 0)
		err.code = EINVAL;
	got = j->got;
	j->got = (struct cbx_buf){ 0 };
	request_free(q);
	if (op)
		op->done(op, r < 0 ? NULL : answer, r < 0 ? NULL : got.data + rest, r < 0 ? 0 : got.len - rest,
			 r < 0 ? &err : NULL);
}

static struct request *request_new(struct cbx_artifacts *all)
{
	struct request *q = cbx_xcalloc(1, sizeof(*q));

	q->all = all;
	q->job = (struct cbx_job){ .fd = -1, .done = answered, .max = CBX_ARTIFACTS_ANSWER_MAX };
	LIST_INSERT_HEAD(&all->requests, q, entry);
	all->n++;
	return q;
}

/* A tenant, and links together, leave places to others. */
static bool has_place(const struct cbx_artifacts *all, const char *tenant)
{
	size_t most = tenant[0] ? CBX_ARTIFACT_REQUESTS_TENANT
				: CBX_ARTIFACT_REQUESTS_MAX - CBX_ARTIFACT_REQUESTS_TENANT,
	       n = 0;
	const struct request *q;

	LIST_FOREACH(q, &all->requests, entry)
		n += strcmp(q->tenant, tenant) == 0;
	return all->n < CBX_ARTIFACT_REQUESTS_MAX && n < most;
}

static int ask(struct cbx_engine *e, const cJSON *job, struct cbx_artifact_op *op, struct cbx_err *err)
{
	struct cbx_artifacts *all = e->artifacts;
	const char *tenant = op ? cbx_json_text(job, "tenant") : NULL;
	struct request *q;
	int r;

	if (!all)
		return cbx_refuse(err, "no_artifacts", ENOSYS, "this codeboxd keeps no artifacts; see its log");
	if (!has_place(all, tenant ? tenant : ""))
		return cbx_refuse(err, "busy", EBUSY,
				  "too many requests for artifacts are under way (up to %d of a tenant, and %d of all); try "
				  "again later",
				  CBX_ARTIFACT_REQUESTS_TENANT, CBX_ARTIFACT_REQUESTS_MAX);
	q = request_new(all);
	snprintf(q->tenant, sizeof(q->tenant), "%s", tenant ? tenant : "");
	q->removing = strcmp(cbx_json_text(job, "job"), "remove") == 0;
	r = cbx_job_begin(all->jobs, &q->job, job, err);
	if (r < 0)
		request_free(q);
	else if (op)
		cbx_op_begin(&op->op, &q->op);
	return r;
}

static cJSON *job_of(const char *what, const char *tenant, const char *id)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "job", what);
	cbx_json_set_str(o, "tenant", tenant);
	cbx_json_set_str(o, "id", id);
	return o;
}

int cbx_artifact_list(struct cbx_caller *caller, struct cbx_artifact_op *op, struct cbx_err *err)
{
	_cleanup_json_ cJSON *job = job_of("list", caller->principal->tenant, NULL);

	return ask(caller->engine, job, op, err);
}

int cbx_artifact_remove(struct cbx_caller *caller, const char *id, struct cbx_artifact_op *op, struct cbx_err *err)
{
	_cleanup_json_ cJSON *job = job_of("remove", caller->principal->tenant, id);

	return ask(caller->engine, job, op, err);
}

int cbx_artifact_read(struct cbx_caller *caller, bool linked, const char *id, uint64_t offset, size_t n,
		      struct cbx_artifact_op *op, struct cbx_err *err)
{
	_cleanup_json_ cJSON *job = job_of("read", linked ? NULL : caller->principal->tenant, id);

	cbx_json_set_u64(job, "offset", offset);
	cbx_json_set_u64(job, "length", n);
	return ask(caller->engine, job, op, err);
}

struct cbx_jobs *cbx_artifacts_jobs(struct cbx_engine *e)
{
	return e->artifacts ? e->artifacts->jobs : NULL;
}

void cbx_artifacts_drop(struct cbx_engine *e, const char *tenant, const char *id)
{
	_cleanup_json_ cJSON *job = job_of("remove", tenant, id);
	struct cbx_err ignored;

	(void)ask(e, job, NULL, &ignored);
}

void cbx_artifacts_drop_copy(struct cbx_engine *e, const char *tenant, const cJSON *object, const cJSON *own)
{
	struct cbx_err ignored;
	struct request *q;

	if (!has_place(e->artifacts, tenant))
		return;
	q = request_new(e->artifacts);
	snprintf(q->tenant, sizeof(q->tenant), "%s", tenant);
	if (cbx_objects_remove(e, object, own, &q->job, &ignored) < 0)
		request_free(q);
}

/* ---- links ---- */

void cbx_artifact_links_at(struct cbx_engine *e, const char *base)
{
	if (!e->artifacts)
		return;
	free(e->artifacts->base);
	e->artifacts->base = base ? cbx_xstrdup(base) : NULL;
}

static void sign(const struct cbx_artifacts *all, const char *id, const char *expires, char out[65])
{
	_cleanup_free_ char *text = cbx_xasprintf("codebox artifact\n%s\n%s", id, expires);
	struct hmac_sha256_ctx c;
	uint8_t sum[SHA256_DIGEST_SIZE];

	hmac_sha256_set_key(&c, sizeof(all->key), all->key);
	hmac_sha256_update(&c, strlen(text), (const uint8_t *)text);
	hmac_sha256_digest(&c, sizeof(sum), sum);
	cbx_hex(sum, sizeof(sum), out);
}

void cbx_artifact_terms(const struct cbx_session *s, struct cbx_artifact_terms *ret)
{
	const struct cbx_policy *p = s->policy;

	ret->kept = s->engine->artifacts && p->values[CBX_KEY_KEEP].ceiling;
	ret->link_s = p->values[CBX_KEY_LINK_EXPIRY].ceiling / 1000;
	ret->bucket = ret->kept && p->objects.json ? cbx_json_text(p->objects.json, "bucket") : NULL;
}

int cbx_artifact_store(const struct cbx_session *s, const char *string, const char *container, cJSON **ret,
		       struct cbx_err *err)
{
	struct cbx_artifact_terms terms;
	char *secret = NULL;
	cJSON *store = NULL;
	int r;

	*ret = NULL;
	if (!string)
		return cbx_refuse(err, "invalid_argument", EINVAL, "missing header: %s; give it with %s", CBX_STORE_STRING,
				  CBX_STORE_CONTAINER);
	cbx_artifact_terms(s, &terms);
	if (!terms.kept)
		return cbx_refuse(err, "no_artifacts", EPERM,
				  "%s: the policy keeps no artifacts (artifacts.keep); ask whoever runs codebox",
				  CBX_STORE_STRING);
	r = cbx_object_store_of_string(&s->policy->stores, string, container, &store, &secret, err);
	if (r < 0)
		return cbx_wrap(err, strstr(err->msg, "container: ") ? CBX_STORE_CONTAINER : CBX_STORE_STRING);
	*ret = cbx_json_new_obj();
	cbx_json_set(*ret, "store", store);
	cbx_json_set_str(*ret, "secret", secret);
	cbx_str_wipe(&secret);
	return 0;
}

bool cbx_artifact_link(const struct cbx_caller *caller, const cJSON *about, const cJSON *store, uint64_t seconds,
		       struct cbx_buf *out, uint64_t *ret)
{
	const cJSON *object = cbx_json_member(about, "object");
	uint64_t artifact_expires = cbx_json_u64(about, "expires");
	const char *id = cbx_json_text(about, "artifact_id");
	const struct cbx_policy *ceiling = caller->principal->ceiling;
	const struct cbx_artifacts *all = caller->engine->artifacts;
	uint64_t most = caller->engine->policy->values[CBX_KEY_LINK_EXPIRY].ceiling / 1000;
	char expires[24], signature[65];

	if (!all || !id)
		return false;
	if (ceiling && ceiling->values[CBX_KEY_LINK_EXPIRY].ceiling / 1000 < most)
		most = ceiling->values[CBX_KEY_LINK_EXPIRY].ceiling / 1000;
	*ret = (uint64_t)time(NULL) + (seconds && seconds < most ? seconds : most);
	if (*ret > artifact_expires)
		*ret = artifact_expires;
	if (object && cbx_objects_link(caller->engine, object, store, *ret, out))
		return true;
	if (!all->base)
		return false;
	snprintf(expires, sizeof(expires), "%" PRIu64, *ret);
	sign(all, id, expires, signature);
	cbx_buf_addf(out, "%s/artifacts/%s?expires=%s&signature=%s", all->base, id, expires, signature);
	return true;
}

cJSON *cbx_artifact_list_linked(const struct cbx_caller *caller, const cJSON *about)
{
	cJSON *answer = cJSON_Duplicate(about, 1), *a;
	size_t bytes = 0;

	cJSON_ArrayForEach(a, cbx_json_member(answer, "artifacts")) {
		_cleanup_buf_ struct cbx_buf link = { 0 };
		uint64_t until;

		if (bytes > CBX_ARTIFACT_LINKS_MAX || !cbx_artifact_link(caller, a, NULL, 0, &link, &until))
			continue;
		bytes += link.len;
		cbx_json_set_str(a, "link", cbx_buf_str(&link));
		cbx_json_set_u64(a, "link_expires", until);
	}
	return answer;
}

int cbx_artifact_check_link(const struct cbx_engine *e, const char *id, const char *expires, const char *signature,
			    struct cbx_err *err)
{
	unsigned differ = strlen(signature) != 64;
	uint64_t until = 0;
	char right[65];

	if (!e->artifacts)
		return cbx_refuse(err, "no_artifacts", ENOENT, "this codeboxd keeps no artifacts; see its log");
	sign(e->artifacts, id, expires, right);
	for (size_t i = 0; !differ && i < 64; i++) /* as long for each */
		right[i] = (char)(right[i] ^ signature[i]);
	for (size_t i = 0; !differ && i < 64; i++)
		differ |= (unsigned char)right[i];
	if (differ || cbx_parse_u64(expires, "expires", 0, 1ull << 53, &until, err) < 0)
		return cbx_refuse(err, "wrong_signature", EACCES,
				  "the link is not one of this codeboxd's, or was changed; make another");
	if (until <= (uint64_t)time(NULL))
		return cbx_refuse(err, "link_expired", EACCES, "the link has expired; codebox artifact link makes another");
	return 0;
}

/* ---- start and end ---- */

static void sweep(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_engine *e = arg;
	_cleanup_json_ cJSON *job = job_of("sweep", NULL, NULL);
	struct cbx_err ignored;

	(void)ask(e, job, NULL, &ignored);
	cbx_timer_set(e->artifacts->sweep, CBX_ARTIFACTS_SWEEP_S * 1000ull);
}

static const struct cbx_jobs_program artifacts_program = { .name = "codebox-store",
							   .does = "keeps artifacts",
							   .kind = "no_artifacts" };

int cbx_artifacts_new(struct cbx_engine *e, struct cbx_err *err)
{
	struct cbx_artifacts *all;
	int r;

	if (!e->config.artifacts_dir)
		return 0;
	all = e->artifacts = cbx_xcalloc(1, sizeof(*all));
	all->engine = e;
	LIST_INIT(&all->requests);
	memcpy(all->key, e->config.link_key, sizeof(all->key));
	e->config.link_key = NULL;
	r = cbx_jobs_new(e->base, &artifacts_program, e->config.libexec_dir, e->config.artifacts_dir, NULL, &all->jobs, err);
	if (r >= 0)
		r = cbx_objects_new(e, e->config.artifacts_dir, err);
	e->config.artifacts_dir = NULL;
	all->sweep = event_new(e->base, -1, 0, sweep, e);
	if (r >= 0 && !all->sweep)
		r = cbx_fail(err, ENOMEM, "watch artifacts");
	if (r >= 0 && e->config.artifacts_left)
		cbx_timer_set(all->sweep, CBX_ARTIFACTS_FIRST_MS);
	return r;
}

void cbx_artifacts_wanted(struct cbx_engine *e)
{
	if (e->artifacts && !event_pending(e->artifacts->sweep, EV_TIMEOUT, NULL))
		cbx_timer_set(e->artifacts->sweep, CBX_ARTIFACTS_SWEEP_S * 1000ull);
}

void cbx_artifacts_free(struct cbx_engine *e)
{
	struct cbx_artifacts *all = e->artifacts;

	if (!all)
		return;
	while (!LIST_EMPTY(&all->requests))
		request_free(LIST_FIRST(&all->requests));
	cbx_jobs_free(all->jobs);
	cbx_jobs_free(take_ptr(&e->upload_jobs));
	cbx_event_free_p(&all->sweep);
	explicit_bzero(all->key, sizeof(all->key));
	free(all->base);
	free(all);
	e->artifacts = NULL;
}
