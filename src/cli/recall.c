/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a line of the file is a cell, in the form that libedit has for lines of a history: what is not
 * seen, and a backslash, is a backslash and three octal digits. So a file of codebox 0.1, with a line of a cell in each
 * line, is read, too. Prompts that run at once append to the same file; who finds it too long when it starts replaces
 * it by its last cells.
 */
#include "cli/recall.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define HEAD "_HiStOrY_V2_\n"

static void encode(struct cbx_buf *out, const char *cell)
{
	for (const char *p = cell; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == '\\' || *p == 0x7f)
			cbx_buf_addf(out, "\\%03o", (unsigned)*p);
		else
			cbx_buf_addc(out, *p);
	cbx_buf_addc(out, '\n');
}

static char *decode(const char *p, size_t n)
{
	struct cbx_buf out = { 0 };

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\\' && i + 3 < n && strspn(p + i + 1, "01234567") >= 3) {
			cbx_buf_addc(&out, (char)((p[i + 1] - '0') << 6 | (p[i + 2] - '0') << 3 | (p[i + 3] - '0')));
			i += 3;
		} else if (p[i] == '\\' && i + 1 < n && p[i + 1] == '\\') {
			cbx_buf_addc(&out, p[++i]);
		} else {
			cbx_buf_addc(&out, p[i]);
		}
	}
	return cbx_buf_steal(&out);
}

static void keep(struct cbx_recall *h, char *cell)
{
	if (h->n == CBX_PROMPT_HISTORY_MAX) {
		free(h->cells[0]);
		memmove(h->cells, h->cells + 1, --h->n * sizeof(*h->cells));
	}
	h->cells[h->n++] = cell;
}

static void rewrite(const struct cbx_recall *h)
{
	_cleanup_free_ char *new = cbx_xasprintf("%s.%d", h->file, (int)getpid());
	_cleanup_fd_ int fd = open(new, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_buf_adds(&text, HEAD);
	for (size_t i = 0; i < h->n; i++)
		encode(&text, h->cells[i]);
	if (fd < 0 || cbx_write_all(fd, text.data, text.len) < 0 || rename(new, h->file) < 0)
		unlink(new);
}

void cbx_recall_open(struct cbx_recall *h, const char *file)
{
	_cleanup_fd_ int fd = file ? open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	size_t lines = 0;

	h->cells = cbx_xcalloc(CBX_PROMPT_HISTORY_MAX, sizeof(*h->cells));
	h->file = file ? cbx_xstrdup(file) : NULL;
	if (fd < 0 || cbx_read_whole(fd, 2 * CBX_PROMPT_HISTORY_BYTES, &text) < 0)
		return;
	for (const char *p = cbx_buf_str(&text); *p;) {
		size_t n = strcspn(p, "\n");
		char *cell = n && strncmp(p, HEAD, strlen(HEAD)) != 0 ? decode(p, n) : NULL;

		if (cell && cell[0] && cbx_utf8_valid(cell, strlen(cell)))
			keep(h, cell);
		else
			free(cell);
		lines++;
		p += n + (p[n] == '\n');
	}
	if (lines > CBX_PROMPT_HISTORY_MAX + CBX_PROMPT_HISTORY_MAX / 2 || text.len > CBX_PROMPT_HISTORY_BYTES) {
		for (size_t bytes = 0, i = h->n; i-- > 0;)
			if ((bytes += strlen(h->cells[i])) > CBX_PROMPT_HISTORY_BYTES / 2) {
				for (size_t k = 0; k <= i; k++)
					free(h->cells[k]);
				h->n -= i + 1;
				memmove(h->cells, h->cells + i + 1, h->n * sizeof(*h->cells));
				break;
			}
		rewrite(h);
	}
}

void cbx_recall_add(struct cbx_recall *h, const char *cell)
{
	_cleanup_fd_ int fd = -1;
	_cleanup_buf_ struct cbx_buf line = { 0 };

	if (!cell[0] || strlen(cell) > CBX_PROMPT_CELL_MAX || (h->n && strcmp(h->cells[h->n - 1], cell) == 0))
		return;
	keep(h, cbx_xstrdup(cell));
	if (!h->file)
		return;
	fd = open(h->file, O_CREAT | O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (fd < 0)
		return;
	if (lseek(fd, 0, SEEK_END) == 0)
		cbx_buf_adds(&line, HEAD);
	encode(&line, cell);
	(void)cbx_write_all(fd, line.data, line.len);
}

void cbx_recall_release(struct cbx_recall *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->cells[i]);
	free(h->cells);
	free(h->file);
	memset(h, 0, sizeof(*h));
}
