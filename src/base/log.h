/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LOG_H
#define CBX_BASE_LOG_H

/*
 * The daemons' log. Lines go to stderr (the journal, or the log file that the starter put there); control characters
 * in them are escaped and a line is cut at 1,000 bytes, so nothing that a client or a sandbox says can forge one.
 * Only programs and the daemon's top level log; library code returns errors instead.
 */
enum cbx_log_level { CBX_LOG_ERROR = 3, CBX_LOG_WARNING = 4, CBX_LOG_INFO = 6, CBX_LOG_DEBUG = 7 };

enum cbx_log_format { CBX_LOG_TEXT, CBX_LOG_JSON };

/* What a line is about, for those who read it as JSON; NULL: nothing. */
struct cbx_log_subject {
	const char *tenant, *session, *trace; /* trace: W3C trace context */
};

void cbx_log_open(const char *program, enum cbx_log_level max, int journal); /* journal: "<N>" prefixes, no time */
void cbx_log_set_format(enum cbx_log_format format);
void cbx_log(enum cbx_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* subject may be NULL. */
void cbx_log_about(enum cbx_log_level level, const struct cbx_log_subject *subject, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define cbx_error(...) cbx_log(CBX_LOG_ERROR, __VA_ARGS__)
#define cbx_warn(...) cbx_log(CBX_LOG_WARNING, __VA_ARGS__)
#define cbx_info(...) cbx_log(CBX_LOG_INFO, __VA_ARGS__)
#define cbx_debug(...) cbx_log(CBX_LOG_DEBUG, __VA_ARGS__)

#endif
