/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: a line is "NAME CREATED CELL". The file is replaced as a whole; where two prompts write it at
 * once, one of them shows a little more the next time. */
#include "cli/seen.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define FILE_MAX KIB(64)

static void read_all(const char *file, struct cbx_buf *text)
{
	_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0 && cbx_read_whole(fd, FILE_MAX, text) < 0)
		cbx_buf_drop(text, text->len);
}

/* The line of a session that begins at or after p, and what follows its name; NULL: there is none. */
static const char *line_of(const char *p, const char *session, const char **ret_rest)
{
	size_t n = strlen(session);

	while (*p) {
		if (strncmp(p, session, n) == 0 && p[n] == ' ') {
			*ret_rest = p + n + 1;
			return p;
		}
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	return NULL;
}

bool cbx_seen_get(const char *file, const char *session, const char *created, uint64_t *ret)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	size_t n = strlen(created);
	const char *rest;

	read_all(file, &text);
	if (!line_of(cbx_buf_str(&text), session, &rest) || strncmp(rest, created, n) != 0 || rest[n] != ' ')
		return false;
	*ret = strtoull(rest + n + 1, NULL, 10);
	return true;
}

void cbx_seen_put(const char *file, const char *session, const char *created, uint64_t cell)
{
	_cleanup_buf_ struct cbx_buf old = { 0 }, text = { 0 };
	_cleanup_free_ char *new = cbx_xasprintf("%s.%d", file, (int)getpid());
	_cleanup_fd_ int fd = -1;
	const char *p, *own, *rest;

	read_all(file, &old);
	cbx_buf_addf(&text, "%s %s %llu\n", session, created, (unsigned long long)cell);
	p = cbx_buf_str(&old);
	own = line_of(p, session, &rest);
	for (int lines = 1; *p && lines < CBX_SEEN_MAX;) {
		size_t n = strcspn(p, "\n") + 1;

		if (p != own && p[n - 1]) {
			cbx_buf_add(&text, p, n);
			lines++;
		}
		p += p[n - 1] ? n : n - 1;
	}
	fd = open(new, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || cbx_write_all(fd, text.data, text.len) < 0 || rename(new, file) < 0)
		unlink(new);
}
