/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what goes to an object store is asked of codebox-upload, which has the network. It gets the
 * store's secret with each job; codeboxd itself uses that for links, which are computed and not asked for.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "objects/sign.h"
#include "policy/policy.h"
#include "session/internal.h"
#include "session/jobs.h"
#include "session/kept.h"

static const struct cbx_jobs_program program = { .name = "codebox-upload",
						 .does = "uploads artifacts",
						 .kind = "no_upload" };

int cbx_objects_new(struct cbx_engine *e, const char *artifacts_dir, struct cbx_err *err)
{
	if (!e->policy->objects.json)
		return 0;
	return cbx_jobs_new(e->base, &program, e->config.libexec_dir, artifacts_dir, NULL, &e->upload_jobs, err);
}

static int secret_of(const struct cbx_engine *e, const struct cbx_object_store *s, const char **ret,
		     struct cbx_err *err)
{
	if (!e->config.secret)
		return cbx_refuse(err, "internal", ENOENT, "there are no secrets here");
	return e->config.secret(e->config.arg, &s->secret, ret, err) < 0 ? cbx_wrap(err, "artifacts.store") : 0;
}

static int begin(struct cbx_engine *e, const struct cbx_object_store *s, struct cbx_job *j, cJSON *what,
		 uint64_t wait_ms, struct cbx_err *err)
{
	const char *secret = NULL;
	cJSON *node;
	int r;

	if (!e->upload_jobs)
		return cbx_refuse(err, "no_upload", ENOSYS,
				  "this codeboxd was started without an object store; restart it (codebox stop)");
	r = secret_of(e, s, &secret, err);
	if (r < 0)
		return r;
	cbx_json_set(what, "store", cJSON_Duplicate(s->json, 1));
	cbx_json_set_u64(what, "timeout_ms", wait_ms);
	cbx_json_set_str(what, "secret", secret);
	j->max = KIB(16);
	r = cbx_job_begin(e->upload_jobs, j, what, err);
	node = cJSON_GetObjectItemCaseSensitive(what, "secret");
	explicit_bzero(node->valuestring, strlen(node->valuestring));
	return r;
}

int cbx_objects_upload(struct cbx_session *s, const cJSON *about, struct cbx_job *j, cJSON **ret_object,
		       struct cbx_err *err)
{
	const struct cbx_object_store *store = &s->policy->objects;
	_cleanup_json_ cJSON *what = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf key = { 0 }, place = { 0 };
	const char *id = cbx_json_text(about, "artifact_id"), *type = cbx_json_text(about, "mime_type");
	int r;

	cbx_objects_key(store->json, s->tenant, s->spec.id, id, cbx_json_text(about, "path"), &key);
	cbx_objects_place(store->json, &place);
	if (key.len > CBX_OBJECT_KEY_MAX)
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"its name would have more than %d bytes there; shorten the path, or the store's prefix",
			CBX_OBJECT_KEY_MAX);
	cbx_json_set_str(what, "job", "upload");
	cbx_json_set_str(what, "key", cbx_buf_str(&key));
	cbx_json_set_str(what, "tenant", s->tenant);
	cbx_json_set_str(what, "id", id);
	cbx_json_set_u64(what, "size", cbx_json_u64(about, "size"));
	cbx_json_set_str(what, "mime_type", type && cbx_plain(type) ? type : "application/octet-stream");
	r = begin(s->engine, store, j, what, CBX_ARTIFACTS_WAIT_MS, err);
	if (r < 0)
		return r;
	*ret_object = cbx_json_new_obj();
	cbx_json_set_str(*ret_object, "store", cbx_buf_str(&place));
	cbx_json_set_str(*ret_object, "key", cbx_buf_str(&key));
	return 0;
}

/* The key of an object in the store that is in force; NULL: it is in another one. */
static const char *key_of(const struct cbx_engine *e, const cJSON *object)
{
	const char *store = cbx_json_text(object, "store");
	_cleanup_buf_ struct cbx_buf place = { 0 };

	if (!store || !e->policy->objects.json)
		return NULL;
	cbx_objects_place(e->policy->objects.json, &place);
	return strcmp(store, cbx_buf_str(&place)) == 0 ? cbx_json_text(object, "key") : NULL;
}

int cbx_objects_remove(struct cbx_engine *e, const cJSON *object, struct cbx_job *j, struct cbx_err *err)
{
	_cleanup_json_ cJSON *what = cbx_json_new_obj();
	const char *key = key_of(e, object), *store = cbx_json_text(object, "store");

	if (!key)
		return cbx_refuse(err, "store_differs", EXDEV,
				  "its copy stays in %.200s, which is not the policy's store now; remove it there",
				  store ? store : "");
	cbx_json_set_str(what, "job", "remove");
	cbx_json_set_str(what, "key", key);
	return begin(e, &e->policy->objects, j, what, CBX_UPLOAD_REMOVE_MS, err);
}

bool cbx_objects_link(const struct cbx_engine *e, const cJSON *object, uint64_t until, struct cbx_buf *out)
{
	const char *key = key_of(e, object), *secret;
	uint64_t now = (uint64_t)time(NULL);
	struct cbx_objects o = { 0 };
	struct cbx_err ignored;
	bool done;

	if (!key || secret_of(e, &e->policy->objects, &secret, &ignored) < 0 ||
	    cbx_objects_read(e->policy->objects.json, secret, &o, &ignored) < 0)
		return false;
	done = cbx_objects_sign_link(&o, key, (time_t)now, until > now ? until - now : 1, out);
	cbx_objects_forget(&o);
	return done;
}
