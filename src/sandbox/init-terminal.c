/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a process beside each program with a terminal, which copies between that and two pipes. It is a
 * process like those of the session, of the same user: what they do to it, they do to their own terminal.
 *
 * Nothing is read that cannot be passed on. So a slow reader has the program wait, while what is typed, such as Ctrl-C,
 * still reaches the terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/place.h"
#include "base/syscalls.h"
#include "sandbox/init-terminal.h"

enum { MASTER = 3, TYPED, SHOWN };

struct way {
	char data[16384];
	size_t at, n;
};

/* False: no more comes. */
static bool take(int fd, struct way *w)
{
	ssize_t n = read(fd, w->data, sizeof(w->data));

	w->at = 0;
	w->n = n > 0 ? (size_t)n : 0;
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* False: nobody takes it. */
static bool give(int fd, struct way *w)
{
	ssize_t n = write(fd, w->data + w->at, w->n - w->at);

	if (n > 0)
		w->at += (size_t)n;
	if (w->at == w->n)
		w->at = w->n = 0;
	return n >= 0 || errno == EAGAIN || errno == EINTR;
}

static void copy(void)
{
	static struct way up, down;
	bool typing = true, showing = true;

	while (showing || up.n) {
		short wanted = (short)((showing && !up.n ? POLLIN : 0) | (down.n ? POLLOUT : 0));
		struct pollfd p[3] = { { wanted ? MASTER : -1, wanted, 0 },
				       { typing && !down.n ? TYPED : -1, POLLIN, 0 },
				       { SHOWN, up.n ? POLLOUT : 0, 0 } };

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			return;
		if (p[2].revents & POLLERR)
			return; /* nobody reads it any more */
		if (p[2].revents && !give(SHOWN, &up))
			return;
		if (p[1].revents)
			typing = take(TYPED, &down);
		if (p[0].revents && down.n && !give(MASTER, &down))
			down.n = typing = false;
		if (p[0].revents && showing && !up.n)
			showing = take(MASTER, &up);
	}
}

_Noreturn void cbx_init_relay(int master, int typed, int shown)
{
	prctl(PR_SET_NAME, "codebox-tty");
	if (cbx_place_fds((int[]){ master, typed, shown }, (int[]){ MASTER, TYPED, SHOWN }, 3) < 0)
		_exit(1);
	for (int fd = MASTER; fd <= SHOWN; fd++)
		if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
			_exit(1);
	if (cbx_close_range(SHOWN + 1, ~0u, 0) < 0)
		_exit(1);
	copy();
	_exit(0);
}
