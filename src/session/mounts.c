/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a source is opened here, which follows symbolic links, and what it is really called is asked of the
 * kernel; that name must lie, part by part, below a directory that the policy allows (whose own name is found in the same
 * way), and neither in nor above a directory that is never shown. The supervisor then opens that very file by that name:
 * see sandbox/hostmounts.h. Nothing is read or listed here: the descriptors are O_PATH.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "policy/hostpath.h"
#include "session/internal.h"

int cbx_session_mounts_check(const cJSON *list, struct cbx_err *err)
{
	static const char *const keys[] = { "source", "target", "writable", "recursive", NULL };
	const cJSON *m;

	if (!cJSON_IsArray(list))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "mounts: wrong type; give a list, as in [{\"source\": \"/srv/data\"}]");
	if (cJSON_GetArraySize(list) > CBX_PLAN_MOUNTS_MAX)
		return cbx_refuse(err, "invalid_argument", E2BIG, "mounts: a session can have %d", CBX_PLAN_MOUNTS_MAX);
	cJSON_ArrayForEach (m, list) {
		const char *source = NULL, *target = NULL;
		bool flag;

		if (!cJSON_IsObject(m))
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "mounts: each is an object, as in {\"source\": \"/srv/data\"}");
		if (cbx_json_only(m, keys, err) < 0 || cbx_json_get_str(m, "source", &source, err) < 0 ||
		    cbx_json_get_str(m, "target", &target, err) < 0 || cbx_json_get_bool(m, "writable", &flag, err) < 0 ||
		    cbx_json_get_bool(m, "recursive", &flag, err) < 0)
			return cbx_wrap(err, "mounts");
		if (!source || source[0] != '/')
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "mounts: source: an absolute path of the machine is expected");
	}
	return 0;
}

/* What a path is really called. */
static int resolve(const char *path, char ret[CBX_PATH_MAX], struct stat *st)
{
	_cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);
	char link[32];
	ssize_t n;

	if (fd < 0 || fstat(fd, st) < 0)
		return -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, CBX_PATH_MAX);
	if (n < 0)
		return -errno;
	if (n >= CBX_PATH_MAX)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	return cbx_path_clean(ret) ? 0 : -EINVAL;
}

/* True when some directory of the policy holds the path; *writable when one of those that do may be written to. */
static bool allowed(const struct cbx_policy *p, const char *path, bool *writable)
{
	bool found = false;

	*writable = false;
	for (size_t i = 0; i < p->nmounts; i++) {
		char real[CBX_PATH_MAX];
		struct stat st;

		if (resolve(p->mounts[i].path, real, &st) < 0 || !cbx_path_within(path, real))
			continue;
		found = true;
		*writable |= p->mounts[i].writable;
	}
	return found;
}

/* codebox's own directories: images, sockets, the log, the policy, programs. */
static const char *own_directory(const struct cbx_engine *e, const char *path)
{
	const char *const own[] = { e->config.images_dir,  e->config.libexec_dir, e->config.runtimes_dir,
				    e->config.share_dir,   e->config.runtime_dir, e->config.state_dir,
				    e->config.config_dir };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		char real[CBX_PATH_MAX];
		struct stat st;

		if (own[i] && own[i][0] && resolve(own[i], real, &st) >= 0 &&
		    (cbx_path_within(path, real) || cbx_path_within(real, path)))
			return own[i];
	}
	return NULL;
}

static int refuse_place(const struct cbx_policy *p, const char *source, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf names = { 0 };

	for (size_t i = 0; i < p->nmounts; i++)
		cbx_buf_addf(&names, "%s%s", i ? ", " : "", p->mounts[i].path);
	return cbx_refuse(err, "mount_refused", EPERM,
			  "mounts: %.200s is not in a directory that the policy %s allows; allowed are: %.300s", source, p->name,
			  names.len ? names.data : "none");
}

static int settle_source(const struct cbx_session *s, const char *source, struct cbx_plan_mount *m, bool *writable,
			 struct cbx_err *err)
{
	const struct cbx_policy *p = s->policy;
	const char *never;
	struct stat st;
	int r = p->nmounts ? resolve(source, m->source, &st) : -EPERM;

	/* Whether something exists is told only of what lies in an allowed directory by its name already. */
	if (r < 0 && cbx_path_clean(source))
		for (size_t i = 0; i < p->nmounts; i++)
			if (cbx_path_within(source, p->mounts[i].path))
				return cbx_fail(err, -r, "mounts: %.200s", source);
	if (r < 0 || !allowed(p, m->source, writable))
		return refuse_place(p, source, err);
	never = cbx_hostpath_refused(m->source);
	if (!never)
		never = own_directory(s->engine, m->source);
	if (never)
		return cbx_refuse(err, "mount_refused", EPERM,
				  "mounts: %.200s is, holds or is in %s, which is never shown in a sandbox; choose a directory "
				  "beside it",
				  source, never);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return cbx_refuse(err, "mount_refused", EINVAL, "mounts: %.200s is neither a directory nor a regular file",
				  source);
	m->dev = st.st_dev;
	m->ino = st.st_ino;
	m->directory = S_ISDIR(st.st_mode);
	return 0;
}

static int settle_target(const char *target, struct cbx_plan_mount *m, struct cbx_err *err)
{
	const char *slash = strrchr(m->source, '/'), *never;

	if (target)
		snprintf(m->target, sizeof(m->target), "%s", target);
	else
		snprintf(m->target, sizeof(m->target), "/mnt/%.200s", slash + 1);
	if ((target && strlen(target) >= sizeof(m->target)) || !cbx_path_clean(m->target))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "mounts: target: %.200s is not an absolute path without \".\", \"..\" and empty parts", target);
	never = cbx_plan_target_refused(m->target);
	if (never)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "mounts: target: nothing can be mounted at %.200s, because of %s; use a place below /mnt, /srv "
				  "or " CBX_INSIDE_WORKSPACE,
				  m->target, never);
	return 0;
}

int cbx_session_mounts_settle(struct cbx_session *s, struct cbx_err *err)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, s->spec.mounts) {
		struct cbx_plan_mount *m = &s->mounts[s->nmounts];
		const char *source = NULL, *target = NULL;
		bool wanted = false, recursive = false, writable;
		_cleanup_free_ char *name = NULL;

		if (cbx_json_get_str(v, "source", &source, err) < 0 || cbx_json_get_str(v, "target", &target, err) < 0 ||
		    cbx_json_get_bool(v, "writable", &wanted, err) < 0 ||
		    cbx_json_get_bool(v, "recursive", &recursive, err) < 0 ||
		    settle_source(s, source, m, &writable, err) < 0 || settle_target(target, m, err) < 0)
			return -err->code;
		m->writable = wanted && writable;
		m->recursive = recursive;
		if (wanted && !writable) {
			name = cbx_xasprintf("mounts.%s", m->target);
			cbx_json_push_str(s->lowered, name);
		}
		s->nmounts++;
	}
	return 0;
}

cJSON *cbx_session_mounts_json(const struct cbx_session *s)
{
	cJSON *list = cbx_json_new_arr();

	for (uint32_t i = 0; i < s->nmounts; i++) {
		cJSON *o = cbx_json_new_obj();

		cbx_json_set_str(o, "source", s->mounts[i].source);
		cbx_json_set_str(o, "target", s->mounts[i].target);
		cbx_json_set_bool(o, "writable", s->mounts[i].writable);
		cbx_json_push(list, o);
	}
	return list;
}
