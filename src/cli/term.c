/* SPDX-License-Identifier: Apache-2.0 */
/* What is not for a terminal is written as it is; what is goes through the cleaner. */
#include "cli/term.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clean.h"
#include "base/fd.h"

static void emit(struct cbx_term *t, const char *p, size_t n)
{
	if (!n || t->failed)
		return;
	t->error = -cbx_write_all(t->fd, p, n);
	t->failed = t->error != 0;
	t->last = p[n - 1];
	if (t->rows)
		cbx_rows_write(t->rows, p, n);
}

/* The rows know what they have only of what is written. */
static void move(void *arg, struct cbx_buf *out, char letter, unsigned n)
{
	struct cbx_term *t = arg;

	emit(t, out->data, out->len);
	out->len = 0;
	if (t->rows)
		cbx_rows_move(t->rows, out, letter, n);
}

void cbx_term_init(struct cbx_term *t, int fd)
{
	struct stat st;

	memset(t, 0, sizeof(*t));
	t->fd = fd;
	t->filter = isatty(fd) == 1;
	t->pipe = fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
	t->last = '\n';
	t->cleaner.move = move;
	t->cleaner.arg = t;
}

void cbx_term_write(struct cbx_term *t, const char *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	if (!t->filter) {
		emit(t, p, n);
		return;
	}
	cbx_cleaner_feed(&t->cleaner, &out, p, n);
	emit(t, out.data, out.len);
}

size_t cbx_term_some(struct cbx_term *t, const char *p, size_t n)
{
	size_t room = n;
	int there = 0;
	ssize_t k;

	if (t->filter || t->failed) {
		cbx_term_write(t, p, n);
		return n;
	}
	/* An empty pipe takes what it can hold; of another one poll() promises PIPE_BUF. */
	if (t->pipe)
		room = ioctl(t->fd, FIONREAD, &there) == 0 && !there ? (size_t)fcntl(t->fd, F_GETPIPE_SZ) : PIPE_BUF;
	k = write(t->fd, p, n < room ? n : room);
	if (k > 0) {
		t->last = p[k - 1];
		return (size_t)k;
	}
	if (k < 0 && errno != EAGAIN && errno != EINTR) {
		t->failed = true;
		t->error = errno;
	}
	return 0;
}

void cbx_term_puts(struct cbx_term *t, const char *s)
{
	cbx_term_write(t, s, strlen(s));
}

void cbx_term_flush(struct cbx_term *t)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_cleaner_end(&t->cleaner, &out);
	emit(t, out.data, out.len);
}

void cbx_term_fresh_line(struct cbx_term *t)
{
	_cleanup_buf_ struct cbx_buf down = { 0 };

	cbx_term_flush(t);
	if (t->rows)
		cbx_rows_leave(t->rows, &down);
	emit(t, down.data, down.len);
	if (t->last != '\n')
		emit(t, "\n", 1);
}

void cbx_term_erase(struct cbx_term *t)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	if (!t->rows || t->rows->fd < 0 || t->failed)
		return;
	cbx_term_flush(t);
	cbx_rows_erase(t->rows, &out);
	if (cbx_write_all(t->fd, out.data, out.len) == 0)
		t->last = '\n';
}
