/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a step's text is kept, so that an update can print it again with its state behind it. Updates
 * are dropped when the last one is younger than a tenth of a second.
 */
#include "image/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static char step[200];
static int open_line;

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void cbx_progress_step(const char *fmt, ...)
{
	va_list ap;

	cbx_progress_end();
	va_start(ap, fmt);
	vsnprintf(step, sizeof(step), fmt, ap);
	va_end(ap);
	if (isatty(STDERR_FILENO)) {
		fprintf(stderr, "%s …", step);
		open_line = 1;
	} else {
		fprintf(stderr, "%s\n", step);
	}
	fflush(stderr);
}

void cbx_progress_update(const char *fmt, ...)
{
	static int64_t last;
	int64_t now = now_ms();
	char text[120];
	va_list ap;

	if (!open_line || now - last < 100)
		return;
	last = now;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "\r\033[K%s … %s", step, text);
	fflush(stderr);
}

void cbx_progress_end(void)
{
	if (open_line) {
		fprintf(stderr, "\r\033[K%s\n", step);
		fflush(stderr);
	}
	open_line = 0;
}
