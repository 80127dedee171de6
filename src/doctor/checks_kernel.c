/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the kernel must give. The namespace check turns the place and errno of a failure, with the
 * sysctls that are known to cause it, into the cause and the exact command that removes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "doctor/apparmor.h"
#include "doctor/check.h"

#define KERNEL_MAJOR 5
#define KERNEL_MINOR 14
#define USERNS_FILE  "/etc/sysctl.d/90-codebox.conf"

void cbx_check_kernel(struct cbx_doctor *d, struct cbx_result *r)
{
	struct utsname u;
	int major = 0, minor = 0;
	char found[200];

	if (uname(&u) < 0 || sscanf(u.release, "%d.%d", &major, &minor) != 2) {
		cbx_result_set(r, CBX_CHECK_FAILED, "the version cannot be read",
			       "Whether this kernel is new enough is not known.", "Use Linux 5.14 or newer.");
		return;
	}
	snprintf(found, sizeof(found), "Linux %.60s on %.40s", u.release, u.machine);
	if (major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR))
		cbx_result_set(
			r, CBX_CHECK_FAILED, found, "Sandboxes need Linux 5.14 or newer.",
			"Install a newer kernel. Debian 11: sudo apt install -t bullseye-backports linux-image-amd64. "
			"RHEL and Rocky Linux: version 9 or newer.");
	else if (access("/proc/thread-self/children", R_OK) < 0)
		cbx_result_set(r, CBX_CHECK_FAILED, found,
			       "This kernel does not list the children of processes, so a sandbox's could not be watched.",
			       "Use a kernel that was built with CONFIG_PROC_CHILDREN, as those of distributions are.");
	else
		cbx_result_set(r, CBX_CHECK_OK, found, "New enough (5.14).", "");
}

/* A call that does nothing, by the number it is refused with: ENOSYS and EPERM are an old kernel or a filter. */
static const char *missing_syscall(int *ret_errno)
{
	int fd;

	fd = cbx_openat2(AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0, 0);
	if (fd < 0) {
		*ret_errno = errno;
		return "openat2";
	}
	close(fd);
	if (syscall(SYS_clone3, NULL, 0) < 0 && (errno == ENOSYS || errno == EPERM)) {
		*ret_errno = errno;
		return "clone3";
	}
	fd = cbx_pidfd_open(getpid(), 0);
	if (fd < 0) {
		*ret_errno = errno;
		return "pidfd_open";
	}
	close(fd);
	if (cbx_close_range(~0u - 1, ~0u - 1, 0) < 0) {
		*ret_errno = errno;
		return "close_range";
	}
	if (syscall(SYS_fsopen, NULL, 0) < 0 && errno == ENOSYS) {
		*ret_errno = errno;
		return "fsopen";
	}
	return NULL;
}

static const char container_fix[] =
	"Start the outer container with less filtering. Docker: --security-opt seccomp=unconfined --security-opt "
	"apparmor=unconfined --security-opt systempaths=unconfined. Podman: --security-opt seccomp=unconfined "
	"--security-opt "
	"unmask=ALL. Kubernetes: seccompProfile.type Unconfined and procMount Unmasked.";

void cbx_check_syscalls(struct cbx_doctor *d, struct cbx_result *r)
{
	int code = 0;
	const char *name = missing_syscall(&code);
	char found[200];

	if (!name) {
		cbx_result_set(r, CBX_CHECK_OK, "openat2, clone3, pidfd_open, close_range and the mount calls answer",
			       "Sandboxes can be built the way they are meant to be.", "");
		return;
	}
	snprintf(found, sizeof(found), "%s answers \"%s\"", name, strerror(code));
	cbx_result_set(r, CBX_CHECK_FAILED, found,
		       "The kernel has this call, but something refuses it, usually the filter of a container.",
		       container_fix);
}

static bool in_container(void)
{
	char status[4096];

	if (access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0)
		return true;
	return cbx_read_line(AT_FDCWD, "/proc/self/status", status, sizeof(status)) >= 0 && strstr(status, "\nSeccomp:\t2");
}

static bool is_set_to(const char *sysctl, long long value)
{
	long long v;

	return cbx_read_number(sysctl, &v) && v == value;
}

