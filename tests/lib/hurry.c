/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of what takes hours: loaded into one program (LD_PRELOAD; its name is in CBX_HURRY_WHO), it makes the
 * monotonic clock run as many times as fast as the first four bytes of the file CBX_HURRY say, which may change at any
 * time. Waits end early enough for that, and so do those of a socket with a time limit. Between two looks at the clock
 * no more passes than such a wait takes: a program that had to wait for a processor would find all its terms over at
 * once.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define AT_MOST_MS 20

static const volatile uint32_t *speed;

__attribute__((constructor)) static void begin(void)
{
	const char *who = getenv("CBX_HURRY_WHO"), *path = getenv("CBX_HURRY");
	int fd = who && path && strcmp(who, program_invocation_short_name) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*speed), PROT_READ, MAP_SHARED, fd, 0);

	if (p != MAP_FAILED)
		speed = p;
	if (fd >= 0)
		close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	static int64_t real, shown;
	int r = (int)syscall(SYS_clock_gettime, id, ts);
	int64_t now = (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;

	if (r < 0 || !speed || (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE))
		return r;
	/* The coarse clock is behind by a few milliseconds. */
	if (!real)
		real = shown = now;
	if (now > real) {
		shown += (now - real < AT_MOST_MS * 1000000ll ? now - real : AT_MOST_MS * 1000000ll) * *speed;
		real = now;
	}
	ts->tv_sec = shown / 1000000000;
	ts->tv_nsec = shown % 1000000000;
	return 0;
}

static int soon(int ms)
{
	if (!speed || ms == 0)
		return ms;
	return ms < 0 || ms / (int)*speed > AT_MOST_MS ? AT_MOST_MS : ms / (int)*speed;
}

int epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
	return (int)syscall(SYS_epoll_pwait, fd, events, n, soon(ms), NULL, 0);
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec t = { .tv_sec = soon(ms) / 1000, .tv_nsec = soon(ms) % 1000 * 1000000l };

	return (int)syscall(SYS_ppoll, fds, n, soon(ms) < 0 ? NULL : &t, NULL, 0);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct timeval shorter;

	if (speed && level == SOL_SOCKET && name == SO_RCVTIMEO && len == sizeof(shorter)) {
		int64_t us;

		memcpy(&shorter, value, sizeof(shorter));
		us = (shorter.tv_sec * 1000000ll + shorter.tv_usec) / *speed;
		shorter = (struct timeval){ .tv_sec = us / 1000000, .tv_usec = us % 1000000 };
		value = &shorter;
	}
	return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}
