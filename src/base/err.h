/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_ERR_H
#define CBX_BASE_ERR_H

/*
 * Errors with context.
 *
 * A function that can fail returns an int: zero or positive on success, -errno on failure; on failure it has also
 * filled the struct cbx_err that its caller passed. The struct lives on the caller's stack, needs no release, and
 * is plain data without pointers, so a set-up child can write it through a socket to its parent.
 *
 * Library code never prints: it fills the error and returns. Only a program's main file or the daemon's log decides
 * where an error is printed.
 *
 * `kind` is a stable machine-readable word (lower case, underscores) for errors that cross an interface, such as
 * "session_not_found"; it is "system" for plain system-call failures.
 */
struct cbx_err {
	int code;       /* positive errno value; 0 when unset */
	char kind[32];  /* stable word for programs */
	char msg[600];  /* one sentence for people, without a trailing newline; names field, value and remedy */
};

/* Fill `err` from a failed system call: the message becomes "<formatted>: <strerror(code)>". Returns -code. */
int cbx_fail(struct cbx_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Fill `err` with a refusal of ours; the message is used as it is. Returns -code. */
int cbx_refuse(struct cbx_err *err, const char *kind, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Put "<formatted>: " before the message already in `err`. Returns -err->code. */
int cbx_wrap(struct cbx_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Make an error that was received from elsewhere safe to use: terminated strings, control characters replaced,
 * code within the errno range. */
void cbx_err_sanitize(struct cbx_err *err);

#endif
