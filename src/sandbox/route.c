/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: pasta confines itself, with an empty root, without capabilities but in the sandbox's own user
 * namespace, and with a filter of its own, beside the supervisor's, which it inherits. To have tried that it works, we
 * wait: it writes its number when the interface has its addresses and routes. It has three descriptors, none of which
 * leads to anything but that. Being in the pid namespace of the supervisor it ends with it; and the supervisor ends it
 * with the sandbox.
 */
#include "sandbox/route.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/place.h"
#include "base/syscalls.h"
#include "sandbox/outer.h"

#define TUN "/dev/net/tun"

/* For documentation: nobody's. Only UDP to port 53 gets there (walls.c), and pasta takes that for the resolver's. */
#define RESOLVER  "192.0.2.53"
#define RESOLVER6 "2001:db8::53"

const char *cbx_route_resolver(const struct cbx_plan *plan)
{
	return strchr(plan->resolver, ':') ? RESOLVER6 : RESOLVER;
}

/* Where the machine has none, there is an empty file. */
static int check_tun(struct cbx_err *err)
{
	struct stat st;
	int r = stat(TUN, &st) < 0 ? errno : !S_ISCHR(st.st_mode) ? ENOENT : access(TUN, R_OK | W_OK) < 0 ? errno : 0;

	return r ? cbx_refuse(
			   err, "network", r,
			   "the policy's network is \"open\", and " TUN " cannot be opened: %s; load the module tun, "
			   "give the device the mode 0666, and restart codeboxd, or use \"allow\" with names of hosts",
			   strerror(r))
		 : 0;
}

int cbx_route_prepare(struct cbx_route *ret, struct cbx_err *err)
{
	int r;

	if (access(CBX_OUTER_PASTA, X_OK) < 0)
		return cbx_refuse(
			err, "network", ENOENT,
			"the policy's network is \"open\", and pasta is not installed; install it (Debian: apt "
			"install passt), or use \"allow\" with names of hosts");
	r = check_tun(err);
	if (r < 0)
		return r;
	if (pipe2(ret->ready, O_CLOEXEC) < 0 || pipe2(ret->said, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make pipes to pasta");
	return cbx_own_addresses(&ret->machine, err);
}

void cbx_route_release(struct cbx_route *way)
{
	for (size_t i = 0; i < 2; i++) {
		cbx_close_p(&way->ready[i]);
		cbx_close_p(&way->said[i]);
	}
	cbx_own_addresses_release(&way->machine);
}

static bool limit(int resource, rlim_t most)
{
	struct rlimit l = { most, most };

	return setrlimit(resource, &l) == 0;
}

/* By an option pasta is only told what to say of resolvers; whom to ask it reads where everybody does. */
static bool show_resolver(const struct cbx_plan *plan)
{
	_cleanup_fd_ int fd = -1;

	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/etc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=2,mode=0755") < 0)
		return false;
	fd = open("/etc/resolv.conf", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	return fd >= 0 && dprintf(fd, "nameserver %s\n", plan->resolver) > 0;
}

/* Who waits for pasta reads it (cbx_route_await()). */
static _Noreturn void give_up(int said, const char *what)
{
	dprintf(said, "%s: %s\n", what, strerror(errno));
	_exit(1);
}

/* What it cannot do is seen by its end, before it has said that it is ready. */
static _Noreturn void become_pasta(const struct cbx_route *way, const struct cbx_plan *plan, int user, int net,
				   char *const *argv)
{
	char *const envp[] = { NULL };
	int from[5] = { open("/dev/null", O_RDONLY | O_CLOEXEC), way->ready[1], way->said[1], user, net };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (from[0] < 0)
		give_up(way->said[1], "open /dev/null");
	if (cbx_place_fds(from, (int[]){ 0, 1, 2, 3, 4 }, 5) < 0)
		give_up(way->said[1], "place its descriptors");
	if (cbx_close_range(5, ~0u, CBX_CLOSE_RANGE_CLOEXEC) < 0 || setsid() < 0)
		give_up(2, "leave the supervisor's session");
	if (!show_resolver(plan))
		give_up(2, "give it its own /etc/resolv.conf");
	if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_NOFILE, CBX_PASTA_FILES) || !limit(RLIMIT_AS, CBX_PASTA_MEMORY))
		give_up(2, "set its limits");
	execve(argv[0], argv, envp);
	give_up(2, argv[0]);
}

static int open_namespace(pid_t pid, const char *name, struct cbx_err *err)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? cbx_fail(err, errno, "open the sandbox's namespace %s", name) : fd;
}

int cbx_route_start(const struct cbx_route *way, const struct cbx_plan *plan, pid_t init, pid_t *ret_pid,
		    struct cbx_err *err)
{
	const char *const argv[] = { CBX_OUTER_PASTA, "--foreground", "--quiet", "--config-net", "--ns-ifname", "net0",
				     /* The machine's loopback is reached from nowhere, and nothing comes in. */
				     "--no-map-gw", "--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none",
				     "--udp-ns", "none", "--no-dhcp", "--no-dhcpv6", "--no-ra", "--no-netns-quit",
				     "--dns-forward", cbx_route_resolver(plan), "--pid", "/proc/self/fd/1", "--userns",
				     "/proc/self/fd/3", "--netns", "/proc/self/fd/4", NULL };
	_cleanup_fd_ int user = -1, net = -1;
	pid_t pid;

	/* Opened here, and now: soon the sandbox has ids of its own, and then nobody may look at its processes. */
	user = open_namespace(init, "user", err);
	net = user < 0 ? -1 : open_namespace(init, "net", err);
	if (net < 0)
		return -err->code;
	pid = fork();
	if (pid < 0)
		return cbx_fail(err, errno, "fork for pasta");
	if (pid == 0)
		become_pasta(way, plan, user, net, (char *const *)argv);
	*ret_pid = pid;
	return 0;
}

/* ---- in the sandbox's set-up ---- */

int cbx_route_wall(struct cbx_route *way, const struct cbx_plan *plan, struct cbx_err *err)
{
	struct cbx_ip_range resolver;

	/* Ours, so that their end is seen. */
	cbx_close_p(&way->ready[1]);
	cbx_close_p(&way->said[1]);
	if (cbx_ip_range_parse(cbx_route_resolver(plan), &resolver))
		return cbx_refuse(err, "network", EINVAL, "the resolver's address cannot be read");
	return cbx_walls_build(&resolver.ip, &way->machine, err);
}

/* Its last line, for people: what comes before are warnings. */
static const char *last_line(char *text)
{
	char *line;
	size_t n = strlen(text);

	while (n && text[n - 1] == '\n')
		text[--n] = '\0';
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

int cbx_route_await(struct cbx_route *way, struct cbx_err *err)
{
	char text[1024], number[16];
	ssize_t n = read(way->ready[0], number, sizeof(number));

	if (n > 0)
		return 0;
	n = cbx_read_full(way->said[0], text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	return cbx_refuse(
		err, "network", ECHILD,
		"pasta, which the policy's network \"open\" needs, ended: %.120s; see pasta(1), or use \"allow\" "
		"with names of hosts",
		text[0] ? last_line(text) : "it did not say why");
}
