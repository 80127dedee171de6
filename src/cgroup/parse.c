/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/parse.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mountinfo.h"

/* A piece of a text. */
struct piece {
	const char *p;
	size_t n;
};

/* Take what is before the next `sep` off the front of `rest`. False: nothing is left. */
static bool next(struct piece *rest, char sep, struct piece *ret)
{
	const char *end;

	if (!rest->p)
		return false;
	end = memchr(rest->p, sep, rest->n);
	ret->p = rest->p;
	ret->n = end ? (size_t)(end - rest->p) : rest->n;
	rest->n -= end ? ret->n + 1 : rest->n;
	rest->p = end ? end + 1 : NULL;
	return true;
}

static bool next_line(struct piece *rest, struct piece *ret)
{
	return rest->n > 0 && next(rest, '\n', ret);
}

static bool is(const struct piece *a, const char *b)
{
	return a->n == strlen(b) && memcmp(a->p, b, a->n) == 0;
}

static bool number(const struct piece *a, uint64_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < a->n; i++) {
		if (a->p[i] < '0' || a->p[i] > '9' || v > (UINT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(a->p[i] - '0');
	}
	*ret = v;
	return a->n > 0;
}

/* Absolute, and without a part that leads up: a group outside of our cgroup namespace reads "/../x". */
static bool clean(const char *path)
{
	for (const char *p = path; (p = strstr(p, "/..")); p += 3)
		if (p[3] == '/' || p[3] == '\0')
			return false;
	return path[0] == '/';
}

/* ---- where we are ---- */

static int self_line(const struct piece *line, struct cbx_cgroup_self *ret)
{
	struct piece rest = *line, id, controllers;
	uint64_t n;

	if (!next(&rest, ':', &id) || !number(&id, &n) || !next(&rest, ':', &controllers) || !rest.p || rest.n == 0 ||
	    rest.n >= sizeof(ret->path) || memchr(rest.p, '\0', rest.n))
		return -EINVAL;
	if (n != 0) {
		/* "name=systemd" is a hierarchy without controllers. */
		ret->v1 |= controllers.n > 0 && !(controllers.n > 5 && memcmp(controllers.p, "name=", 5) == 0);
		return 0;
	}
	if (controllers.n || ret->path[0])
		return -EINVAL;
	memcpy(ret->path, rest.p, rest.n);
	ret->path[rest.n] = '\0';
	return 0;
}

int cbx_cgroup_parse_self(const char *text, size_t len, struct cbx_cgroup_self *ret, struct cbx_err *err)
{
	struct piece rest = { text, len }, line;

	memset(ret, 0, sizeof(*ret));
	while (next_line(&rest, &line))
		if (self_line(&line, ret) < 0)
			return cbx_refuse(err, "cgroup", EINVAL, "/proc/self/cgroup has a line of an unknown form");
	if (ret->path[0] && !clean(ret->path))
		return cbx_refuse(
			err, "cgroup", EINVAL,
			"our control group is outside of the part of the tree that is shown here (\"%.100s\")",
			ret->path);
	return 0;
}

/* The file system of a line is the tree of control groups, and we can see where. */
static bool is_tree(const struct piece *line, struct cbx_mountinfo *ret)
{
	return cbx_mountinfo_parse(line->p, line->n, ret) && strcmp(ret->type, "cgroup2") == 0 && clean(ret->root) &&
	       clean(ret->point);
}

int cbx_cgroup_parse_mounts(const char *text, size_t len, const char *path, char ret[CBX_CGROUP_PATH_MAX],
			    struct cbx_err *err)
{
	struct cbx_mountinfo m;
	struct piece rest = { text, len }, line;

	while (next_line(&rest, &line)) {
		size_t n, top;

		if (!is_tree(&line, &m))
			continue;
		n = strcmp(m.root, "/") == 0 ? 0 : strlen(m.root);
		if (strncmp(path, m.root, n) != 0 || (path[n] && path[n] != '/'))
			continue;
		top = strcmp(m.point, "/") == 0 ? 0 : strlen(m.point);
		if (top + strlen(path + n) >= CBX_CGROUP_PATH_MAX)
			continue;
		memcpy(ret, m.point, top);
		strcpy(ret + top, path + n);
		if (!ret[0]) /* the group itself is mounted as the root directory */
			strcpy(ret, "/");
		return 0;
	}
	return cbx_refuse(err, "cgroup", ENOENT,
			  "the tree of control groups (cgroup2) is not mounted where we can see it");
}

/* ---- what groups hold ---- */

unsigned cbx_cgroup_parse_controllers(const char *text, size_t len)
{
	static const struct {
		const char *name;
		unsigned bit;
	} known[] = { { "memory", CBX_CONTROLLER_MEMORY },
		      { "pids", CBX_CONTROLLER_PIDS },
		      { "cpu", CBX_CONTROLLER_CPU },
		      { "io", CBX_CONTROLLER_IO } };
	struct piece rest = { text, len }, line, word;
	unsigned bits = 0;

	while (next_line(&rest, &line))
		while (next(&line, ' ', &word))
			for (size_t i = 0; i < ARRAY_SIZE(known); i++)
				if (is(&word, known[i].name))
					bits |= known[i].bit;
	return bits;
}

bool cbx_cgroup_parse_value(const char *text, size_t len, const char *key, uint64_t *ret)
{
	struct piece rest = { text, len }, line, word;

	while (next_line(&rest, &line))
		if (next(&line, ' ', &word) && is(&word, key) && line.p)
			return number(&line, ret);
	return false;
}

bool cbx_cgroup_parse_number(const char *text, size_t len, uint64_t *ret)
{
	struct piece rest = { text, len }, line;

	return next_line(&rest, &line) && number(&line, ret);
}

void cbx_cgroup_parse_io(const char *text, size_t len, uint64_t *ret_read, uint64_t *ret_written)
{
	struct piece rest = { text, len }, line, word, key;
	uint64_t n;

	*ret_read = *ret_written = 0;
	while (next_line(&rest, &line))
		while (next(&line, ' ', &word)) {
			if (!next(&word, '=', &key) || !word.p || !number(&word, &n))
				continue;
			if (is(&key, "rbytes"))
				*ret_read += n;
			else if (is(&key, "wbytes"))
				*ret_written += n;
		}
}
