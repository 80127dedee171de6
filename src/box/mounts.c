/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a source is really called, without symbolic links, is found out by a process that may be
 * killed over it (naming.h); that name must lie, part by part, below a directory that the policy allows, and neither in
 * nor above a directory that is never shown. The supervisor then opens that very file by that name: see
 * sandbox/hostmounts.h.
 *
 * What the policy's directories are really called is found with the first mount, and stays: a session that may write to
 * a directory could put a link in the place of another that is allowed below it. So the name of one that was not known
 * when such a session began must be what the policy calls it, as long as there is one. A policy that comes into force
 * later forgets all names when no session can write to the machine. A policy that a request names is laid over the
 * server's, so what it calls its own cannot lead out of that.
 *
 * What the user has said yes to since (cbx_granted_load()) is read when it is needed. Its names are taken as they are:
 * they were without links when the question was asked.
 */
#include "box/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/mountinfo.h"
#include "policy/hostpath.h"

int cbx_mounts_check(const cJSON *list, struct cbx_err *err)
{
	static const char *const keys[] = { "source", "target", "writable", "recursive", NULL };
	const cJSON *m;

	if (!cJSON_IsArray(list))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "mounts: wrong type; give a list, as in [{\"source\": \"/srv/data\"}]");
	if (cJSON_GetArraySize(list) > CBX_PLAN_MOUNTS_MAX)
		return cbx_refuse(err, "invalid_argument", E2BIG, "mounts: too many; a session can have up to %d",
				  CBX_PLAN_MOUNTS_MAX);
	cJSON_ArrayForEach (m, list) {
		const char *source = NULL, *target = NULL;
		bool flag;

		if (!cJSON_IsObject(m))
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "mounts: wrong type; give objects, as in {\"source\": \"/srv/data\"}");
		if (cbx_json_only(m, keys, err) < 0 || cbx_json_get_str(m, "source", &source, err) < 0 ||
		    cbx_json_get_str(m, "target", &target, err) < 0 ||
		    cbx_json_get_bool(m, "writable", &flag, err) < 0 ||
		    cbx_json_get_bool(m, "recursive", &flag, err) < 0)
			return cbx_wrap(err, "mounts");
		if (!source || source[0] != '/')
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "mounts: source: give an absolute path of the machine");
	}
	return 0;
}

char **cbx_mounts_names_new(const struct cbx_policy *p, const struct cbx_policy *old, char *const *old_names)
{
	char **names = cbx_xcalloc(p->nmounts + 1, sizeof(*names));

	for (size_t i = 0; i < p->nmounts; i++) {
		const char *name = "";

		for (size_t k = 0; old && k < old->nmounts; k++)
			if (strcmp(old->mounts[k].path, p->mounts[i].path) == 0)
				name = old_names[k];
		names[i] = cbx_xstrdup(name);
	}
	return names;
}

/* Below a directory that sessions may write to, one of them may have left a link in the place of another that is
 * allowed: that is where the directory above it says, or nowhere. */
static bool moved(const struct cbx_mount_rules *rules, const char *path, const char *real)
{
	for (size_t i = 0; i < rules->policy->nmounts; i++) {
		const struct cbx_policy_mount *m = &rules->policy->mounts[i];
		struct cbx_host_name above;

		if (!m->writable || !cbx_path_within(path, m->path) || strcmp(path, m->path) == 0)
			continue;
		cbx_naming_get(rules->naming, m->path, &above);
		if (!cbx_path_within(real, above.name) ||
		    strcmp(real + strlen(above.name), path + strlen(m->path)) != 0)
			return true;
	}
	return false;
}

