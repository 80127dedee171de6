/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

static struct {
	const char *program;
	enum cbx_log_level max;
	int journal;
} state = { "codebox", CBX_LOG_INFO, 0 };

void cbx_log_open(const char *program, enum cbx_log_level max, int journal)
{
	state.program = program;
	state.max = max;
	state.journal = journal;
}

static const char *level_name(enum cbx_log_level level)
{
	switch (level) {
	case CBX_LOG_ERROR:
		return "error";
	case CBX_LOG_WARNING:
		return "warning";
	case CBX_LOG_INFO:
		return "info";
	case CBX_LOG_DEBUG:
		return "debug";
	}
	return "?";
}

void cbx_log(enum cbx_log_level level, const char *fmt, ...)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	char text[1000];
	int saved = errno;
	va_list ap;

	if (level > state.max)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (state.journal) {
		cbx_buf_addf(&line, "<%d>", (int)level);
	} else {
		struct timespec ts;
		struct tm tm;
		char when[32];

		clock_gettime(CLOCK_REALTIME, &ts);
		gmtime_r(&ts.tv_sec, &tm);
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
		cbx_buf_addf(&line, "%s.%03ldZ %s[%d] %s: ", when, ts.tv_nsec / 1000000, state.program, (int)getpid(),
			     level_name(level));
	}
	cbx_escape(&line, text);
	cbx_buf_addc(&line, '\n');
	if (write(STDERR_FILENO, line.data, line.len) < 0) {
		/* Nobody is left to tell. */
	}
	errno = saved;
}
