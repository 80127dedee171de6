/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: what every command says, it says through these few functions, so that messages look alike and
 * nothing that came from a sandbox reaches the terminal as it is. */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

/* Append a line, with what a terminal would obey made visible. */
__attribute__((format(printf, 3, 0))) static void add_line(struct cbx_buf *out, const char *prefix, const char *fmt,
							   va_list ap)
{
	_cleanup_free_ char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	cbx_buf_adds(out, prefix);
	cbx_escape(out, text);
	cbx_buf_addc(out, '\n');
}

void cbx_cli_say(const char *fmt, ...)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	va_list ap;

	va_start(ap, fmt);
	add_line(&line, "codebox: ", fmt, ap);
	va_end(ap);
	(void)cbx_write_all(STDERR_FILENO, line.data, line.len);
}

int cbx_cli_tell(const char *fmt, ...)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	va_list ap;

	va_start(ap, fmt);
	add_line(&line, "", fmt, ap);
	va_end(ap);
	return cbx_cli_out(line.data, line.len);
}

static bool json_errors; /* what the command line says; set once, before anything can fail */

void cbx_cli_json_errors(void)
{
	json_errors = true;
}

void cbx_cli_print_error(const char *kind, const char *msg)
{
	_cleanup_json_ cJSON *obj = NULL;
	cJSON *e;

	if (!json_errors)
		return;
	obj = cbx_json_new_obj();
	e = cbx_json_new_obj();
	cbx_json_set_str(e, "kind", kind);
	cbx_json_set_str(e, "message", msg);
	cbx_json_set(obj, "error", e);
	(void)cbx_cli_print_json(obj);
}

int cbx_cli_refuse(const char *kind, const char *fmt, ...)
{
	_cleanup_free_ char *msg = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&msg, fmt, ap) < 0)
		abort();
	va_end(ap);
	cbx_cli_print_error(kind, msg);
	cbx_cli_say("%s", msg);
	return CBX_EXIT_FAILURE;
}

int cbx_cli_no_session(const char *id)
{
	return cbx_cli_refuse("session_not_found",
			      "there is no session \"%s\" (codeboxd is not running); make one: codebox run --session",
			      id);
}

int cbx_cli_fail(const struct cbx_err *err)
{
	static const char *const own[] = { "invalid_policy",   "system",       "no_daemon",    "daemon_gone",
					   "daemon_stuck",     "no_sandbox",   "invalid_json", "unsafe_peer",
					   "unsafe_directory", "unsafe_start", "internal" };

	cbx_cli_print_error(err->kind, err->msg);
	cbx_cli_say("%s", err->msg);
	return cbx_find_word(err->kind, own, ARRAY_SIZE(own)) >= 0 ? CBX_EXIT_OWN : CBX_EXIT_FAILURE;
}

int cbx_cli_usage(const char *command, const char *fmt, ...)
{
	_cleanup_buf_ struct cbx_buf lines = { 0 };
	_cleanup_free_ char *msg = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&msg, fmt, ap) < 0)
		abort();
	va_end(ap);
	cbx_cli_print_error("usage", msg);
	cbx_buf_adds(&lines, "codebox: ");
	cbx_escape(&lines, msg);
	cbx_buf_addc(&lines, '\n');
	cbx_buf_addf(&lines, "Try: codebox %s%s--help\n", command, command[0] ? " " : "");
	(void)cbx_write_all(STDERR_FILENO, lines.data, lines.len);
	return CBX_EXIT_USAGE;
}

int cbx_cli_bad_option(const char *command, int c, char *const *argv)
{
	/* A long option leaves 0 in optopt when it is unknown; its text is the argument before optind. */
	const char *arg = argv[optind - 1];

	if (c == ':')
		return cbx_cli_usage(command, "missing value: %s", arg);
	if (optopt && !(arg[0] == '-' && arg[1] == '-'))
		return cbx_cli_usage(command, "unknown option -%c", optopt);
	return cbx_cli_usage(command, "unknown option, or one that takes no value: %s", arg);
}

int cbx_cli_out(const void *p, size_t n)
{
	int r = cbx_write_all(STDOUT_FILENO, p, n);

	if (r == 0)
		return CBX_EXIT_OK;
	if (r != -EPIPE)
		cbx_cli_say("write to standard output: %s", strerror(-r));
	return CBX_EXIT_OWN;
}

/* What a terminal would obey, as JSON's escapes: it is in strings, and says the same there. */
static void escape_unsafe(struct cbx_buf *out, const char *p, size_t n)
{
	while (n) {
		uint32_t code;
		size_t k = cbx_clean_unsafe(p, n, &code);

		if (k && code >= 0x10000) {
			cbx_buf_addf(out, "\\u%04x\\u%04x", 0xd800 + ((unsigned)code - 0x10000) / 0x400,
				     0xdc00 + ((unsigned)code - 0x10000) % 0x400);
		} else if (k) {
			cbx_buf_addf(out, "\\u%04x", (unsigned)code);
		} else {
			k = (unsigned char)*p < 0x80 ? 1 : cbx_utf8_len(p, n);
			cbx_buf_add(out, p, k);
		}
		p += k;
		n -= k;
	}
}

int cbx_cli_print_json(const cJSON *v)
{
	_cleanup_buf_ struct cbx_buf line = { 0 }, out = { 0 };

	cbx_json_print(&line, v);
	escape_unsafe(&out, cbx_buf_str(&line), line.len);
	cbx_buf_addc(&out, '\n');
	return cbx_cli_out(out.data, out.len);
}

const char *cbx_cli_cell_language(const char *language, const char *code)
{
	return strncmp(code, "%%", 2) == 0 ? NULL : language;
}

void cbx_cli_warn(const char *msg)
{
	cbx_cli_say("warning: %s", msg);
}

int cbx_cli_client(bool start, struct cbx_client *ret, struct cbx_err *err)
{
	struct cbx_dirs dirs;
	int r = cbx_dirs_init(&dirs, err);

	if (r < 0)
		return r;
	r = cbx_client_open(&dirs, start, cbx_cli_warn, ret, err);
	cbx_dirs_release(&dirs);
	return r >= 0 ? 1 : strcmp(err->kind, "no_daemon") == 0 ? 0 : r;
}

int cbx_cli_exec(const char *program, char **argv)
{
	_cleanup_free_ char *path = NULL;
	struct cbx_dirs dirs;
	struct cbx_err err;

	if (cbx_dirs_init(&dirs, &err) < 0)
		return cbx_cli_fail(&err);
	path = cbx_xasprintf("%s/%s", dirs.libexec, program);
	cbx_dirs_release(&dirs);
	execv(path, argv);
	cbx_cli_say("execute %s: %s; is codebox installed completely?", path, strerror(errno));
	return CBX_EXIT_OWN;
}