static void learn_names(const struct cbx_mount_rules *rules)
{
	for (size_t i = 0; i < rules->policy->nmounts; i++) {
		const char *path = rules->policy->mounts[i].path;
		struct cbx_host_name real;

		if (rules->names[i][0])
			continue;
		cbx_naming_get(rules->naming, path, &real);
		if ((rules->writer && strcmp(real.name, path) != 0) || moved(rules, path, real.name))
			continue;
		free(rules->names[i]);
		rules->names[i] = cbx_xstrdup(real.name);
	}
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

/* 1, 0, or an error: what is in the file cannot be used. *writable may have been true before. */
static int granted(const struct cbx_mount_rules *rules, const char *path, bool *writable, struct cbx_err *err)
{
	struct cbx_policy *p = NULL;
	int r = rules->granted ? cbx_granted_load(rules->granted, &p, err) : 0;

	if (r <= 0)
		return r;
	r = 0;
	for (size_t i = 0; i < p->nmounts; i++) {
		if (!cbx_path_within(path, p->mounts[i].path))
			continue;
		r = 1;
		*writable |= p->mounts[i].writable;
	}
	cbx_policy_free(p);
	return r;
}

static char **real_names(struct cbx_naming *naming, const struct cbx_policy *p)
{
	char **names = cbx_xcalloc(p->nmounts + 1, sizeof(*names));

	for (size_t i = 0; i < p->nmounts; i++) {
		struct cbx_host_name real;

		cbx_naming_get(naming, p->mounts[i].path, &real);
		names[i] = cbx_xstrdup(real.name); /* nothing lies in "" */
	}
	return names;
}

/* 1, 0, or an error. */
static int allowed_here(const struct cbx_mount_rules *rules, const char *path, bool *writable, struct cbx_err *err)
{
	_cleanup_(cbx_mounts_free_names) char **own = NULL;
	bool too = true, found = allowed(rules->policy, rules->names, path, writable);
	int r = found && *writable ? 0 : granted(rules, path, writable, err);

	if (r < 0 || (r == 0 && !found))
		return r;
	if (!rules->narrowed)
		return 1;
	own = real_names(rules->naming, rules->narrowed);
	if (!allowed(rules->narrowed, own, path, &too))
		return 0;
	*writable &= too;
	return 1;
}

/* codebox's own directories: images, sockets, the log, the policy, programs. */
static const char *own_directory(const struct cbx_mount_rules *rules, const char *path)
{
	for (size_t i = 0; i < CBX_MOUNTS_OWN; i++) {
		const char *own = rules->own[i];
		struct cbx_host_name real;

		if (!own || !own[0])
			continue;
		/* Also one that is not there yet: a session could make it, and a policy in it. */
		cbx_naming_get(rules->naming, own, &real);
		if (!real.name[0] || cbx_path_within(path, real.name) || cbx_path_within(real.name, path))
			return own;
	}
	return NULL;
}

/* What cannot be looked at here cannot be seen by a session either; what does not answer may be there. */
static bool is_there(void *arg, const char *path)
{
	const struct cbx_mount_rules *rules = arg;
	struct cbx_host_name real;

	cbx_naming_get(rules->naming, path, &real);
	return real.error != ENOENT && real.error != ENOTDIR && real.error != EACCES;
}

static const struct cbx_policy *in_force(const struct cbx_mount_rules *rules)
{
	return rules->narrowed ? rules->narrowed : rules->policy;
}

/* The kind tells a person's client that it may ask. */
static int refuse_place(const struct cbx_mount_rules *rules, const char *source, struct cbx_err *err)
{
	const struct cbx_policy *p = in_force(rules);
	const char *file = rules->narrowed ? NULL : rules->granted;
	_cleanup_buf_ struct cbx_buf names = { 0 };

	for (size_t i = 0; rules->writer && i < rules->policy->nmounts; i++) {
		const char *path = rules->policy->mounts[i].path;
		struct cbx_host_name real;

		/* See learn_names(): what it is called now, it may have been made to be. */
		cbx_naming_get(rules->naming, path, &real);
		if (rules->names[i][0] || !real.name[0] ||
		    (!cbx_path_within(source, path) && !cbx_path_within(source, real.name)))
			continue;
		return cbx_refuse(err, "mount_refused", EBUSY,
				  "mounts: %.200s is a symbolic link, or below one, and session %s may write to the "
				  "machine; name the directory itself in the policy, or close the session",
				  path, rules->writer);
	}
	for (size_t i = 0; i < p->nmounts; i++)
		cbx_buf_addf(&names, "%s%s", i ? ", " : "", p->mounts[i].path);
	cbx_refuse(err, file ? "mount_not_allowed" : "mount_refused", EPERM,
		   "mounts: %.200s is not in a directory that the policy %s allows; allowed are: %.100s", source, p->name,
		   names.len ? names.data : "none");
	if (file)
		snprintf(err->msg + strlen(err->msg), sizeof(err->msg) - strlen(err->msg),
			 "; to allow it, add {\"path\": …} to the list \"allow\" of \"mounts\" in %.120s", file);
	return -err->code;
}

static int refuse_unseen(const char *source, int code, struct cbx_err *err)
{
	if (code == ETIMEDOUT)
		return cbx_refuse(err, "mount_refused", code,
				  "mounts: %.200s: its file system does not answer; try again when it does", source);
	return cbx_fail(err, code, "mounts: %.200s", source);
}

static int settle_source(const struct cbx_mount_rules *rules, const char *source, struct cbx_plan_mount *m, bool *writable,
			 struct cbx_err *err)
{
	const struct cbx_policy *p = in_force(rules);
	struct cbx_host_name real = { .error = EPERM };
	const char *never;
	int found;

	if (p->nmounts || rules->granted)
		cbx_naming_get(rules->naming, source, &real);
	/* Only of names within an allowed directory is it said whether they exist. */
	if (real.error && cbx_path_clean(source))
		for (size_t i = 0; i < p->nmounts; i++)
			if (cbx_path_within(source, p->mounts[i].path))
				return refuse_unseen(source, real.error, err);
	found = real.error ? 0 : allowed_here(rules, real.name, writable, err);
	if (found < 0)
		return found;
	if (!found)
		return refuse_place(rules, source, err);
	never = cbx_hostpath_refused(real.name);
	if (!never)
		never = own_directory(rules, real.name);
	if (!never)
		never = cbx_hostpath_credentials(real.name, is_there, (void *)rules);
	if (never)
		return cbx_refuse(
			err, "mount_refused", EPERM,
			"mounts: %.200s is, holds or is in %s, which is never shown in a sandbox; choose a directory "
			"beside it",
			source, never);
	if (!S_ISDIR(real.mode) && !S_ISREG(real.mode))
		return cbx_refuse(err, "mount_refused", EINVAL,
				  "mounts: %.200s is neither a directory nor a regular file; name one that is", source);
	memcpy(m->source, real.name, sizeof(m->source));
	m->dev = real.dev;
	m->ino = real.ino;
	m->in_memory = real.in_memory;
	m->directory = S_ISDIR(real.mode);
	return 0;
}

/* Whether other file systems are mounted below it: the kernel lets nobody but root uncover what they hide. What cannot
 * be found out here is found out when the mount is made. */
static bool holds_mounts(const char *path)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	struct cbx_mountinfo m;
	bool found = false;
	size_t cap = 0;
	ssize_t n;

	while (f && !found && (n = getline(&line, &cap, f)) > 0)
		found = cbx_mountinfo_parse(line, (size_t)n, &m) && cbx_path_within(m.point, path) &&
			strcmp(m.point, path) != 0;
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
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "mounts: target: \"%.200s\" cannot be mounted at; give an absolute path without "
				  "\".\", \"..\" and empty parts",
				  target);
	never = cbx_plan_target_refused(m->target);
	if (never)
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"mounts: target: nothing can be mounted at %.200s, because of %s; use a place below /mnt, /srv "
			"or " CBX_INSIDE_WORKSPACE,
			m->target, never);
	return 0;
}

