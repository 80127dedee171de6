/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_CLEANUP_H
#define CBX_BASE_CLEANUP_H

/*
 * Ownership by scope.
 *
 *     _cleanup_fd_ int fd = -1;           closed when it goes out of scope
 *     _cleanup_free_ char *p = NULL;      freed when it goes out of scope
 *     return take_fd(&fd);                ownership moves to the caller
 *
 * Every clean-up accepts the empty value (-1, NULL), and leaves errno alone.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

static inline void cbx_close_p(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

static inline void cbx_free_p(void *p)
{
	void **pp = p;

	free(*pp);
	*pp = NULL;
}

static inline void cbx_fclose_p(FILE **f)
{
	if (*f)
		fclose(*f);
	*f = NULL;
}

static inline void cbx_closedir_p(DIR **d)
{
	if (*d)
		closedir(*d);
	*d = NULL;
}

#define _cleanup_fd_ _cleanup_(cbx_close_p)
#define _cleanup_free_ _cleanup_(cbx_free_p)
#define _cleanup_fclose_ _cleanup_(cbx_fclose_p)
#define _cleanup_closedir_ _cleanup_(cbx_closedir_p)

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

#define take_ptr(pp)                          \
	({                                    \
		__auto_type _pp = (pp);       \
		__auto_type _v = *_pp;        \
		*_pp = NULL;                  \
		_v;                           \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
