/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/libpq.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

int cbx_libpq_load(struct cbx_libpq *pq, struct cbx_err *err)
{
	void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);

#define FIND(type, name, arguments)	  pq->name = library ? (type(*) arguments)dlsym(library, #name) : NULL;
#define IS_MISSING(type, name, arguments) || !pq->name
	CBX_LIBPQ(FIND)
	if (!library CBX_LIBPQ(IS_MISSING))
		return cbx_refuse(
			err, "no_driver", ENOENT,
			"PostgreSQL's client library (libpq.so.5) is not installed; install libpq5 (Fedora: libpq)");
	return 0;
}
