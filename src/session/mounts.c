/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a source is opened here, which follows symbolic links, and what it is really called is asked of
 * the kernel; that name must lie, part by part, below a directory that the policy allows, and neither in nor above a
 * directory that is never shown. The supervisor then opens that very file by that name: see sandbox/hostmounts.h.
 * Nothing is read or listed here: the descriptors are O_PATH.
 *
 * What the policy's directories are really called is found before there is any session: one that may write to a
 * directory could put a link in the place of another that is allowed below it. A policy that a request names is laid
 * over the server's, so what it calls its own cannot lead out of that.
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
		    cbx_json_get_str(m, "target", &target, err) < 0 ||
		    cbx_json_get_bool(m, "writable", &flag, err) < 0 ||
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

/* The same of what may not be there yet, or not all of it: as far as it is. False: the name is too long. */
static bool real_name(const char *path, char ret[CBX_PATH_MAX])
{
	_cleanup_free_ char *there = cbx_xstrdup(path);
	size_t n = strlen(path), have;
	struct stat st;

	while (n && resolve(there, ret, &st) < 0) {
		while (n && path[--n] != '/')
			;
		there[n] = '\0';
	}
	have = n && ret[1] ? strlen(ret) : 0; /* nothing is below "/" but by a slash of its own */
	return (size_t)snprintf(ret + have, CBX_PATH_MAX - have, "%s", path + n) < CBX_PATH_MAX - have;
}

char **cbx_mounts_real_names(const struct cbx_policy *p)
{
	char **names = cbx_xcalloc(p->nmounts + 1, sizeof(*names));

	for (size_t i = 0; i < p->nmounts; i++) {
		char real[CBX_PATH_MAX];

		names[i] = cbx_xstrdup(real_name(p->mounts[i].path, real) ? real : "");
	}
	return names;
}

void cbx_mounts_free_names(char ***names)
{
	for (char **n = *names; n && *n; n++)
		free(*n);
	free(take_ptr(names));
}

/* True when some directory of the policy holds the path; *writable when one of those that do may be written to. */
static bool allowed(const struct cbx_policy *p, char *const *names, const char *path, bool *writable)
{
	bool found = false;

	*writable = false;
	for (size_t i = 0; i < p->nmounts; i++) {
		if (!names[i][0] || !cbx_path_within(path, names[i]))
			continue;
		found = true;
		*writable |= p->mounts[i].writable;
	}
	return found;
}

static bool allowed_here(const struct cbx_session *s, const char *path, bool *writable)
{
	const struct cbx_engine *e = s->engine;
	_cleanup_(cbx_mounts_free_names) char **own = NULL;
	bool too = true;

	if (!allowed(e->policy, e->mounts, path, writable))
		return false;
	if (!s->own_policy)
		return true;
	own = cbx_mounts_real_names(s->own_policy);
	if (!allowed(s->own_policy, own, path, &too))
		return false;
	*writable &= too;
	return true;
}

/* codebox's own directories: images, sockets, the log, the policy, programs. */
static const char *own_directory(const struct cbx_engine *e, const char *path)
{
	const char *const own[] = { e->config.images_dir, e->config.libexec_dir, e->config.runtimes_dir,
				    e->config.share_dir,  e->config.runtime_dir, e->config.state_dir,
				    e->config.config_dir };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		char real[CBX_PATH_MAX];

		/* Also one that is not there yet: a session could make it, and a policy in it. */
		if (own[i] && own[i][0] && real_name(own[i], real) &&
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
			  "mounts: %.200s is not in a directory that the policy %s allows; allowed are: %.300s", source,
			  p->name, names.len ? names.data : "none");
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
	if (r < 0 || !allowed_here(s, m->source, writable))
		return refuse_place(p, source, err);
	never = cbx_hostpath_refused(m->source);
	if (!never)
		never = own_directory(s->engine, m->source);
	if (never)
		return cbx_refuse(
			err, "mount_refused", EPERM,
			"mounts: %.200s is, holds or is in %s, which is never shown in a sandbox; choose a directory "
			"beside it",
			source, never);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return cbx_refuse(err, "mount_refused", EINVAL,
				  "mounts: %.200s is neither a directory nor a regular file", source);
	m->dev = st.st_dev;
	m->ino = st.st_ino;
	m->directory = S_ISDIR(st.st_mode);
	return 0;
}

