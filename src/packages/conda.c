/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/conda.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "packages/kind.h"

#define PREFIX	  (sizeof(CBX_CONDA) - 1)
#define BUILD_MAX 100

/* ---- requirements ---- */

static int refused(const char *text, const char *what, struct cbx_err *err)
{
	cbx_refuse(err, "package_refused", EPERM,
		   "%.200s: %s cannot be installed from; name a package of a channel, as in \"numpy>=1.26\"",
		   text + PREFIX, what);
	cbx_err_sanitize(err);
	return -EPERM;
}

static int not_one(const char *text, struct cbx_err *err)
{
	cbx_refuse(err, "invalid_argument", EINVAL,
		   "\"%.200s\" is not a package of conda; write a name and, if needed, versions, as in \"numpy>=1.26\"",
		   text + PREFIX);
	cbx_err_sanitize(err);
	return -EINVAL;
}

bool cbx_conda_name(const char *p, size_t n)
{
	if (!n || n + PREFIX >= CBX_PROJECT_MAX || strchr("-.", *p))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!islower((unsigned char)p[i]) && !isdigit((unsigned char)p[i]) && !strchr("_-.", p[i]))
			return false;
	return true;
}

/* "py311_0", also as a pattern. */
static bool is_build(const char *p, size_t n, bool pattern)
{
	if (!n || n > BUILD_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr(pattern ? "._+*" : "._+", p[i]))
			return false;
	return true;
}

/* "=1.2=build", "==1.2=build" */
static const char *build_of(const char *spec)
{
	const char *p = spec + strspn(spec, "= "), *build = strchr(p, '=');

	return spec[0] == '=' && build && p[strcspn(p, ",|<>!~ ")] == '\0' ? build : NULL;
}

static bool spec_valid(const char *spec, bool rule)
{
	const char *build = rule ? NULL : build_of(spec);
	_cleanup_free_ char *versions = build ? strndup(spec, (size_t)(build - spec)) : cbx_xstrdup(spec);

	return (!build || is_build(build + 1, strlen(build + 1), true)) && !(rule && strchr(spec, '|')) &&
	       cbx_conda_spec_valid(versions);
}

int cbx_conda_requirement(const char *text, bool rule, struct cbx_requirement *ret, struct cbx_err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
	const char *name = text + PREFIX, *spec;
	size_t n = strspn(name, letters);

	if (strlen(text) > CBX_REQUIREMENT_MAX || !cbx_plain(text))
		return not_one(text, err);
	if (name[0] == '-')
		return refused(text, "an option", err);
	if (strstr(name, "://"))
		return refused(text, "an address", err);
	if (strstr(name, "::"))
		return refused(text, "a channel that the name brings along", err);
	if (strpbrk(name, "/\\"))
		return refused(text, "a path", err);
	snprintf(ret->name, sizeof(ret->name), CBX_CONDA "%.*s", (int)n, name);
	for (char *p = ret->name; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	if (cbx_ends_with(ret->name, ".conda") || cbx_ends_with(ret->name, ".tar.bz2"))
		return refused(text, "a path", err);
	spec = name + n + strspn(name + n, " \t");
	/* "numpy 1.26": without an operator, what stands apart is the version. */
	if (!cbx_conda_name(ret->name + PREFIX, strlen(ret->name + PREFIX)) || n + PREFIX >= sizeof(ret->name) ||
	    (*spec && spec == name + n && !strchr("=<>!~", *spec)) ||
	    strlen(spec) + strlen("==") >= sizeof(ret->specifiers) || !spec_valid(spec, rule))
		return not_one(text, err);
	snprintf(ret->specifiers, sizeof(ret->specifiers), "%s%s",
		 !*spec || strchr("=<>!~", *spec)    ? ""
		 : spec[strcspn(spec, "*,|")] == '*' ? "="
						     : "==",
		 spec);
	return 0;
}

/* ---- what a resolver found ---- */

static int bad(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "invalid_lock", EBADMSG, "the resolver's answer cannot be used: %s", what);
}

