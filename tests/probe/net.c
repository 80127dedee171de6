/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets are made, and never connected to anything: a connected UDP socket sends nothing, it only asks for a route. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#define FAMILIES 47

static long make_socket(unsigned long long family, unsigned long long type, unsigned long long protocol)
{
	return syscall(SYS_socket, family, type, protocol);
}

static unsigned long long number(const char *text)
{
	return text ? strtoull(text, NULL, 0) : 0;
}

/* Every family that a socket of some type can be made of, with high bits that the kernel ignores where args say so. */
static int families(char **args)
{
	static const unsigned types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET };
	unsigned long long high = number(args[0]);
	const char *between = "";

	answer(DONE, "%s", "");
	for (unsigned f = 0; f < FAMILIES; f++)
		for (unsigned t = 0; t < 4; t++) {
			long fd = make_socket(high | f, types[t], 0);

			if (fd < 0)
				continue;
			close((int)fd);
			answer_more("%s%u", between, f);
			between = ",";
			break;
		}
	return *between ? DONE : answer(REFUSED, "none");
}

static int pairs(char **args)
{
	unsigned long long high = number(args[0]);
	const char *between = "";
	int fd[2];

	answer(DONE, "%s", "");
	for (unsigned f = 0; f < FAMILIES; f++)
		if (syscall(SYS_socketpair, high | f, SOCK_DGRAM, 0, fd) == 0) {
			close(fd[0]);
			close(fd[1]);
			answer_more("%s%u", between, f);
			between = ",";
		}
	return *between ? DONE : answer(REFUSED, "none");
}

/* Protocols of netlink. */
static int netlink(char **args)
{
	const char *between = "";

	answer(DONE, "%s", "");
	for (unsigned p = 0; p < 32; p++) {
		long fd = make_socket(AF_NETLINK, SOCK_RAW, p);

		if (fd < 0)
			continue;
		close((int)fd);
		answer_more("%s%u", between, p);
		between = ",";
	}
	return *between ? DONE : answer(REFUSED, "none");
}

static int one_socket(char **args)
{
	return answer_call(args[0] && args[1] ? make_socket(number(args[0]), number(args[1]), number(args[2])) : -1);
}

/* "sockopt FAMILY TYPE LEVEL NAME VALUE" */
static int sockopt(char **args)
{
	int fd, value;

	for (int i = 0; i < 5; i++)
		if (!args[i])
			return answer(NOT_TRIED, "usage");
	fd = (int)make_socket(number(args[0]), number(args[1]), 0);
	value = (int)number(args[4]);
	if (fd < 0)
		return answer(NOT_TRIED, "socket:%s", error_name(errno));
	return answer_reached(syscall(SYS_setsockopt, fd, number(args[2]), number(args[3]), &value, sizeof(value)),
			      (const int[]){ ENOTCONN, EINVAL, ENOENT, EFAULT }, 4);
}

static int udp_route(char **args)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return answer(REFUSED, "socket:%s", error_name(errno));
	inet_pton(AF_INET, args[0] ? args[0] : "192.0.2.1", &to.sin_addr);
	return answer_call(connect(fd, (struct sockaddr *)&to, sizeof(to)));
}

static int udp6_route(char **args)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return answer(REFUSED, "socket:%s", error_name(errno));
	inet_pton(AF_INET6, "2001:db8::1", &to.sin6_addr);
	return answer_call(connect(fd, (struct sockaddr *)&to, sizeof(to)));
}

/* A stream over loopback, both ends in this process. */
static int loopback(char **args)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);

	if (l < 0 || c < 0)
		return answer(REFUSED, "socket:%s", error_name(errno));
	if (bind(l, (struct sockaddr *)&at, len) < 0 || listen(l, 1) < 0 ||
	    getsockname(l, (struct sockaddr *)&at, &len) < 0)
		return answer_call(-1);
	return answer_call(connect(c, (struct sockaddr *)&at, len));
}

static int interfaces(char **args)
{
	struct if_nameindex *list = if_nameindex();

	if (!list)
		return answer_call(-1);
	answer(DONE, "%s", "");
	for (struct if_nameindex *i = list; i->if_index; i++)
		answer_more("%s%s", i == list ? "" : ",", i->if_name);
	return DONE;
}

