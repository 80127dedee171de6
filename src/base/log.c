/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clean.h"
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

static struct {
	const char *program;
	enum cbx_log_level max;
	int journal;
	enum cbx_log_format format;
} state = { "codebox", CBX_LOG_INFO, 0, CBX_LOG_TEXT };

void cbx_log_open(const char *program, enum cbx_log_level max, int journal)
{
	state.program = program;
	state.max = max;
	state.journal = journal;
}

void cbx_log_set_format(enum cbx_log_format format)
{
	state.format = format;
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

static void add_time(struct cbx_buf *line)
{
	char when[32];

	cbx_format_time_ms(cbx_wall_ms(), when);
	cbx_buf_adds(line, when);
}

/* This file is part of programs that know no JSON library. */
static void add_member(struct cbx_buf *line, const char *key, const char *text, size_t n)
{
	_cleanup_buf_ struct cbx_buf plain = { 0 }, whole = { 0 };
	_cleanup_free_ char *part = text ? strndup(text, n) : NULL;

	if (!part)
		return;
	cbx_escape(&plain, part);
	cbx_utf8_append(&whole, cbx_buf_str(&plain), plain.len);
	cbx_buf_addf(line, "%s\"%s\":\"", line->data[line->len - 1] == '{' ? "" : ",", key);
	for (const char *p = cbx_buf_str(&whole); *p; p++) {
		if (*p == '"' || *p == '\\')
			cbx_buf_addc(line, '\\');
		cbx_buf_addc(line, *p);
	}
	cbx_buf_addc(line, '"');
}

static void add_json(struct cbx_buf *line, enum cbx_log_level level, const struct cbx_log_subject *subject,
		     const char *text)
{
	cbx_buf_adds(line, "{\"time\":\"");
	add_time(line);
	cbx_buf_addf(line, "\",\"program\":\"%s\",\"pid\":%d", state.program, (int)getpid());
	add_member(line, "level", level_name(level), SIZE_MAX);
	add_member(line, "message", text, SIZE_MAX);
	if (subject) {
		add_member(line, "tenant", subject->tenant, SIZE_MAX);
		add_member(line, "session", subject->session, SIZE_MAX);
	}
	if (subject && subject->trace && subject->trace[0]) { /* "00-" trace_id "-" span_id "-" */
		add_member(line, "trace_id", subject->trace + 3, 32);
		add_member(line, "span_id", subject->trace + 36, 16);
	}
	cbx_buf_addc(line, '}');
}

static void print(enum cbx_log_level level, const struct cbx_log_subject *subject, const char *text)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	int saved = errno;

	if (state.journal)
		cbx_buf_addf(&line, "<%d>", (int)level);
	if (state.format == CBX_LOG_JSON) {
		add_json(&line, level, subject, text);
	} else {
		if (!state.journal) {
			add_time(&line);
			cbx_buf_addf(&line, " %s[%d] %s: ", state.program, (int)getpid(), level_name(level));
		}
		cbx_escape(&line, text);
	}
	cbx_buf_addc(&line, '\n');
	if (write(STDERR_FILENO, line.data, line.len) < 0) {
		/* Nobody is left to tell. */
	}
	errno = saved;
}

__attribute__((format(printf, 3, 0))) static void
print_formatted(enum cbx_log_level level, const struct cbx_log_subject *subject, const char *fmt, va_list ap)
{
	char text[1000];

	if (level > state.max)
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	print(level, subject, text);
}

void cbx_log(enum cbx_log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_formatted(level, NULL, fmt, ap);
	va_end(ap);
}

void cbx_log_about(enum cbx_log_level level, const struct cbx_log_subject *subject, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_formatted(level, subject, fmt, ap);
	va_end(ap);
}