/* "\\040" is how the kernel writes a space. In place. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/* Whether other file systems are mounted below it: the kernel lets nobody but root uncover what they hide. What cannot
 * be found out here is found out when the mount is made. */
static bool holds_mounts(const char *path)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	bool found = false;

	while (f && !found && getline(&line, &cap, f) > 0) {
		char *at = line, *end;

		for (int i = 0; at && i < 4; i++) /* id, parent, device, root; then the mount point */
			at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
		end = at ? strchr(at, ' ') : NULL;
		if (!end)
			continue;
		*end = '\0';
		unescape(at);
		found = cbx_path_within(at, path) && strcmp(at, path) != 0;
	}
	return found;
}

static int settle_target(const char *target, struct cbx_plan_mount *m, struct cbx_err *err)
{
	const char *slash = strrchr(m->source, '/'), *never;

	if (target)
		snprintf(m->target, sizeof(m->target), "%s", target);
	else
		snprintf(m->target, sizeof(m->target), "/mnt/%.200s", slash + 1);
	if ((target && strlen(target) >= sizeof(m->target)) || !cbx_path_clean(m->target))
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"mounts: target: %.200s is not an absolute path without \".\", \"..\" and empty parts", target);
	never = cbx_plan_target_refused(m->target);
	if (never)
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"mounts: target: nothing can be mounted at %.200s, because of %s; use a place below /mnt, /srv "
			"or " CBX_INSIDE_WORKSPACE,
			m->target, never);
	return 0;
}

static int settle_one(struct cbx_session *s, const cJSON *v, struct cbx_plan_mount *m, bool *lowered,
		      struct cbx_err *err)
{
	const char *source = NULL, *target = NULL;
	bool wanted = false, recursive = false, writable = false;

	if (cbx_json_get_str(v, "source", &source, err) < 0 || cbx_json_get_str(v, "target", &target, err) < 0 ||
	    cbx_json_get_bool(v, "writable", &wanted, err) < 0 ||
	    cbx_json_get_bool(v, "recursive", &recursive, err) < 0 || settle_source(s, source, m, &writable, err) < 0 ||
	    settle_target(target, m, err) < 0)
		return -err->code;
	m->writable = wanted && writable;
	m->recursive = recursive;
	if (!recursive && holds_mounts(m->source))
		return cbx_refuse(
			err, "mount_refused", EINVAL,
			"mounts: other file systems are mounted below %.200s; ask for them too (recursive), or for a "
			"directory without",
			m->source);
	*lowered = wanted && !writable;
	return 0;
}

/* Two offered directories may have one name. */
static bool taken(const struct cbx_session *s, const char *target)
{
	for (uint32_t i = 0; i < s->nmounts; i++)
		if (strcmp(s->mounts[i].target, target) == 0)
			return true;
	return false;
}

int cbx_session_mounts_settle(struct cbx_session *s, struct cbx_err *err)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, s->spec.mounts) {
		struct cbx_plan_mount m = { 0 };
		_cleanup_free_ char *name = NULL;
		bool lowered;

		if (s->spec.roots && s->nmounts == CBX_PLAN_MOUNTS_MAX)
			break;
		if (settle_one(s, v, &m, &lowered, err) < 0) {
			if (s->spec.roots)
				continue;
			return -err->code;
		}
		for (int i = 2; s->spec.roots && i < 10 && taken(s, m.target); i++) {
			char *digit = m.target + strlen(m.target);

			/* "name", "name-2", "name-3" */
			snprintf(i == 2 ? digit : digit - 2, 4, "-%d", i);
		}
		s->mounts[s->nmounts++] = m;
		if (!lowered)
			continue;
		name = cbx_xasprintf("mounts.%s", m.target);
		cbx_json_push_str(s->lowered, name);
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
