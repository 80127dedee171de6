/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the first picture asks the terminal, once: for kitty's protocol, its name, and last its
 * attributes, which every terminal tells, so that nobody waits for an answer that does not come, but for a terminal
 * that tells nothing at all. What a person types meanwhile is kept for whoever reads next. Only in the foreground, and
 * where standard input is that terminal.
 *
 * A picture is decoded in a process that has no descriptors and whose only system call is its end; its pixels come
 * through memory that is shared. Whatever happens there, pixels are all that comes.
 */
#include "cli/images.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#define ANSWER_MS   2000
#define ANSWERS_MAX 4096
#define DECODE_S    5 /* of a processor */
/* A pixel for kitty, the terminal's name, its attributes; and what a terminal may have shown of them is erased. */
#define QUESTIONS "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\\033[>q\033[c\r\033[K"

void cbx_images_release(struct cbx_images *im)
{
	cbx_buf_release(&im->typed);
}

/* ---- what the terminal says ---- */

/* The length of a control string "ESC kind … ESC \" at p; 0: it is none, or has not ended. */
static size_t string_at(const char *p, size_t n, char kind)
{
	if (n < 2 || p[0] != '\033' || p[1] != kind)
		return 0;
	for (size_t i = 2; i + 1 < n; i++)
		if (p[i] == '\033' && p[i + 1] == '\\')
			return i + 2;
	return 0;
}

/* Likewise of "ESC [ ? numbers c"; *ret_sixel: 4 is one of these. */
static size_t attributes_at(const char *p, size_t n, bool *ret_sixel)
{
	unsigned v = 0;

	*ret_sixel = false;
	if (n < 4 || memcmp(p, "\033[?", 3) != 0)
		return 0;
	for (size_t i = 3; i < n; i++) {
		if (p[i] >= '0' && p[i] <= '9') {
			v = v < 1000 ? v * 10 + (unsigned)(p[i] - '0') : v;
		} else if (p[i] == ';' || p[i] == 'c') {
			*ret_sixel = *ret_sixel || v == 4;
			v = 0;
			if (p[i] == 'c')
				return i + 1;
		} else {
			return 0;
		}
	}
	return 0;
}

static bool begins(const char *p, size_t n, const char *text)
{
	return n >= strlen(text) && memcmp(p, text, strlen(text)) == 0;
}

bool cbx_images_answers(const char *p, size_t n, enum cbx_images_kind *ret, struct cbx_buf *typed)
{
	bool kitty = false, iterm2 = false, sixel = false, last = false;

	while (n) {
		size_t len = string_at(p, n, '_');

		if (len) {
			kitty = kitty || begins(p, len, "\033_Gi=31;OK\033");
		} else if ((len = string_at(p, n, 'P'))) {
			iterm2 = iterm2 || begins(p, len, "\033P>|iTerm2") || begins(p, len, "\033P>|WezTerm");
		} else if ((len = attributes_at(p, n, &sixel))) {
			last = true;
			cbx_buf_add(typed, p + len, n - len);
			break;
		} else {
			cbx_buf_addc(typed, *p);
			len = 1;
		}
		p += len;
		n -= len;
	}
	*ret = !last	? CBX_IMAGES_NONE
	       : kitty	? CBX_IMAGES_KITTY
	       : iterm2 ? CBX_IMAGES_ITERM2
	       : sixel	? CBX_IMAGES_SIXEL
			: CBX_IMAGES_NONE;
	return last;
}

static void read_answers(struct cbx_images *im)
{
	_cleanup_buf_ struct cbx_buf got = { 0 };
	uint64_t until = cbx_now_ms() + ANSWER_MS, now;

	while (got.len < ANSWERS_MAX && (now = cbx_now_ms()) < until) {
		struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
		_cleanup_buf_ struct cbx_buf typed = { 0 };
		char data[256];
		ssize_t n;

		if (poll(&p, 1, (int)(until - now)) <= 0)
			continue;
		n = read(STDIN_FILENO, data, sizeof(data));
		if (n <= 0)
			break;
		cbx_buf_add(&got, data, (size_t)n);
		if (cbx_images_answers(got.data, got.len, &im->kind, &typed)) {
			cbx_buf_add(&im->typed, cbx_buf_str(&typed), typed.len);
			return;
		}
	}
	cbx_buf_add(&im->typed, cbx_buf_str(&got), got.len);
}

