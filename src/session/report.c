/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the protocols show of sessions and executions is made here, once, so that all of them say
 * the same. Texts come from a sandbox; every string passes cbx_json_set_str(), which makes it valid UTF-8.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "session/bundle.h"
#include "session/internal.h"

/* ---- executions ---- */

static void set_text(cJSON *o, const char *key, const struct cbx_execution *x, enum cbx_stream stream)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_output_text(&x->output, stream, x->spill ? cbx_spill_where(x->spill) : NULL, &text);
	cbx_json_set_strn(o, key, cbx_buf_str(&text), text.len);
}

static void set_message(cJSON *o, const struct cbx_execution *x)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_buf_add(&text, cbx_buf_str(&x->note), x->note.len);
	cbx_buf_add(&text, cbx_buf_str(&x->message), x->message.len);
	while (text.len && text.data[text.len - 1] == ' ') /* notes are sentences with a space for what comes next */
		text.data[--text.len] = '\0';
	if (x->displays_dropped)
		cbx_buf_addf(&text,
			     "%s%llu displays were left out: a cell may show %d of them, and %zu MiB altogether.",
			     text.len ? " " : "", (unsigned long long)x->displays_dropped, CBX_DISPLAYS_MAX,
			     CBX_DISPLAY_BYTES_MAX >> 20);
	if (x->displays_invalid)
		cbx_buf_addf(&text,
			     "%s%llu parts of displays were left out: their data was not of the type they were given.",
			     text.len ? " " : "", (unsigned long long)x->displays_invalid);
	if (x->stripped)
		cbx_buf_addf(
			&text,
			"%sIts output and what it showed are kept no longer: the ended cells of all sessions keep %zu "
			"MiB together, and newer ones needed them.",
			text.len ? " " : "", CBX_OUTPUT_TOTAL_MAX >> 20);
	if (x->files_unknown)
		cbx_buf_addf(&text,
			     "%sThe files that the cell changed could not be found out in time, or not all of them.",
			     text.len ? " " : "");
	if (text.len)
		cbx_json_set_strn(o, "message", text.data, text.len);
}

/* Only what there is: {"mime","bytes","is_result"} for each member of each bundle. */
static cJSON *display_summary(const struct cbx_execution *x)
{
	cJSON *list = cbx_json_new_arr();
	const cJSON *bundle, *v;

	cJSON_ArrayForEach (bundle, x->displays) {
		cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(bundle, "data")) {
			cJSON *o = cbx_json_new_obj();
			size_t n = v->valuestring ? strlen(v->valuestring) : 0;

			if (n && cbx_mime_binary(v->string))
				n = n / 4 * 3 - (v->valuestring[n - 1] == '=') - (v->valuestring[n - 2] == '=');
			cbx_json_set_str(o, "mime", v->string);
			cbx_json_set_u64(o, "bytes", n);
			cbx_json_set_bool(o, "is_result",
					  cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(bundle, "is_result")));
			cbx_json_push(list, o);
		}
	}
	return list;
}

static void set_omitted(cJSON *o, const struct cbx_execution *x)
{
	uint64_t omitted = cbx_output_omitted(&x->output);
	cJSON *v;

	if (!omitted)
		return;
	v = cbx_json_new_obj();
	cbx_json_set_u64(v, "bytes", omitted);
	if (x->spill) {
		cbx_json_set_str(v, "file", cbx_spill_path(x->spill));
		cbx_json_set_str(v, "where", cbx_spill_where(x->spill));
	}
	cbx_json_set(o, "omitted", v);
}

static void set_usage(cJSON *o, const struct cbx_cell_usage *u)
{
	cJSON *v;

	if (!u->source)
		return;
	v = cbx_json_new_obj();
	cbx_json_set_str(v, "source", u->source);
	cbx_json_set_thousandths(v, "cpu_ms", u->cpu_us);
	if (u->has_memory)
		cbx_json_set_u64(v, "memory_bytes", u->memory);
	if (u->peak) {
		cbx_json_set_u64(v, "memory_peak_bytes", u->peak);
		cbx_json_set_str(v, "memory_peak_of", u->peak_of);
	}
	if (u->has_io) {
		cbx_json_set_u64(v, "io_read_bytes", u->io_read);
		cbx_json_set_u64(v, "io_write_bytes", u->io_written);
	}
	cbx_json_set(o, "usage", v);
}

