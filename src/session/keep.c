/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: when an execution's files are known, and before its end is reported, those that the policy lets
 * live on are read through init in pieces, and each piece goes to codebox-store. So whoever hears of the end has what
 * can be fetched, and may close the session. The next cell waits; one piece is in memory at a time. The file of a query
 * (sql.c) is kept in the same way before its answer is.
 *
 * Names and contents are hostile: nothing is made of a name but a text to show, and a file that has another size by the
 * time it is read is not kept.
 *
 * What is kept is copied to the policy's object store next, and its link leads there then. A copy that fails takes
 * nothing away from what is kept.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "session/artifacts.h"
#include "session/internal.h"
#include "session/jobs.h"
#include "session/kept.h"

#define ID_LENGTH 26 /* characters, of 32 */

struct cbx_keep {
	struct cbx_session *session;
	const cJSON *store; /* of the request, borrowed; NULL: that of the policy */
	uint32_t link_s;
	LIST_ENTRY(cbx_keep) entry;
	void (*done)(struct cbx_session *s, void *arg);
	void (*gone)(void *arg, const char *why);
	void *arg;
	struct cbx_caller caller;
	struct cbx_file_op read;
	struct cbx_job job;
	struct event *step; /* the next file, from the loop */
	cJSON *file;	    /* borrowed, of whoever asks */
	cJSON *about; /* of it: what is known once it is kept */
	char id[CBX_NAME_MAX + 1]; /* that of the node, and ID_LENGTH characters */
	uint64_t size, read_to, sent_to, created, expires;
	struct cbx_buf piece;
	bool sending, begun;
};

static uint64_t allowed(const struct cbx_session *s, enum cbx_key key)
{
	return s->policy->values[key].ceiling;
}

static void read_next(struct cbx_keep *k);

static cJSON *about(const struct cbx_keep *k)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "artifact_id", k->id);
	cbx_json_set_str(o, "session_id", k->session->spec.id);
	cbx_json_set_str(o, "path", cbx_json_text(k->file, "path"));
	cbx_json_set_u64(o, "size", k->size);
	cbx_json_set_str(o, "mime_type", cbx_json_text(k->file, "mime_type"));
	cbx_json_set_u64(o, "created", k->created);
	cbx_json_set_u64(o, "expires", k->expires);
	return o;
}

/* ---- the end of one file ---- */

static void next_file(struct cbx_keep *k)
{
	k->file = k->file->next;
	cbx_timer_set(k->step, 0);
}

static void fail(struct cbx_keep *k, const char *why)
{
	if (k->begun)
		cbx_artifacts_drop(k->session->engine, k->session->tenant, k->id);
	cbx_json_set_str(k->file, "not_kept", why);
	next_file(k);
}

/* It is kept, and copied where it is to be copied. */
static void linked(struct cbx_keep *k)
{
	struct cbx_principal owner = { .ceiling = k->session->policy };
	struct cbx_caller caller = { .engine = k->session->engine, .principal = &owner };
	_cleanup_buf_ struct cbx_buf link = { 0 };
	uint64_t until;
	char when[32];

	if (cbx_artifact_link(&caller, k->about, k->store, k->link_s, &link, &until)) {
		cbx_format_time(until, when);
		cbx_json_set_str(k->file, "link", cbx_buf_str(&link));
		cbx_json_set_str(k->file, "link_expires", when);
	}
	next_file(k);
}

/* ---- the copy in an object store ---- */

static void not_uploaded(struct cbx_keep *k, const char *why)
{
	_cleanup_free_ char *note = cbx_xasprintf("artifact %s is not in the object store: %.300s", k->id, why);
	const struct cbx_engine_config *config = &k->session->engine->config;

	if (config->on_note)
		config->on_note(config->arg, k->session->spec.id, note);
	cbx_json_set_str(k->file, "not_uploaded", why);
	cJSON_DeleteItemFromObjectCaseSensitive(k->about, "object");
	linked(k);
}

/* Its job has ended: 0, or how that failed. */
static int answered(struct cbx_keep *k, struct cbx_err *err)
{
	_cleanup_json_ cJSON *answer = NULL;
	size_t rest;
	int r = cbx_job_read(&k->job, &answer, &rest, err);

	cbx_job_end(&k->job);
	k->sending = false;
	return r;
}

