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
	if (!e->policy->objects.json && !e->policy->stores.n)
		return 0;
	return cbx_jobs_new(e->base, &program, e->config.libexec_dir, artifacts_dir, NULL, &e->upload_jobs, err);
}

/* A store and its secret: of a request, or the policy's. */
struct place {
	const cJSON *json;
	const char *secret;
};

static int secret_of(const struct cbx_engine *e, const struct cbx_object_store *s, const char **ret,
		     struct cbx_err *err)
{
	if (!e->config.secret)
		return cbx_refuse(err, "internal", ENOENT, "there are no secrets here");
	return e->config.secret(e->config.arg, &s->secret, ret, err) < 0 ? cbx_wrap(err, "artifacts.store") : 0;
}

static const cJSON *json_of(const struct cbx_object_store *s, const cJSON *own)
{
	return own ? cbx_json_member(own, "store") : s->json;
}

static int place_of(const struct cbx_engine *e, const struct cbx_object_store *s, const cJSON *own, struct place *ret,
		    struct cbx_err *err)
{
	*ret = (struct place){ .json = json_of(s, own), .secret = cbx_json_text(own, "secret") };
	return own ? 0 : secret_of(e, s, &ret->secret, err);
}

static int begin(struct cbx_engine *e, const struct place *p, struct cbx_job *j, cJSON *what, uint64_t wait_ms,
		 struct cbx_err *err)
{
	cJSON *node;
	int r;

	if (!e->upload_jobs)
		return cbx_refuse(err, "no_upload", ENOSYS,
				  "this codeboxd was started without an object store; restart it (codebox stop)");
	cbx_json_set(what, "store", cJSON_Duplicate(p->json, 1));
	cbx_json_set_u64(what, "timeout_ms", wait_ms);
	cbx_json_set_str(what, "secret", p->secret);
	j->max = KIB(16);
	r = cbx_job_begin(e->upload_jobs, j, what, err);
	node = cbx_json_member(what, "secret");
	explicit_bzero(node->valuestring, strlen(node->valuestring));
	return r;
}

int cbx_objects_upload(struct cbx_session *s, const cJSON *about, const cJSON *own, struct cbx_job *j,
		       cJSON **ret_object, struct cbx_err *err)
{
	_cleanup_json_ cJSON *what = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf key = { 0 }, name = { 0 };
	const char *id = cbx_json_text(about, "artifact_id"), *type = cbx_json_text(about, "mime_type");
	struct place place;
	int r = place_of(s->engine, &s->policy->objects, own, &place, err);

	if (r < 0)
		return r;
	cbx_objects_key(place.json, s->tenant, s->spec.id, id, cbx_json_text(about, "path"), &key);
	cbx_objects_place(place.json, &name);
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
	r = begin(s->engine, &place, j, what, CBX_ARTIFACTS_WAIT_MS, err);
	if (r < 0)
		return r;
	*ret_object = cbx_json_new_obj();
	cbx_json_set_str(*ret_object, "store", cbx_buf_str(&name));
	cbx_json_set_str(*ret_object, "key", cbx_buf_str(&key));
	return 0;
}

/* The key of an object in this store; NULL: it is in another one. */
static const char *key_in(const cJSON *json, const cJSON *object)
{
	const char *store = cbx_json_text(object, "store");
	_cleanup_buf_ struct cbx_buf name = { 0 };

	if (!store || !json)
		return NULL;
	cbx_objects_place(json, &name);
	return strcmp(store, cbx_buf_str(&name)) == 0 ? cbx_json_text(object, "key") : NULL;
}

int cbx_objects_remove(struct cbx_engine *e, const cJSON *object, const cJSON *own, struct cbx_job *j,
		       struct cbx_err *err)
{
	_cleanup_json_ cJSON *what = cbx_json_new_obj();
	const char *key = key_in(json_of(&e->policy->objects, own), object), *store = cbx_json_text(object, "store");
	struct place place;

	if (!key)
		return cbx_refuse(err, "store_differs", EXDEV,
				  "its copy stays in %.200s, which is not the policy's store now; remove it there",
				  store ? store : "");
	if (place_of(e, &e->policy->objects, own, &place, err) < 0)
		return -err->code;
	cbx_json_set_str(what, "job", "remove");
	cbx_json_set_str(what, "key", key);
	return begin(e, &place, j, what, CBX_UPLOAD_REMOVE_MS, err);
}

bool cbx_objects_link(const struct cbx_engine *e, const cJSON *object, const cJSON *own, uint64_t until,
		      struct cbx_buf *out)
{
	const char *key = key_in(json_of(&e->policy->objects, own), object);
	uint64_t now = (uint64_t)time(NULL);
	struct cbx_objects o = { 0 };
	struct cbx_err ignored;
	struct place place;
	bool done;

	if (!key || place_of(e, &e->policy->objects, own, &place, &ignored) < 0 ||
	    cbx_objects_read(place.json, place.secret, &o, &ignored) < 0)
		return false;
	done = cbx_objects_sign_link(&o, key, (time_t)now, until > now ? until - now : 1, out);
	cbx_objects_forget(&o);
	return done;
}