cJSON *cbx_execution_to_json(const struct cbx_execution *x, bool with_displays)
{
	cJSON *o = cbx_json_new_obj();
	uint64_t end = x->end_ms ? x->end_ms : cbx_now_ms();

	cbx_json_set_str(o, "session_id", x->session->spec.id);
	cbx_json_set_u64(o, "execution_id", x->id);
	cbx_json_set_str(o, "status", cbx_status_name(cbx_execution_status(x)));
	cbx_json_set_bool(o, "state_kept", x->state_kept);
	if (x->has_count)
		cbx_json_set_u64(o, "execution_count", x->count);
	if (x->has_exit_code)
		cbx_json_set_i64(o, "exit_code", x->exit_code);
	set_text(o, "stdout", x, CBX_STDOUT);
	set_text(o, "stderr", x, CBX_STDERR);
	set_text(o, "output", x, CBX_STREAMS);
	cbx_json_set_str(o, "result", x->result);
	if (x->error_name) {
		cJSON *e = cbx_json_new_obj();

		cbx_json_set_str(e, "name", x->error_name);
		cbx_json_set_str(e, "value", x->error_value);
		cbx_json_set_str(e, "traceback", x->error_traceback);
		cbx_json_set(o, "error", e);
	}
	set_message(o, x);
	cbx_json_set(o, "displays", with_displays ? cJSON_Duplicate(x->displays, 1) : display_summary(x));
	set_omitted(o, x);
	cbx_json_set_u64(o, "duration_ms", x->start_ms ? end - x->start_ms : 0);
	set_usage(o, &x->usage);
	cbx_json_set(o, "files", x->files ? cJSON_Duplicate(x->files, 1) : cbx_json_new_arr());
	if (x->files_omitted)
		cbx_json_set_u64(o, "files_omitted", x->files_omitted);
	return o;
}

/* ---- sessions ---- */

static cJSON *limits(const struct cbx_session *s)
{
	_cleanup_json_ cJSON *not = cbx_json_new_arr();
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_u64(o, "memory_bytes", s->spec.memory_bytes);
	cbx_json_set_u64(o, "disk_bytes", s->spec.disk_bytes);
	cbx_json_set_u64(o, "processes", s->spec.processes);
	cbx_json_set_double(o, "timeout_s", (double)s->spec.timeout_ms / 1000);
	cbx_json_set_u64(o, "ttl_s", s->spec.ttl_s);
	cbx_json_set_u64(o, "idle_timeout_s", s->spec.idle_s);
	if (s->spec.cpus_milli)
		cbx_json_set_double(o, "cpus", (double)s->spec.cpus_milli / 1000);
	else
		cbx_json_set_null(o, "cpus");
	cbx_json_set_u64(o, "cpu_weight", s->spec.cpu_weight);
	if (s->spec.io_bytes)
		cbx_json_set_u64(o, "io", s->spec.io_bytes);
	if (s->spec.io_operations)
		cbx_json_set_u64(o, "io_operations", s->spec.io_operations);
	cbx_json_set_str(o, "enforced_by", cbx_group_on(s) ? "cgroup" : "rlimits and a watcher");
	cbx_json_set_str(o, "backend", cbx_group_backend(s->engine));
	cbx_json_set_str(o, "reason", cbx_group_reason(s->engine));
	if (s->spec.cpus_milli && !cbx_group_limits_cpus(s->engine))
		cbx_json_push_str(not, "cpus");
	if (s->spec.cpu_weight != CBX_CPU_WEIGHT_DEFAULT && !cbx_group_limits_cpus(s->engine))
		cbx_json_push_str(not, "cpu_weight");
	if (s->spec.io_bytes && s->io_loose)
		cbx_json_push_str(not, "io");
	if (s->spec.io_operations && s->io_loose)
		cbx_json_push_str(not, "io_operations");
	if (not->child)
		cbx_json_set(o, "not_enforced", take_ptr(&not));
	return o;
}

