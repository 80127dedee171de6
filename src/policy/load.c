/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "policy/policy.h"
#include "policy/source.h"

struct place {
	const char *share_dir;
	char *dir; /* of the including file */
};

static int read_text(const char *path, struct cbx_buf *text, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0) {
		cbx_fail(err, errno, "open policy %s", path);
		snprintf(err->kind, sizeof(err->kind),
			 "invalid_policy"); /* whatever the cause: there is none to go by */
		return -err->code;
	}
	if (!S_ISREG(st.st_mode))
		return cbx_refuse(err, "invalid_policy", EINVAL, "policy %s is not a regular file; name one that is",
				  path);
	if (st.st_mode & S_IWOTH)
		return cbx_refuse(err, "invalid_policy", EPERM,
				  "policy %s can be changed by every user; run chmod o-w on it", path);
	r = cbx_read_whole(fd, CBX_POLICY_FILE_MAX, text);
	if (r == -EFBIG)
		return cbx_refuse(err, "invalid_policy", EFBIG, "policy %s is too long; write up to %zu bytes", path,
				  CBX_POLICY_FILE_MAX);
	if (r < 0)
		return cbx_fail(err, -r, "read policy %s", path);
	return 0;
}

static int shipped(const char *share_dir, const char *name, char **ret, struct cbx_err *err)
{
	if (!cbx_name_valid(name))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "policy: \"%.80s\" is not a policy; give the name of a shipped one, or a path (which "
				  "has a \"/\", or ends in .json)",
				  name);
	*ret = cbx_xasprintf("%s/policies/%s.json", share_dir, name);
	if (access(*ret, F_OK) < 0 && errno == ENOENT)
		return cbx_refuse(err, "invalid_argument", ENOENT,
				  "policy: no policy \"%s\" is shipped; there are default, strict, net and dev", name);
	return 0;
}

static int read_included(void *arg, const char *name, struct cbx_buf *text, char **ret_label, struct cbx_err *err)
{
	const struct place *p = arg;

	if (!cbx_policy_is_path(name)) {
		int r = shipped(p->share_dir, name, ret_label, err);

		return r < 0 ? r : read_text(*ret_label, text, err);
	}
	*ret_label = name[0] == '/' ? cbx_xstrdup(name) : cbx_xasprintf("%s%s", p->dir, name);
	return read_text(*ret_label, text, err);
}

/* "strict" of "/etc/codebox/strict.json": the file's own name, as far as it is one of ours. */
static char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t n = strlen(base);
	char *name;

	if (cbx_ends_with(base, ".json"))
		n -= strlen(".json");
	name = cbx_xasprintf("%.*s", (int)(n > CBX_NAME_MAX ? CBX_NAME_MAX : n), base);
	if (!cbx_name_valid(name)) {
		free(name);
		name = cbx_xstrdup("unnamed");
	}
	return name;
}

int cbx_policy_load(const char *share_dir, const char *which, struct cbx_policy **ret, struct cbx_err *err)
{
	_cleanup_free_ char *path = NULL, *name = NULL, *dir = NULL;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct place place = { .share_dir = share_dir };
	const char *slash;
	int r = 0;

	if (cbx_policy_is_path(which))
		path = cbx_xstrdup(which);
	else
		r = shipped(share_dir, which, &path, err);
	if (r >= 0)
		r = read_text(path, &text, err);
	if (r < 0)
		return r;
	slash = strrchr(path, '/');
	place.dir = dir = cbx_xasprintf("%.*s", slash ? (int)(slash + 1 - path) : 0, path);
	name = name_of(path);
	return cbx_policy_parse(cbx_buf_str(&text), text.len, name, path, read_included, &place, ret, err);
}

int cbx_policy_load_shipped(const char *share_dir, const char *name, struct cbx_policy **ret, struct cbx_err *err)
{
	_cleanup_free_ char *path = NULL;
	int r = shipped(share_dir, name, &path, err);

	return r < 0 ? r : cbx_policy_load(share_dir, path, ret, err);
}

char *cbx_policy_standard(const char *config_dir)
{
	_cleanup_free_ char *own = config_dir ? cbx_xasprintf("%s/policy.json", config_dir) : NULL;

	/* One that exists and cannot be read is not a reason to take another. */
	if (own && (access(own, F_OK) == 0 || errno != ENOENT))
		return take_ptr(&own);
	if (access("/etc/codebox/policy.json", F_OK) == 0 || errno != ENOENT)
		return cbx_xstrdup("/etc/codebox/policy.json");
	return cbx_xstrdup("default");
}

/* ---- what a user has said yes to ---- */

char *cbx_granted_path(const char *config_dir, const char *standard)
{
	if (!config_dir || cbx_path_within(standard, "/etc"))
		return NULL;
	return cbx_xasprintf("%s/mounts.json", config_dir);
}

/* Nothing but {"mounts": {"allow": ...}}: what else a policy may say is not a question that was answered. */
static int check_granted(const char *path, const struct cbx_buf *text, struct cbx_err *err)
{
	struct cbx_source s;
	const cJSON *root, *group, *v;
	int r = cbx_source_open(&s, path, text->data, text->len, err);

	if (r < 0)
		return r;
	if (!cJSON_IsObject(s.doc.root))
		r = cbx_source_refuse(&s, s.doc.root, err, "wrong type: this file is an object with \"mounts\"");
	root = r < 0 ? NULL : s.doc.root;
	cJSON_ArrayForEach(group, root) {
		if (strcmp(group->string, "mounts") != 0)
			r = cbx_source_refuse(&s, group, err, "unexpected key: this file has \"mounts\" only");
		cJSON_ArrayForEach(v, group)
			if (r >= 0 && (!v->string || strcmp(v->string, "allow") != 0))
				r = cbx_source_refuse(&s, v, err,
						      "unexpected key: \"mounts\" of this file has \"allow\" only");
		if (r < 0)
			break;
	}
	cbx_source_release(&s);
	return r;
}

int cbx_granted_load(const char *path, struct cbx_policy **ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = read_text(path, &text, err);

	if (r == -ENOENT)
		return 0;
	if (r >= 0)
		r = check_granted(path, &text, err);
	if (r >= 0)
		r = cbx_policy_parse(cbx_buf_str(&text), text.len, "mounts", path, NULL, NULL, ret, err);
	return r < 0 ? r : 1;
}

static void add_granted(struct cbx_buf *out, const char *dir, bool writable, bool *first)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "path", dir);
	if (writable)
		cbx_json_set_bool(o, "writable", true);
	cbx_buf_adds(out, *first ? "\t" : ",\n\t");
	cbx_json_print(out, o);
	*first = false;
}

void cbx_granted_text(const struct cbx_policy *have, const char *dir, bool writable, struct cbx_buf *out)
{
	bool first = true;

	cbx_buf_adds(out, "{ \"mounts\": { \"allow\": [\n");
	for (size_t i = 0; have && i < have->nmounts; i++)
		if (strcmp(have->mounts[i].path, dir) != 0)
			add_granted(out, have->mounts[i].path, have->mounts[i].writable, &first);
		else
			writable |= have->mounts[i].writable;
	add_granted(out, dir, writable, &first);
	cbx_buf_adds(out, "\n] } }\n");
}