static void copy_noted(struct cbx_job *j)
{
	struct cbx_keep *k = cbx_container_of(j, struct cbx_keep, job);
	struct cbx_err err;

	if (answered(k, &err) < 0) {
		/* Nothing names the copy, and so nothing would remove it: the artifact itself was, meanwhile. */
		cbx_artifacts_drop_copy(k->session->engine, k->session->tenant,
					cbx_json_member(k->about, "object"), k->store);
		not_uploaded(k, err.msg);
	} else {
		linked(k);
	}
}

static void copied(struct cbx_job *j)
{
	struct cbx_keep *k = cbx_container_of(j, struct cbx_keep, job);
	_cleanup_json_ cJSON *note = cbx_json_new_obj();
	struct cbx_err err;
	int r = answered(k, &err);

	if (r >= 0) {
		cbx_json_set_str(note, "job", "stored");
		cbx_json_set_str(note, "tenant", k->session->tenant);
		cbx_json_set_str(note, "id", k->id);
		cbx_json_set(note, "about", cJSON_Duplicate(k->about, 1));
		k->job = (struct cbx_job){ .fd = -1, .done = copy_noted, .max = KIB(16) };
		r = cbx_job_begin(cbx_artifacts_jobs(k->session->engine), &k->job, note, &err);
	}
	if (r < 0)
		not_uploaded(k, err.msg);
	else
		k->sending = true;
}

/* It is complete, and will stay whatever becomes of its copy. */
static void kept(struct cbx_keep *k)
{
	cJSON *object = NULL;
	struct cbx_err err;
	char when[32];

	k->begun = false;
	cbx_json_set_str(k->file, "artifact_id", k->id);
	cbx_format_time(k->expires, when);
	cbx_json_set_str(k->file, "kept_until", when);
	cbx_artifacts_wanted(k->session->engine);
	if (!k->session->policy->objects.json && !k->store) {
		linked(k);
		return;
	}
	k->job = (struct cbx_job){ .fd = -1, .done = copied };
	if (cbx_objects_upload(k->session, k->about, k->store, &k->job, &object, &err) < 0) {
		not_uploaded(k, err.msg);
		return;
	}
	cbx_json_set(k->about, "object", object);
	k->sending = true;
}

/* ---- pieces ---- */

static void put(struct cbx_job *j)
{
	struct cbx_keep *k = cbx_container_of(j, struct cbx_keep, job);
	struct cbx_err err;

	if (answered(k, &err) < 0) {
		k->begun = false; /* it has removed it */
		fail(k, err.msg);
	} else if (k->sent_to == k->size) {
		kept(k);
	} else {
		read_next(k);
	}
}

static void send_piece(struct cbx_keep *k)
{
	_cleanup_json_ cJSON *job = cbx_json_new_obj();
	struct cbx_err err;

	cbx_json_set_str(job, "job", "put");
	cbx_json_set_str(job, "tenant", k->session->tenant);
	cbx_json_set_str(job, "id", k->id);
	cbx_json_set_u64(job, "offset", k->sent_to);
	cbx_json_set_u64(job, "size", k->size);
	cbx_json_set_u64(job, "quota", allowed(k->session, CBX_KEY_QUOTA));
	k->sent_to += k->piece.len;
	if (k->sent_to == k->size)
		cbx_json_set(job, "about", cJSON_Duplicate(k->about, 1));
	k->job = (struct cbx_job){ .fd = -1, .done = put, .max = KIB(16) };
	if (cbx_job_begin_bytes(cbx_artifacts_jobs(k->session->engine), &k->job, job, k->piece.data, k->piece.len, &err) < 0) {
		fail(k, err.msg);
		return;
	}
	k->sending = k->begun = true;
	k->piece.len = 0;
}

static void piece_read(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_keep *k = cbx_container_of(op, struct cbx_keep, read);

	if (err || reply->size != k->size || !reply->len || reply->len > k->size - k->read_to) {
		fail(k, err ? err->msg : "it changed while it was read");
		return;
	}
	cbx_buf_add(&k->piece, reply->data, reply->len);
	k->read_to += reply->len;
	read_next(k);
}