/* The directory that is to be the workspace itself. */
static int check_workspace(const struct cbx_plan_mount *m, bool wanted, struct cbx_err *err)
{
	if (strcmp(m->target, CBX_INSIDE_WORKSPACE) != 0 || (m->directory && m->writable))
		return 0;
	if (!m->directory)
		return cbx_refuse(err, "mount_refused", ENOTDIR,
				  "mounts: %.200s is a file, and " CBX_INSIDE_WORKSPACE
				  " is a directory; choose another target",
				  m->source);
	return cbx_refuse(
		err, "mount_refused", EROFS,
		wanted ? "mounts: %.200s may only be read, by the policy, and sessions write to " CBX_INSIDE_WORKSPACE
			 "; choose another target, or have the policy say writable"
		       : "mounts: %.200s is to be read-only, and sessions write to " CBX_INSIDE_WORKSPACE
			 "; ask for it writable, or choose another target",
		m->source);
}

static int settle_one(const struct cbx_mount_rules *rules, const cJSON *v, struct cbx_plan_mount *m, bool *lowered,
		      struct cbx_err *err)
{
	const char *source = NULL, *target = NULL;
	bool wanted = false, recursive = false, writable = false;

	if (cbx_json_get_str(v, "source", &source, err) < 0 || cbx_json_get_str(v, "target", &target, err) < 0 ||
	    cbx_json_get_bool(v, "writable", &wanted, err) < 0 ||
	    cbx_json_get_bool(v, "recursive", &recursive, err) < 0 || settle_source(rules, source, m, &writable, err) < 0 ||
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
	return check_workspace(m, wanted, err);
}

/* Two offered directories may have one name: "name", "name-2", "name-3". */
static void choose_name(const struct cbx_mounts *all, struct cbx_plan_mount *m)
{
	size_t n = strlen(m->target);

	for (int i = 1; i < 10; i++) {
		bool taken = false;

		if (i > 1)
			snprintf(m->target + n, sizeof(m->target) - n, "-%d", i);
		for (uint32_t k = 0; k < all->n; k++)
			taken |= strcmp(all->all[k].target, m->target) == 0;
		if (!taken)
			return;
	}
}

bool cbx_mounts_ask(const struct cbx_mount_rules *rules, const cJSON *list, struct cbx_naming *naming)
{
	const cJSON *v;

	if (!in_force(rules)->nmounts && !rules->granted)
		return false;
	cJSON_ArrayForEach(v, list) {
		const char *source = cJSON_GetStringValue(cbx_json_member(v, "source"));

		if (source)
			cbx_naming_add(naming, source);
	}
	if (!naming->n)
		return false;
	for (size_t i = 0; i < rules->policy->nmounts; i++)
		if (!rules->names[i][0])
			cbx_naming_add(naming, rules->policy->mounts[i].path);
	for (size_t i = 0; rules->narrowed && i < rules->narrowed->nmounts; i++)
		cbx_naming_add(naming, rules->narrowed->mounts[i].path);
	for (size_t i = 0; i < CBX_MOUNTS_OWN; i++)
		if (rules->own[i])
			cbx_naming_add(naming, rules->own[i]);
	return true;
}

int cbx_mounts_settle(const struct cbx_mount_rules *rules, const cJSON *list, bool offered, struct cbx_mounts *ret,
		      struct cbx_err *err)
{
	const cJSON *v;

	learn_names(rules);
	ret->n = 0;
	cJSON_ArrayForEach (v, list) {
		struct cbx_plan_mount m = { 0 };
		bool lowered = false;

		if (offered && ret->n == CBX_PLAN_MOUNTS_MAX)
			break;
		if (settle_one(rules, v, &m, &lowered, err) < 0) {
			if (offered)
				continue;
			return -err->code;
		}
		if (offered)
			choose_name(ret, &m);
		ret->lowered[ret->n] = lowered;
		ret->all[ret->n++] = m;
	}
	return 0;
}

cJSON *cbx_mounts_json(const struct cbx_mounts *mounts)
{
	cJSON *list = cbx_json_new_arr();

	for (uint32_t i = 0; i < mounts->n; i++) {
		const struct cbx_plan_mount *m = &mounts->all[i];
		cJSON *o = cbx_json_new_obj();

		cbx_json_set_str(o, "source", m->source);
		cbx_json_set_str(o, "target", m->target);
		cbx_json_set_bool(o, "writable", m->writable);
		cbx_json_push(list, o);
	}
	return list;
}