/* Standard input is this terminal, and we are in its foreground. */
static bool may_ask(const struct cbx_term *t)
{
	const char *name = getenv("TERM");
	struct stat in, out;

	return t->filter && name && strcmp(name, "dumb") != 0 && fstat(STDIN_FILENO, &in) == 0 &&
	       fstat(t->fd, &out) == 0 && S_ISCHR(in.st_mode) && in.st_rdev == out.st_rdev &&
	       tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void ask(struct cbx_images *im, const struct cbx_term *t)
{
	struct termios old, quiet;

	if (im->asked || !may_ask(t) || tcgetattr(STDIN_FILENO, &old) < 0)
		return;
	quiet = old;
	quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &quiet) < 0)
		return;
	im->asked = true;
	if (cbx_write_all(t->fd, QUESTIONS, strlen(QUESTIONS)) == 0)
		read_answers(im);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &old);
}

/* ---- a picture ---- */

/* From here on the end is all that there is; by its number alone, which no other architecture has for anything that
 * could do harm without descriptors. */
static int confine(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };
	struct rlimit time = { DECODE_S, DECODE_S }, none = { 0, 0 };

	if (syscall(SYS_close_range, 0u, ~0u, 0u) < 0 || setrlimit(RLIMIT_CPU, &time) < 0 ||
	    setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

static bool decode_apart(const uint8_t *png, size_t n, uint8_t *work, size_t size, struct cbx_picture *p)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		bool ok = confine() == 0 && cbx_png_decode(png, n, work, size, p);

		for (;;)
			syscall(SYS_exit, ok ? 0 : 1);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static struct cbx_images_room room_of(int fd)
{
	struct cbx_images_room room = { 80, 24, 10, 20 };
	struct winsize ws;

	if (ioctl(fd, TIOCGWINSZ, &ws) < 0 || !ws.ws_col || !ws.ws_row)
		return room;
	room.columns = ws.ws_col;
	room.rows = ws.ws_row > 2 ? ws.ws_row - 2u : 1;
	if (ws.ws_xpixel / ws.ws_col && ws.ws_ypixel / ws.ws_row) {
		room.cell_width = ws.ws_xpixel / ws.ws_col;
		room.cell_height = ws.ws_ypixel / ws.ws_row;
	}
	return room;
}

static bool draw(const struct cbx_images *im, struct cbx_term *t, const struct cbx_picture *p)
{
	struct cbx_images_room room = room_of(t->fd);
	_cleanup_buf_ struct cbx_buf out = { 0 };
	unsigned rows = cbx_images_draw(im->kind, p, &room, &out);

	cbx_buf_adds(&out, "\r\n");
	if (cbx_write_all(t->fd, out.data, out.len) < 0)
		return false;
	t->last = '\n';
	if (t->rows)
		cbx_rows_moved(t->rows, rows);
	return true;
}

bool cbx_images_show(struct cbx_images *im, struct cbx_term *t, const uint8_t *png, size_t n)
{
	struct cbx_picture p;
	size_t work, all;
	uint8_t *memory;
	bool ok;

	if (!cbx_png_size(png, n, &p.width, &p.height))
		return false;
	if (t->filter)
		cbx_term_fresh_line(t);
	ask(im, t);
	if (im->kind == CBX_IMAGES_NONE)
		return false;
	work = CBX_PNG_WORK(p.width, p.height) + n;
	all = work + (size_t)p.width * p.height * 3;
	memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	p.rgb = memory + work;
	ok = decode_apart(png, n, memory, work, &p) && draw(im, t, &p);
	munmap(memory, all);
	return ok;
}