static cJSON *protections(const struct cbx_session *s)
{
	const struct cbx_facts *f = &s->engine->link.facts;
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "namespaces", "user, pid, mount, network, ipc, uts, cgroup");
	cbx_json_set_str(o, "network", "none");
	cbx_json_set_str(o, "profile", cbx_profile_name(s->spec.profile));
	cbx_json_set_u64(o, "seccomp_rules", f->seccomp_rules[s->spec.profile]);
	/* 0: not in force, for want of it or because it was switched off */
	cbx_json_set_u64(o, "landlock_abi", s->spec.landlock == CBX_LANDLOCK_OFF ? 0 : f->landlock_abi);
	cbx_json_set_str(o, "root", f->overlay ? "read-only overlay with inodes of its own" : "read-only");
	cbx_json_set_str(o, "ids", f->ids > 1 ? "a range of its own" : "the user's");
	cbx_json_set_bool(o, "cgroup", cbx_group_on(s));
	return o;
}

/* As its control group counts it; and the proportional set size, as it was measured the last time, if ever. */
static void set_use(cJSON *o, const struct cbx_session *s)
{
	struct cbx_cgroup group = s->group; /* its descriptors are borrowed */
	struct cbx_cgroup_usage use;
	cJSON *u;

	if (!cbx_group_on(s) && !s->measured)
		return;
	u = cbx_json_new_obj();
	cbx_json_set(o, "usage", u);
	cbx_json_set_str(u, "source", cbx_group_on(s) ? "cgroup" : "pss");
	if (!cbx_group_on(s)) {
		cbx_json_set_u64(u, "memory_bytes", s->pss);
		return;
	}
	cbx_cgroup_read(&group, &use);
	cbx_json_set_u64(u, "memory_bytes", use.memory);
	if (s->measured)
		cbx_json_set_u64(u, "pss_bytes", s->pss);
	cbx_json_set_u64(u, "files_bytes", cbx_cgroup_files(&group));
	cbx_json_set_thousandths(u, "cpu_s", use.cpu_us / 1000);
	cbx_json_set_bool(u, "frozen", s->frozen);
	if (s->frozen)
		cbx_json_set_u64(u, "reclaimed_bytes", s->reclaimed);
}

cJSON *cbx_session_to_json(const struct cbx_session *s)
{
	uint64_t now = cbx_now_ms(), age = (now - s->created_ms) / 1000, idle = (now - s->used_ms) / 1000;
	bool busy = s->running || s->nqueued;
	cJSON *o = cbx_json_new_obj();
	uint64_t left = age < s->spec.ttl_s ? s->spec.ttl_s - age : 0;
	char when[40];
	struct tm tm;

	if (busy)
		idle = 0;
	else if (idle < s->spec.idle_s && s->spec.idle_s - idle < left)
		left = s->spec.idle_s - idle;
	gmtime_r(&s->created.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	cbx_json_set_str(o, "session_id", s->spec.id);
	cbx_json_set_str(o, "image", s->spec.image);
	cbx_json_set_str(o, "state",
			 s->state == CBX_STARTING  ? "starting"
			 : s->state == CBX_CLOSING ? "closed"
			 : busy			   ? "busy"
						   : "idle");
	cbx_json_set_str(o, "created", when);
	cbx_json_set_u64(o, "age_s", age);
	cbx_json_set_u64(o, "idle_s", idle);
	cbx_json_set_u64(o, "expires_in_s", left);
	cbx_json_set_bool(o, "one_shot", s->spec.one_shot);
	cbx_json_set_u64(o, "executions", s->next_execution - 1);
	cbx_json_set_u64(o, "queue_length", s->nqueued);
	if (s->running)
		cbx_json_set_u64(o, "running", s->running->id);
	if (s->language) {
		cJSON *i = cbx_json_new_obj();

		cbx_json_set_str(i, "language", s->language);
		cbx_json_set_str(i, "version", s->version);
		cbx_json_set_str(i, "kind", s->kind);
		cbx_json_set_str(i, "started_by", s->warm ? "zygote" : "exec");
		cbx_json_set(o, "interpreter", i);
	}
	cbx_json_set_str(o, "workspace", CBX_INSIDE_WORKSPACE);
	set_use(o, s);
	cbx_json_set(o, "limits", limits(s));
	cbx_json_set(o, "policy", cbx_session_terms_json(s));
	if (s->nmounts)
		cbx_json_set(o, "mounts", cbx_session_mounts_json(s));
	cbx_json_set(o, "protections", protections(s));
	return o;
}