/* A container's own profile is one of the things that container_fix removes. */
static bool apparmor(const char *label, const char *what, int code, struct cbx_result *r)
{
	return (!in_container() || cbx_starts_with(label, CBX_LABEL_RESTRICTED)) &&
	       cbx_apparmor_explains("", label, what, code, r);
}

static void no_user_namespace(const char *label, int code, struct cbx_result *r)
{
	char found[200];

	snprintf(found, sizeof(found), "user namespaces are refused: %s", strerror(code));
	if (is_set_to("/proc/sys/user/max_user_namespaces", 0))
		cbx_result_set(r, CBX_CHECK_FAILED, "user namespaces are switched off (user.max_user_namespaces is 0)",
			       "Sandboxes cannot be made.",
			       "echo user.max_user_namespaces=15000 | sudo tee " USERNS_FILE
			       " && sudo sysctl -p " USERNS_FILE);
	else if (is_set_to("/proc/sys/kernel/unprivileged_userns_clone", 0))
		cbx_result_set(r, CBX_CHECK_FAILED,
			       "user namespaces are kept for root (kernel.unprivileged_userns_clone is 0)",
			       "Sandboxes cannot be made by an ordinary user.",
			       "echo kernel.unprivileged_userns_clone=1 | sudo tee " USERNS_FILE
			       " && sudo sysctl -p " USERNS_FILE);
	else if (code == ENOSPC)
		cbx_result_set(r, CBX_CHECK_FAILED, "the limit of user namespaces is reached",
			       "Sandboxes cannot be made, until others end.",
			       "Raise the limit: echo user.max_user_namespaces=60000 | sudo tee " USERNS_FILE
			       " && sudo sysctl -p " USERNS_FILE " (inside a container: on the machine that runs it)");
	else if (code == ENOSYS || code == EINVAL)
		cbx_result_set(r, CBX_CHECK_FAILED, found, "This kernel was built without user namespaces.",
			       "Use a distribution's kernel, or one with CONFIG_USER_NS=y.");
	else if (apparmor(label, "to make them", code, r))
		return;
	else if (in_container())
		cbx_result_set(r, CBX_CHECK_FAILED, "the outer container's filter refuses user namespaces",
			       "Sandboxes cannot be made inside this container.", container_fix);
	else
		cbx_result_set(r, CBX_CHECK_FAILED, found, "Sandboxes cannot be made.",
			       "A security module or a chroot refuses them: see sudo dmesg | tail, and start codebox "
			       "outside of "
			       "a chroot.");
}

static void denied_within(const char *label, const char *what, int code, struct cbx_result *r)
{
	char found[250];

	if (apparmor(label, what, code, r))
		return;
	snprintf(found, sizeof(found), "in a user namespace, %s is refused: %s", what, strerror(code));
	if (code == ENOSPC) {
		cbx_result_set(r, CBX_CHECK_FAILED, found, "A limit of namespaces is reached or set to 0.",
			       "See sysctl -a | grep '^user.max_', and raise what is 0.");
	} else if (in_container()) {
		cbx_result_set(r, CBX_CHECK_FAILED, found, "The outer container refuses it.", container_fix);
	} else {
		cbx_result_set(r, CBX_CHECK_FAILED, found, "A security module (AppArmor, SELinux) probably refuses it.",
			       "See sudo dmesg | tail and sudo ausearch -m avc -ts recent; allow user namespaces for "
			       "codebox.");
	}
}

static const struct cbx_probe_report *namespaces(struct cbx_doctor *d)
{
	if (!d->ns_done && cbx_probe_run(&d->service, cbx_probe_namespaces, NULL, &d->ns) < 0)
		memset(&d->ns, 0, sizeof(d->ns));
	d->ns_done = true;
	return &d->ns;
}