static void read_next(struct cbx_keep *k)
{
	uint64_t left = k->size - k->read_to;
	struct cbx_err err;

	if (!left || k->piece.len + CBX_FILE_CHUNK > CBX_ARTIFACT_PIECE) {
		send_piece(k);
		return;
	}
	k->read = (struct cbx_file_op){ .op.ops = &k->caller.ops, .done = piece_read };
	if (cbx_file_read(&k->session->box, cbx_json_text(k->file, "path"), k->read_to,
				  left < CBX_FILE_CHUNK ? (size_t)left : CBX_FILE_CHUNK, &k->read, &err) < 0)
		fail(k, err.msg);
}

/* ---- all files ---- */

static void begin_file(struct cbx_keep *k)
{
	const char *path = cbx_json_text(k->file, "path");
	_cleanup_free_ char *why = NULL;
	char most[32], unique[ID_LENGTH + 1];

	k->begun = false;
	k->read_to = k->sent_to = 0;
	k->piece.len = 0;
	k->size = cbx_json_u64(k->file, "size");
	k->created = (uint64_t)time(NULL);
	k->expires = k->created + allowed(k->session, CBX_KEY_KEEP) / 1000;
	cbx_random_name(unique, ID_LENGTH);
	snprintf(k->id, sizeof(k->id), "%s%s", k->session->engine->config.node, unique);
	cJSON_Delete(k->about);
	k->about = about(k);
	cbx_format_size(allowed(k->session, CBX_KEY_FILE_SIZE), most);
	if (k->size > allowed(k->session, CBX_KEY_FILE_SIZE))
		why = cbx_xasprintf("the policy keeps files of up to %s (artifacts.file_size)", most);
	else if (!path || strlen(path) > CBX_ARTIFACT_PATH_MAX || strstr(path, "\xef\xbf\xbd"))
		why = cbx_xasprintf("its name is longer than %d bytes, or is not text", CBX_ARTIFACT_PATH_MAX);
	if (why)
		fail(k, why);
	else
		read_next(k);
}

static void step(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_keep *k = arg;

	if (k->file)
		begin_file(k);
	else
		k->done(k->session, k->arg);
}

struct cbx_keep *cbx_keep_files(struct cbx_session *s, const struct cbx_kept_files *files)
{
	struct cbx_keep *k;

	if (!allowed(s, CBX_KEY_KEEP) || !cbx_artifacts_jobs(s->engine) || !files->list || !files->list->child)
		return NULL;
	k = cbx_xcalloc(1, sizeof(*k));
	k->session = s;
	k->store = files->store;
	k->link_s = files->link_s;
	k->done = files->done;
	k->gone = files->gone;
	k->arg = files->arg;
	k->file = files->list->child;
	k->step = event_new(s->engine->base, -1, 0, step, k);
	if (!k->step) {
		free(k);
		return NULL;
	}
	LIST_INSERT_HEAD(&s->keeps, k, entry);
	cbx_timer_set(k->step, 0);
	return k;
}

void cbx_keep_end_all(struct cbx_session *s, const char *why)
{
	struct cbx_keep *k;

	/* Each goes out of the list, and what its end leads to may take others along. */
	while ((k = LIST_FIRST(&s->keeps)))
		k->gone(k->arg, why);
}

void cbx_keep_free(struct cbx_keep *k)
{
	LIST_REMOVE(k, entry);
	if (k->file && k->begun)
		cbx_artifacts_drop(k->session->engine, k->session->tenant, k->id);
	cbx_ops_cancel(&k->caller.ops);
	if (k->sending)
		cbx_job_end(&k->job);
	event_free(k->step);
	cbx_buf_release(&k->piece);
	cJSON_Delete(k->about);
	free(k);
}

/* ---- of an execution ---- */

static void all_kept(struct cbx_session *s, void *arg)
{
	struct cbx_execution *x = arg;

	cbx_keep_leave(s);
	cbx_execution_files_kept(x);
}

bool cbx_keep_begin(struct cbx_session *s, struct cbx_execution *x)
{
	struct cbx_kept_files files = { .list = cbx_execution_files_open(x),
					.store = cbx_execution_store(x),
					.link_s = cbx_execution_link_s(x),
					.done = all_kept,
					.arg = x };

	if (s->keep)
		return false;
	s->keep = cbx_keep_files(s, &files);
	return s->keep;
}

void cbx_keep_leave(struct cbx_session *s)
{
	cbx_keep_free(take_ptr(&s->keep));
}
