/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a child, a pipe, a deadline. The namespace probe does in miniature what the supervisor does for
 * a sandbox, in the same order, because the same cause shows at different places: AppArmor on Ubuntu lets the user
 * namespace be made and denies what is done in it, a container's masked /proc is only noticed when proc is mounted.
 */
#include "doctor/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define PROBE_TIMEOUT_MS 5000

static void read_label(char *ret, size_t size)
{
	/* The second is that of the one large security module of the kernel, which may be another. */
	if (cbx_read_line(AT_FDCWD, "/proc/self/attr/apparmor/current", ret, size) < 0 &&
	    (cbx_read_line(AT_FDCWD, "/proc/self/attr/current", ret, size) < 0 ||
	     !cbx_ends_with(ret, CBX_LABEL_IN_FORCE)))
		ret[0] = '\0';
}

static void child(const struct cbx_service *service, cbx_probe_fn fn, void *arg, int out)
{
	struct cbx_probe_report report = { 0 };
	struct cbx_err err;
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	r = service->from_root ? cbx_service_become(service, &err) : 0;
	/* Giving up root made /proc/self root's own; the supervisor gets a fresh one by being executed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 1);
	if (r < 0)
		report.code = -r;
	else
		fn(arg, &report);
	read_label(report.label, sizeof(report.label));
	report.done = 1;
	(void)cbx_write_all(out, &report, sizeof(report));
	_exit(0);
}

int cbx_probe_run(const struct cbx_service *service, cbx_probe_fn fn, void *arg, struct cbx_probe_report *ret)
{
	_cleanup_fd_ int in = -1, out = -1;
	struct pollfd p = { .events = POLLIN };
	int fds[2];
	pid_t pid;

	memset(ret, 0, sizeof(*ret));
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	in = fds[0];
	out = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		close(take_fd(&in));
		child(service, fn, arg, out);
	}
	close(take_fd(&out));
	p.fd = in;
	while (poll(&p, 1, PROBE_TIMEOUT_MS) < 0 && errno == EINTR)
		;
	if (!(p.revents & POLLIN) || read(in, ret, sizeof(*ret)) != (ssize_t)sizeof(*ret))
		memset(ret, 0, sizeof(*ret));
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

/* ---- namespaces ---- */

static int put(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : cbx_write_all(fd, text, strlen(text));
}

static int map_ids(uid_t uid, gid_t gid)
{
	char line[64];
	int r = put("/proc/self/setgroups", "deny");

	if (r < 0)
		return r;
	snprintf(line, sizeof(line), "0 %u 1\n", (unsigned)uid);
	r = put("/proc/self/uid_map", line);
	if (r < 0)
		return r;
	snprintf(line, sizeof(line), "0 %u 1\n", (unsigned)gid);
	return put("/proc/self/gid_map", line);
}

static int loopback_up(void)
{
	_cleanup_fd_ int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr;

	if (s < 0)
		return -errno;
	memset(&ifr, 0, sizeof(ifr));
	memcpy(ifr.ifr_name, "lo", 3);
	if (ioctl(s, SIOCGIFFLAGS, &ifr) < 0)
		return -errno;
	ifr.ifr_flags |= IFF_UP;
	return ioctl(s, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

static int try_overlay(void)
{
	static const char *const dirs[] = { "/tmp/l", "/tmp/u", "/tmp/w", "/tmp/m" };
	static const char plain[] = "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w";
	static const char userxattr[] = "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w,userxattr";

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return errno;
	if (mount("overlay", "/tmp/m", "overlay", MS_NOSUID | MS_NODEV, userxattr) == 0)
		return 0;
	return mount("overlay", "/tmp/m", "overlay", MS_NOSUID | MS_NODEV, plain) == 0 ? 0 : errno;
}

/* Pid 1 of the new namespace. */
static void inside(struct cbx_probe_report *report)
{
	int r;

	report->stage = CBX_NS_MOUNT;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0 || mkdir("/tmp/proc", 0755) < 0) {
		report->code = errno;
		return;
	}
	report->stage = CBX_NS_PROC;
	if (mount("proc", "/tmp/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
		report->code = errno;
		return;
	}
	report->stage = CBX_NS_LO;
	r = loopback_up();
	if (r < 0) {
		report->code = -r;
		return;
	}
	report->extra = try_overlay();
	report->stage = CBX_NS_NESTED;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
		report->code = errno;
		return;
	}
	report->stage = CBX_NS_DONE;
}

void cbx_probe_namespaces(void *arg, struct cbx_probe_report *report)
{
	const int rest = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int fds[2], r;
	pid_t pid;

	report->stage = CBX_NS_USER;
	if (unshare(CLONE_NEWUSER) < 0) {
		report->code = errno;
		return;
	}
	report->stage = CBX_NS_MAPS;
	r = map_ids(uid, gid);
	if (r < 0) {
		report->code = -r;
		return;
	}
	report->stage = CBX_NS_REST;
	if (unshare(rest) < 0) {
		report->code = errno;
		return;
	}
	report->stage = CBX_NS_FORK;
	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		report->code = errno;
		return;
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		inside(report);
		(void)cbx_write_all(fds[1], report, sizeof(*report));
		_exit(0);
	}
	close(fds[1]);
	if (cbx_read_full(fds[0], report, sizeof(*report)) != (ssize_t)sizeof(*report))
		report->code = ECHILD;
	close(fds[0]);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