void cbx_check_namespaces(struct cbx_doctor *d, struct cbx_result *r)
{
	const struct cbx_probe_report *p = namespaces(d);

	if (!p->done) {
		cbx_result_set(r, CBX_CHECK_FAILED, "the trial did not end", "This could not be tried.",
			       "Run codebox doctor again; if it fails again, see sudo dmesg | tail.");
		return;
	}
	switch ((enum cbx_ns_stage)p->stage) {
	case CBX_NS_BECOME:
		denied_within(p->label, "giving up root", p->code, r);
		break;
	case CBX_NS_USER:
		no_user_namespace(p->label, p->code, r);
		break;
	case CBX_NS_MAPS:
		denied_within(p->label, "mapping ids", p->code, r);
		break;
	case CBX_NS_REST:
	case CBX_NS_FORK:
		denied_within(p->label, "making the other namespaces", p->code, r);
		break;
	case CBX_NS_MOUNT:
		denied_within(p->label, "mounting", p->code, r);
		break;
	case CBX_NS_PROC:
		if (p->code == EPERM)
			cbx_result_set(r, CBX_CHECK_FAILED, "a new proc cannot be mounted: parts of /proc are masked",
				       "The kernel allows a full proc only where a full one is visible; a container "
				       "hides parts.",
				       container_fix);
		else
			denied_within(p->label, "mounting proc", p->code, r);
		break;
	case CBX_NS_LO:
		denied_within(p->label, "starting the loopback interface", p->code, r);
		break;
	case CBX_NS_NESTED:
		no_user_namespace(p->label, p->code, r);
		break;
	case CBX_NS_DONE:
		cbx_result_set(r, CBX_CHECK_OK, "made, mapped, with tmpfs and proc mounted and loopback started",
			       "Sandboxes can be made.", "");
		break;
	}
}

void cbx_check_overlay(struct cbx_doctor *d, struct cbx_result *r)
{
	const struct cbx_probe_report *p = namespaces(d);
	char found[200];

	if (!p->done || p->stage != CBX_NS_DONE) {
		cbx_result_set(r, CBX_CHECK_DEGRADED, "not tried: there are no namespaces to try it in",
			       "See the namespaces above.", "First make the namespaces work.");
		return;
	}
	if (p->extra == 0) {
		cbx_result_set(r, CBX_CHECK_OK, "an overlay can be mounted",
			       "Each sandbox changes its own copy of the image's files.", "");
		return;
	}
	snprintf(found, sizeof(found), "an overlay cannot be mounted: %s", strerror(p->extra));
	cbx_result_set(
		r, CBX_CHECK_DEGRADED, found, "The image's files are read-only in sandboxes; workspaces are writable.",
		p->extra == ENODEV ? "sudo modprobe overlay && echo overlay | sudo tee /etc/modules-load.d/codebox.conf"
				   : "Use a kernel with overlay in user namespaces (5.11 or newer, not switched off).");
}

static void probe_seccomp(void *arg, struct cbx_probe_report *report)
{
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { .len = 1, .filter = allow };
	uint32_t action = SECCOMP_RET_ERRNO;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		report->code = errno;
}

void cbx_check_seccomp(struct cbx_doctor *d, struct cbx_result *r)
{
	struct cbx_probe_report p;
	char found[200];

	if (cbx_probe_run(&d->service, probe_seccomp, NULL, &p) == 0 && p.done && p.code == 0) {
		cbx_result_set(r, CBX_CHECK_OK, "a filter can be loaded", "System calls of sandboxes are filtered.",
			       "");
		return;
	}
	snprintf(found, sizeof(found), "a filter cannot be loaded: %s", p.done ? strerror(p.code) : "no answer");
	cbx_result_set(r, CBX_CHECK_FAILED, found, "Without a filter there is no sandbox worth the name.",
		       in_container() ? container_fix : "Use a kernel with CONFIG_SECCOMP_FILTER=y.");
}

void cbx_check_landlock(struct cbx_doctor *d, struct cbx_result *r)
{
	/* LANDLOCK_CREATE_RULESET_VERSION; the call's number is the same on every architecture. */
	long abi = syscall(444, NULL, 0, 1u);
	char found[100];

	if (abi > 0) {
		snprintf(found, sizeof(found), "version %ld of its interface", abi);
		cbx_result_set(r, CBX_CHECK_OK, found, "A second lock on the file system, should the first one fail.",
			       "");
		return;
	}
	cbx_result_set(r, CBX_CHECK_DEGRADED,
		       errno == EOPNOTSUPP ? "built into the kernel but switched off" : "this kernel has no Landlock",
		       "Mount namespaces alone keep the file system apart, without a second lock.",
		       "Add landlock to the lsm= list on the kernel's command line (cat /sys/kernel/security/lsm shows "
		       "the list "
		       "in force), or use a kernel with CONFIG_SECURITY_LANDLOCK=y.");
}
