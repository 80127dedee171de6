/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a step's text is kept, so that an update can print it again with its state behind it. Updates
 * are dropped when the last one is younger than a tenth of a second.
 */
#include "image/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static char step[200];
static int open_line;

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
	static uint64_t last;
	uint64_t now = cbx_now_ms();
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
