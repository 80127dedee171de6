/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/npm.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define PREFIX	  (sizeof(CBX_NPM) - 1)
#define MODULES	  "node_modules/"
#define PLACE_MAX 1000

/* ---- requirements ---- */

static int refused(const char *text, const char *what, struct cbx_err *err)
{
	cbx_refuse(err, "package_refused", EPERM,
		   "%.200s: %s cannot be installed from; name a package of the registry, as in \"lodash@^4.17\"",
		   text + PREFIX, what);
	cbx_err_sanitize(err);
	return -EPERM;
}

static int not_one(const char *text, struct cbx_err *err)
{
	cbx_refuse(err, "invalid_argument", EINVAL,
		   "\"%.200s\" is not a package of npm; write a name and, if needed, versions, as in \"lodash@^4.17\"",
		   text + PREFIX);
	cbx_err_sanitize(err);
	return -EINVAL;
}

static bool is_archive(const char *name, size_t n)
{
	return (n > 4 && memcmp(name + n - 4, ".tgz", 4) == 0) || (n > 7 && memcmp(name + n - 7, ".tar.gz", 7) == 0);
}

static bool is_tag(const char *s)
{
	bool fine = isalpha((unsigned char)s[0]) && s[0] != 'v';

	for (; fine && *s; s++)
		fine = isalnum((unsigned char)*s) || strchr("._-", *s);
	return fine;
}

/* What two policies say of one package is "^1,@<2" in a rule. */
static bool ranges_valid(const char *text, bool rule)
{
	for (bool more = true; more;) {
		size_t n = rule ? strcspn(text, ",") : strlen(text);
		_cleanup_free_ char *range = cbx_xasprintf("%.*s", (int)n, text);

		if (!cbx_semver_range_valid(range))
			return false;
		more = text[n];
		text += n + more;
		if (more && *text++ != '@')
			return false;
	}
	return true;
}

int cbx_npm_requirement(const char *text, bool rule, struct cbx_requirement *ret, struct cbx_err *err)
{
	const char *name = text + PREFIX, *at = name[0] ? strchr(name + 1, '@') : NULL, *range = at ? at + 1 : "";
	size_t n = at ? (size_t)(at - name) : strlen(name);

	if (strlen(text) > CBX_REQUIREMENT_MAX || !cbx_plain(text))
		return not_one(text, err);
	if (name[0] == '-')
		return refused(text, "an option", err);
	if (strchr(name, ':'))
		return refused(text, "an address, or another name for a package,", err);
	if (name[0] == '.' || name[0] == '/' || name[0] == '~' || strchr(range, '/') || is_archive(name, n) ||
	    (name[0] != '@' && memchr(name, '/', n)))
		return refused(text, "a path", err);
	if (!cbx_npm_name(name, n) || strlen(range) + 2 > sizeof(ret->specifiers) ||
	    (!ranges_valid(range, rule) && (rule || !is_tag(range))))
		return not_one(text, err);
	snprintf(ret->name, sizeof(ret->name), CBX_NPM "%.*s", (int)n, name);
	snprintf(ret->specifiers, sizeof(ret->specifiers), "%s%s", range[0] ? "@" : "", range);
	return 0;
}

bool cbx_npm_holds(const char *specifiers, const char *version, bool any_pre)
{
	if (!specifiers[0])
		return true;
	for (bool more = true; more;) {
		size_t n = strcspn(specifiers, ",");
		_cleanup_free_ char *range = cbx_xasprintf("%.*s", (int)n, specifiers);

		if (!cbx_semver_holds(range + (range[0] == '@'), version, any_pre))
			return false;
		more = specifiers[n];
		specifiers += n + more;
	}
	return true;
}

/* ---- what a resolver found ---- */

static int bad(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "invalid_lock", EBADMSG, "the resolver's answer cannot be used: %s", what);
}

static bool is_place(const char *place)
{
	if (strlen(place) > PLACE_MAX || !cbx_plain(place))
		return false;
	for (bool more = true; more;) {
		size_t n;

		if (!cbx_starts_with(place, MODULES))
			return false;
		place += strlen(MODULES);
		n = strcspn(place, "/");
		if (place[0] == '@' && place[n])
			n += 1 + strcspn(place + n + 1, "/");
		if (!cbx_npm_name(place, n))
			return false;
		more = place[n];
		place += n + more;
	}
	return true;
}

int cbx_npm_read(const cJSON *o, struct cbx_wheel *w, struct cbx_err *err)
{
	const char *name = cbx_json_text(o, "name"), *version = cbx_json_text(o, "version"),
		   *place = cbx_json_text(o, "place"), *sum = cbx_json_text(o, "sha512");
	struct cbx_semver v;

	if (!cbx_npm_name(name + PREFIX, strlen(name + PREFIX)))
		return bad(err, "a package has no name");
	snprintf(w->name, sizeof(w->name), "%s", name);
	if (!version || strlen(version) >= sizeof(w->version) || !cbx_semver_parse(version, strlen(version), &v))
		return bad(err, "a package has no version");
	strcpy(w->version, version);
	if (!sum || strlen(sum) != sizeof(w->sum) - 1 || sum[strspn(sum, "0123456789abcdef")])
		return bad(err, "a package has no SHA-512 sum");
	strcpy(w->sum, sum);
	if (!place || !is_place(place))
		return bad(err, "a package has no place");
	w->place = cbx_xstrdup(place);
	w->file = cbx_xasprintf("%s-%s.tgz", strrchr(place, '/') + 1, version);
	return 0;
}
