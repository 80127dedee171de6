/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void set_kind(struct cbx_err *err, const char *kind)
{
	snprintf(err->kind, sizeof(err->kind), "%s", kind);
}

int cbx_fail(struct cbx_err *err, int code, const char *fmt, ...)
{
	va_list ap;
	int n;

	err->code = code > 0 ? code : EIO;
	set_kind(err, "system");
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg))
		snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", strerror(err->code));
	return -err->code;
}

int cbx_refuse(struct cbx_err *err, const char *kind, int code, const char *fmt, ...)
{
	va_list ap;

	err->code = code > 0 ? code : EIO;
	set_kind(err, kind);
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return -err->code;
}

int cbx_wrap(struct cbx_err *err, const char *fmt, ...)
{
	char old[sizeof(err->msg)];
	va_list ap;
	int n;

	memcpy(old, err->msg, sizeof(old));
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg))
		snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", old);
	return -err->code;
}

void cbx_err_sanitize(struct cbx_err *err)
{
	if (err->code <= 0 || err->code > 4095)
		err->code = EIO;
	err->kind[sizeof(err->kind) - 1] = '\0';
	err->msg[sizeof(err->msg) - 1] = '\0';
	for (char *p = err->kind; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || *p == '_'))
			*p = '_';
	for (char *p = err->msg; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}