/* "peer-pidfd [BITS]": a descriptor of the process that made the other end; BITS are above what the kernel looks at. */
static int peer_pidfd(char **args)
{
	unsigned long long high = args[0] ? number(args[0]) : 0;
	int fd[2], pidfd = -1;
	socklen_t len = sizeof(pidfd);

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
		return answer_call(-1);
	return answer_call(syscall(SYS_getsockopt, fd[0], high | SOL_SOCKET, high | 77 /* SO_PEERPIDFD */, &pidfd, &len));
}

/* "oob CALL": a byte out of band between two unix sockets, by sendto, sendmsg or sendmmsg. */
static int oob(char **args)
{
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct mmsghdr msg = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };
	const char *how = args[0] ? args[0] : "sendto";
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
		return answer_call(-1);
	if (!strcmp(how, "sendmsg"))
		return answer_call(sendmsg(fd[0], &msg.msg_hdr, MSG_OOB));
	if (!strcmp(how, "sendmmsg"))
		return answer_call(sendmmsg(fd[0], &msg, 1, MSG_OOB));
	return answer_call(send(fd[0], "x", 1, MSG_OOB));
}

static int unix_pair(char **args)
{
	int fd[2];

	return answer_call(socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
}

/* "unix-connect PATH"; a leading "@" stands for the abstract namespace. */
static int unix_connect(char **args)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t len = args[0] ? strlen(args[0]) : 0;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || len == 0 || len >= sizeof(to.sun_path))
		return answer(NOT_TRIED, "socket:%s", error_name(errno));
	memcpy(to.sun_path, args[0], len);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = '\0';
	return answer_call(
		connect(fd, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)));
}

/* ---- ioctl ---- */

/* On a descriptor that the request means nothing to: that answer shows that no filter stood in the way. */
static int ioctl_request(char **args)
{
	int fd[2];
	char buf[4096] = { 0 };

	if (pipe(fd) < 0)
		return answer_call(-1);
	return answer_reached(syscall(SYS_ioctl, fd[0], number(args[0]), buf), (const int[]){ ENOTTY, EINVAL }, 2);
}

/* Requests of network devices, on a socket. */
static int ioctl_socket(char **args)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return answer(REFUSED, "socket:%s", error_name(errno));
	return answer_reached(syscall(SYS_ioctl, fd, number(args[0]), &request), (const int[]){ ENOTTY, EINVAL }, 2);
}

/* ---- fresh namespaces, for probes that need a capability to succeed ---- */

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n < 0 ? -1 : 0;
}

/* Loopback up, and a route to the addresses that documentation uses, which no packet is sent to. */
static int set_up_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	struct rtentry route = { .rt_flags = RTF_UP, .rt_dev = (char *)"lo" };
	struct sockaddr_in *to = (struct sockaddr_in *)&route.rt_dst, *mask = (struct sockaddr_in *)&route.rt_genmask;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	to->sin_family = mask->sin_family = AF_INET;
	inet_pton(AF_INET, "192.0.2.0", &to->sin_addr);
	inet_pton(AF_INET, "255.255.255.0", &mask->sin_addr);
	return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0 || ioctl(fd, SIOCADDRT, &route) < 0 ? -1 : 0;
}

int enter_namespaces(void)
{
	char map[64];
	unsigned uid = geteuid(), gid = getegid();
	int status = 0;
	pid_t pid;

	if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return -1;
	snprintf(map, sizeof(map), "0 %u 1\n", uid);
	if (write_text("/proc/self/setgroups", "deny") < 0 || write_text("/proc/self/uid_map", map) < 0)
		return -1;
	snprintf(map, sizeof(map), "0 %u 1\n", gid);
	if (write_text("/proc/self/gid_map", map) < 0 || set_up_loopback() < 0)
		return -1;
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid > 0) { /* the first process of the pid namespace is the one that continues */
		if (waitpid(pid, &status, 0) < 0)
			_exit(NOT_TRIED);
		if (WIFSIGNALED(status))
			_exit(answer(REFUSED, "signal-%d", WTERMSIG(status)));
		_exit(WEXITSTATUS(status));
	}
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

const struct probe net_probes[] = {
	{ "families", families },	  { "pairs", pairs },
	{ "netlink", netlink },		  { "socket", one_socket },
	{ "sockopt", sockopt },		  { "udp-route", udp_route },
	{ "udp6-route", udp6_route },	  { "loopback", loopback },
	{ "interfaces", interfaces },	  { "unix-pair", unix_pair },
	{ "unix-connect", unix_connect }, { "ioctl", ioctl_request },
	{ "ioctl-socket", ioctl_socket }, { "peer-pidfd", peer_pidfd },
	{ "oob", oob },			  { NULL, NULL },
};