static bool is_subdir(const char *p, size_t n)
{
	static const char *const all[] = { "noarch",	    "linux-64",	     "linux-aarch64",
					   "linux-ppc64le", "linux-riscv64", "linux-s390x" };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strlen(all[i]) == n && memcmp(all[i], p, n) == 0)
			return true;
	return false;
}

int cbx_conda_read(const cJSON *o, struct cbx_wheel *w, struct cbx_err *err)
{
	const char *name = cbx_json_text(o, "name"), *version = cbx_json_text(o, "version"),
		   *build = cbx_json_text(o, "build"), *subdir = cbx_json_text(o, "subdir"),
		   *file = cbx_json_text(o, "file"), *url = cbx_json_text(o, "url"), *sum = cbx_json_text(o, "sha256");
	_cleanup_free_ char *stem = NULL, *end = NULL;
	struct cbx_conda_version v;

	if (!cbx_conda_name(name + PREFIX, strlen(name + PREFIX)))
		return bad(err, "a package has no name");
	snprintf(w->name, sizeof(w->name), "%s", name);
	if (!version || strlen(version) >= sizeof(w->version) || !cbx_conda_version_parse(version, strlen(version), &v))
		return bad(err, "a package has no version");
	strcpy(w->version, version);
	if (!sum || strlen(sum) != 64 || sum[strspn(sum, "0123456789abcdef")])
		return bad(err, "a package has no SHA-256 sum");
	strcpy(w->sum, sum);
	if (!build || !is_build(build, strlen(build), false))
		return bad(err, "a package has no build");
	stem = cbx_xasprintf("%s-%s-%s", name + PREFIX, version, build);
	if (!file || !cbx_starts_with(file, stem) ||
	    (strcmp(file + strlen(stem), ".conda") != 0 && strcmp(file + strlen(stem), ".tar.bz2") != 0))
		return bad(err, "a file is not one of its package");
	if (!subdir || !is_subdir(subdir, strlen(subdir)) || !url)
		return bad(err, "a package has no address");
	end = cbx_xasprintf("/%s/%s", subdir, file);
	if (!cbx_ends_with(url, end))
		return bad(err, "a package has the address of something else");
	w->file = cbx_xstrdup(file);
	w->build = cbx_xstrdup(build);
	return 0;
}

/* ---- channels ---- */

char *cbx_conda_channel(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
	bool address = cbx_starts_with(text, "https://") || cbx_starts_with(text, "http://");
	const char *p = address ? strstr(text, "://") + 3 : text;
	size_t n = strspn(p, letters);

	if (address && p[n] == ':') /* a port */
		n += 1 + strspn(p + n + 1, letters);
	if (!n || p[n] || strlen(text) > CBX_CHANNEL_MAX || !isalnum((unsigned char)*p) || strstr(p, "//") ||
	    strstr(p, "..") || strstr(p, "/./") || cbx_ends_with(p, "/."))
		return NULL;
	return cbx_xasprintf("%s%s%s", address ? "" : CBX_CONDA_SITE, text, cbx_ends_with(text, "/") ? "" : "/");
}

const char *cbx_conda_within(const char *channel, const char *url)
{
	size_t n = strlen(channel);
	const char *rest = url + n, *slash;

	if (!cbx_starts_with(url, channel) || strpbrk(rest, "?#%\\@: ") || !cbx_plain(rest))
		return NULL;
	slash = strchr(rest, '/');
	return slash && slash[1] && slash[1] != '.' && !strchr(slash + 1, '/') &&
			       is_subdir(rest, (size_t)(slash - rest))
		       ? rest
		       : NULL;
}

bool cbx_conda_is_list(const char *path)
{
	const char *file = strchr(path, '/');

	return file && (strcmp(file, "/repodata.json") == 0 || strcmp(file, "/repodata.json.zst") == 0);
}
