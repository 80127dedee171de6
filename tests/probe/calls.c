/* SPDX-License-Identifier: Apache-2.0 */
/* System calls with fixed arguments: each is harmless where it succeeds. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#define HIGH (1ull << 40) /* above the 32 bits that the kernel looks at */

static char page[4096] __attribute__((aligned(4096)));
static const uint64_t clone_args_newuser[11] = { CLONE_NEWUSER, 0, 0, 0, SIGCHLD };
static const uint64_t clone_args_plain[11] = { 0, 0, 0, 0, SIGCHLD };
static const char empty_text[] = "";

#define P(x) ((unsigned long long)(uintptr_t)(x))

/* The numbers of calls that old headers do not have are the same on every architecture. */
#define NR_open_tree	   428
#define NR_move_mount	   429
#define NR_fsopen	   430
#define NR_fsconfig	   431
#define NR_fsmount	   432
#define NR_clone3	   435
#define NR_pidfd_getfd	   438
#define NR_process_madvise 440
#define NR_mount_setattr   442
#define NR_quotactl_fd	   443
#define NR_memfd_secret	   447
#define NR_cachestat	   451
#define NR_statmount	   457
#define NR_listmount	   458

/*
 * "reached": errors that come from the call itself, after every check of rights, and so show that nothing refused it.
 */
static const struct {
	const char *name;
	long nr;
	unsigned long long a[6];
	int reached[3];
} calls[] = {
	/* user and other namespaces */
	{ "unshare-user", SYS_unshare, { CLONE_NEWUSER }, { 0 } },
	{ "unshare-user-net", SYS_unshare, { CLONE_NEWUSER | CLONE_NEWNET }, { 0 } },
	{ "unshare-user-highbits", SYS_unshare, { CLONE_NEWUSER | HIGH }, { 0 } },
	{ "unshare-mnt", SYS_unshare, { CLONE_NEWNS }, { 0 } },
	{ "unshare-net", SYS_unshare, { CLONE_NEWNET }, { 0 } },
	{ "unshare-pid", SYS_unshare, { CLONE_NEWPID }, { 0 } },
	{ "unshare-cgroup", SYS_unshare, { CLONE_NEWCGROUP }, { 0 } },
	{ "unshare-time", SYS_unshare, { 0x80 }, { 0 } },
	{ "unshare-files", SYS_unshare, { CLONE_FILES }, { 0 } },
	{ "clone3-plain", NR_clone3, { P(clone_args_plain), 88 }, { 0 } },
	{ "clone3-user", NR_clone3, { P(clone_args_newuser), 88 }, { 0 } },
	{ "clone3-empty", NR_clone3, { 0, 0 }, { EINVAL } },
	{ "setns-bad-fd", SYS_setns, { 9999, 0 }, { EBADF } },
	/* identity */
	{ "setuid-0", SYS_setuid, { 0 }, { 0 } },
	{ "setgid-0", SYS_setgid, { 0 }, { 0 } },
	{ "setgroups-none", SYS_setgroups, { 0, 0 }, { 0 } },
	{ "setuid-1001", SYS_setuid, { 1001 }, { 0 } },
	/* mounts */
	{ "mount-tmpfs", SYS_mount, { P("none"), P("/tmp"), P("tmpfs"), 0, 0 }, { 0 } },
	{ "mount-private", SYS_mount, { 0, P("/"), 0, 1 << 18, 0 }, { 0 } },
	{ "remount-rw", SYS_mount, { 0, P("/usr"), 0, 32 | 4096, 0 }, { EINVAL } },
	{ "umount-proc", SYS_umount2, { P("/proc"), 2 }, { EINVAL } },
	{ "pivot-root", SYS_pivot_root, { P("."), P(".") }, { EINVAL, EBUSY } },
	{ "chroot", SYS_chroot, { P("/") }, { 0 } },
	{ "fsopen", NR_fsopen, { P("tmpfs"), 1 }, { 0 } },
	{ "fsconfig", NR_fsconfig, { 9999, 6, 0, 0, 0 }, { EBADF } },
	{ "fsmount", NR_fsmount, { 9999, 0, 0 }, { EBADF } },
	{ "open-tree", NR_open_tree, { (unsigned long long)AT_FDCWD, P("/"), 0 }, { 0 } },
	{ "open-tree-clone", NR_open_tree, { (unsigned long long)AT_FDCWD, P("/"), 1 | 0x8000 }, { 0 } },
	{ "move-mount", NR_move_mount, { 9999, P(""), 9999, P(""), 0x44 }, { EBADF } },
	{ "mount-setattr", NR_mount_setattr, { 9999, P(""), 0x1000, P(page), 32 }, { EBADF, EINVAL } },
	{ "statmount", NR_statmount, { 0, 0, 0, 0 }, { EFAULT, EINVAL } },
	{ "listmount", NR_listmount, { 0, 0, 0, 0 }, { EFAULT, EINVAL } },
	{ "swapon", SYS_swapon, { P("/nonexistent"), 0 }, { ENOENT } },
	{ "swapoff", SYS_swapoff, { P("/nonexistent") }, { ENOENT } },
	{ "quotactl", SYS_quotactl, { 0, 0, 0, 0 }, { EINVAL, ENODEV, EFAULT } },
	{ "quotactl-fd", NR_quotactl_fd, { 9999, 0, 0, 0 }, { EBADF } },
	{ "acct", SYS_acct, { P("/nonexistent") }, { ENOENT } },
	/* the kernel's own */
	{ "bpf", SYS_bpf, { 0, P(page), 0 }, { EINVAL, E2BIG } },
	{ "bpf-load", SYS_bpf, { 5, P(page), 72 }, { EINVAL } },
	{ "perf-event-open", SYS_perf_event_open, { 0, 0, -1ull, -1ull, 0 }, { EFAULT, EINVAL } },
	{ "userfaultfd", SYS_userfaultfd, { 1 }, { 0 } },
	{ "io-uring-setup", 425, { 1, P(page) }, { 0 } },
	{ "io-uring-enter", 426, { 9999, 0, 0, 0, 0 }, { EBADF, EOPNOTSUPP } },
	{ "io-uring-register", 427, { 9999, 0, 0, 0 }, { EBADF, EOPNOTSUPP } },
	{ "kexec-load", SYS_kexec_load, { 0, 0, 0, 0 }, { EINVAL } },
	{ "init-module", SYS_init_module, { 0, 0, P("") }, { ENOEXEC, EFAULT } },
	{ "finit-module", SYS_finit_module, { 9999, P(""), 0 }, { EBADF } },
	{ "delete-module", SYS_delete_module, { P("no_such_module"), 0 }, { ENOENT } },
	{ "reboot", SYS_reboot, { 0, 0, 0, 0 }, { EINVAL } },
	{ "syslog-size", SYS_syslog, { 10, 0, 0 }, { 0 } },
	{ "settimeofday", SYS_settimeofday, { 0, 0 }, { 0 } },
	{ "clock-settime", SYS_clock_settime, { 0, 0 }, { EFAULT } },
	{ "adjtimex", SYS_adjtimex, { P(page) }, { 0 } },
	{ "sethostname", SYS_sethostname, { P("x"), 1 }, { 0 } },
	{ "setdomainname", SYS_setdomainname, { P("x"), 1 }, { 0 } },
	{ "vhangup", SYS_vhangup, { 0 }, { 0 } },
	{ "fanotify-init", SYS_fanotify_init, { 0x200, 0 }, { 0 } },
	{ "fanotify-mark", SYS_fanotify_mark, { 9999, 1, 1, -100ull, 0 }, { EBADF } },
	{ "memfd-secret", NR_memfd_secret, { 0 }, { 0 } },
	{ "cachestat", NR_cachestat, { 9999, 0, 0, 0 }, { EBADF } },
	{ "name-to-handle-at", SYS_name_to_handle_at, { -100ull, P("/"), P(page), P(page + 256), 0 }, { EOVERFLOW } },
	{ "open-by-handle-at", SYS_open_by_handle_at, { 9999, P(page), 0 }, { EBADF, EFAULT, EINVAL } },
	/* keys */
	{ "keyctl", SYS_keyctl, { 0, -3ull, 1 }, { 0 } },
	{ "keyctl-join", SYS_keyctl, { 1, 0 }, { 0 } },
	{ "add-key", SYS_add_key, { P("user"), P("codebox-probe"), P("x"), 1, -1ull }, { 0 } },
	{ "request-key", SYS_request_key, { P("user"), P("codebox-probe-none"), 0, 0 }, { 126 /* ENOKEY */ } },
	/* other processes */
	{ "ptrace-traceme", SYS_ptrace, { 0, 0, 0, 0 }, { 0 } },
	{ "process-vm-readv", SYS_process_vm_readv, { 1, 0, 0, 0, 0, 0 }, { 0 } },
	{ "process-vm-writev", SYS_process_vm_writev, { 1, 0, 0, 0, 0, 0 }, { 0 } },
	{ "process-madvise", NR_process_madvise, { 9999, 0, 0, 4, 0 }, { EBADF } },
	{ "pidfd-getfd", NR_pidfd_getfd, { 9999, 0, 0 }, { EBADF } },
	{ "migrate-pages", SYS_migrate_pages, { 0, 1, P(page), P(page) }, { EINVAL } },
	{ "move-pages", SYS_move_pages, { 0, 0, 0, 0, 0, 0 }, { 0 } },
	{ "ioprio-set", SYS_ioprio_set, { 1, 0, (2 << 13) | 4 }, { 0 } },
	{ "mlockall", SYS_mlockall, { 1 }, { 0 } },
	{ "mlock-a-page", SYS_mlock, { P(page), 4096 }, { 0 } },
	/* zero copy */
	{ "splice", SYS_splice, { 9999, 0, 9999, 0, 1, 0 }, { EBADF } },
	{ "tee", SYS_tee, { 9999, 9999, 1, 0 }, { EBADF } },
	{ "vmsplice", SYS_vmsplice, { 9999, P(page), 1, 0 }, { EBADF } },
	{ "memfd-create", SYS_memfd_create, { P("probe"), 1 }, { 0 } },
	/* personality */
	{ "personality-linux", SYS_personality, { 0 }, { 0 } },
	{ "personality-query", SYS_personality, { 0xffffffff }, { 0 } },
	{ "personality-read-implies-exec", SYS_personality, { 0x0400000 }, { 0 } },
	{ "personality-no-randomize", SYS_personality, { 0x0040000 }, { 0 } },
	{ "personality-highbits", SYS_personality, { 0x0040000 | HIGH }, { 0 } },
	/* prctl */
	{ "prctl-name", SYS_prctl, { 15, P("probe") }, { 0 } },
	{ "prctl-dumpable", SYS_prctl, { 4, 1 }, { 0 } },
	{ "prctl-set-mm", SYS_prctl, { 35, 1, 0, 0, 0 }, { EINVAL } },
	{ "prctl-set-mm-exe", SYS_prctl, { 35, 13, 9999, 0, 0 }, { EBADF, EINVAL } },
	{ "prctl-ambient-raise", SYS_prctl, { 47, 2, 10, 0, 0 }, { 0 } },
	{ "prctl-ambient-highbits", SYS_prctl, { 47 | HIGH, 2, 10, 0, 0 }, { 0 } },
	{ "prctl-securebits", SYS_prctl, { 28, 0, 0, 0, 0 }, { 0 } },
	{ "prctl-capbset-drop", SYS_prctl, { 24, 5, 0, 0, 0 }, { 0 } },
	{ "prctl-keepcaps", SYS_prctl, { 8, 1, 0, 0, 0 }, { 0 } },
	{ "prctl-subreaper", SYS_prctl, { 36, 1, 0, 0, 0 }, { 0 } },
	{ "prctl-speculation-enable", SYS_prctl, { 53, 0, 2, 0, 0 }, { ENXIO } },
	{ "prctl-core-sched", SYS_prctl, { 62, 1, 0, 0, 0 }, { EINVAL, ENODEV } },
	{ "prctl-seccomp-strict-getter", SYS_prctl, { 21, 0, 0, 0, 0 }, { 0 } },
	/* files */
	{ "mknod-char", SYS_mknodat, { -100ull, P("probe-char"), 0x2000 | 0600, 0x103 }, { EEXIST } },
	{ "mknod-block", SYS_mknodat, { -100ull, P("probe-block"), 0x6000 | 0600, 0x103 }, { EEXIST } },
	{ "mknod-char-highbits", SYS_mknodat, { -100ull, P("probe-char"), 0x2000 | 0600 | HIGH, 0x103 }, { EEXIST } },
	{ "mknod-fifo", SYS_mknodat, { -100ull, P("probe-fifo"), 0x1000 | 0600, 0 }, { EEXIST } },
#ifdef __x86_64__
	{ "prctl-tsc", SYS_prctl, { 26, 1, 0, 0, 0 }, { 0 } },
	{ "iopl", SYS_iopl, { 3 }, { 0 } },
	{ "ioperm", SYS_ioperm, { 0x80, 1, 1 }, { 0 } },
	{ "modify-ldt", SYS_modify_ldt, { 0, P(page), 16 }, { 0 } },
	{ "lookup-dcookie", SYS_lookup_dcookie, { 0, 0, 0 }, { EINVAL } },
#endif
	{ "sched-rt", SYS_sched_setscheduler, { 0, 1, P("\1\0\0\0") }, { 0 } },
	{ "nice-minus-20", SYS_setpriority, { 0, 0, -20ull }, { 0 } },
	{ "inotify-init", SYS_inotify_init1, { 0 }, { 0 } },
	{ "seccomp-strict-action-query", SYS_seccomp, { 2, 0, P("\0\0\xff\x7f") }, { 0 } },
};

#ifndef __x86_64__
static const char *const of_x86[] = { "prctl-tsc", "iopl", "ioperm", "modify-ldt", "lookup-dcookie" };
#endif

static int call(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		const unsigned long long *a = calls[i].a;
		long r;

		if (strcmp(calls[i].name, name) != 0)
			continue;
		r = syscall(calls[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		if (r == 0 && calls[i].nr == NR_clone3)
			_exit(0); /* the child that it made */
		return answer_reached(r, calls[i].reached, calls[i].reached[0] ? 3 : 0);
	}
#ifndef __x86_64__
	for (size_t i = 0; i < sizeof(of_x86) / sizeof(of_x86[0]); i++)
		if (strcmp(of_x86[i], name) == 0)
			return answer(NOT_TRIED, "not-x86");
#endif
	return answer(NOT_TRIED, "unknown");
}

static int run_call(char **args)
{
	return args[0] ? call(args[0]) : answer(NOT_TRIED, "which?");
}

int raw_call(char **args)
{
	unsigned long long a[7] = { 0 };

	for (unsigned i = 0; i < 7 && args[i]; i++)
		a[i] = strtoull(args[i], NULL, 0);
	return answer_call(syscall((long)a[0], a[1], a[2], a[3], a[4], a[5], a[6]));
}

/* clone(2) itself, with flags that a filter must look at. The child ends at once. */
static int clone_flags(char **args)
{
	unsigned long long flags = args[0] ? strtoull(args[0], NULL, 0) : 0;
	long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return answer_call(pid);
}

/* ---- foreign architectures ---- */

#ifdef __x86_64__
static int int80(char **args)
{
	long r = 20; /* getpid of 32-bit programs */

	__asm__ volatile("int $0x80" : "+a"(r) : : "r8", "r9", "r10", "r11", "memory");
	return r < 0 ? answer(REFUSED, "%s", error_name((int)-r)) : answer(DONE, "ok");
}

static int x32(char **args)
{
	return answer_call(syscall(0x40000000 | SYS_getpid));
}
#else
static int int80(char **args)
{
	return answer(NOT_TRIED, "not-x86");
}
#define x32 int80
#endif

/* ---- every number ---- */

#define NUMBERS_MAX 4096

static void nothing(int sig)
{
	(void)sig;
}

/* One call without arguments. A call that duplicates the process or never returns must do no harm: what it gave is
 * written to shared memory, and a timer interrupts what waits; again and again, since on a busy machine it may come
 * before the call. */
static void one_number(long nr, short *slot)
{
	struct itimerval often = { .it_value = { .tv_usec = 100000 }, .it_interval = { .tv_usec = 100000 } };
	struct sigaction interrupt = { .sa_handler = nothing };
	long r;

	sigaction(SIGALRM, &interrupt, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
#ifdef __x86_64__
	{
		register long r10 __asm__("r10") = 0;
		register long r8 __asm__("r8") = 0;
		register long r9 __asm__("r9") = 0;

		__asm__ volatile("syscall"
				 : "=a"(r)
				 : "a"(nr), "D"(0), "S"(0), "d"(0), "r"(r10), "r"(r8), "r"(r9)
				 : "rcx", "r11", "memory");
	}
	*slot = (short)(r < 0 && r > -4096 ? -r : 0);
#else
	r = syscall(nr, 0, 0, 0, 0, 0, 0);
	*slot = (short)(r < 0 ? errno : 0);
#endif
	syscall(SYS_exit, 0);
}

/* Prints one letter a number: "a" the kernel was reached, "E" EPERM, "N" ENOSYS, "K" killed by SIGSYS. */
int sweep(char **args)
{
	long first = args[0] ? atol(args[0]) : 0, last = args[0] && args[1] ? atol(args[1]) : first;
	short *slots =
		mmap(NULL, NUMBERS_MAX * sizeof(short), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int null = open("/dev/null", O_RDWR);

	if (first < 0 || last >= NUMBERS_MAX || last < first || slots == MAP_FAILED)
		return answer(NOT_TRIED, "usage");
	alarm(0);
	if (null >= 0)
		dup2(null, 0);
	answer(DONE, "%s", "");
	for (long nr = first; nr <= last; nr++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0)
			one_number(nr, &slots[nr]);
		if (pid < 0 || waitpid(pid, &status, __WALL) < 0)
			return answer(NOT_TRIED, "fork:%s", error_name(errno));
		answer_more("%c", WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? 'K'
				  : slots[nr] == EPERM				    ? 'E'
				  : slots[nr] == ENOSYS				    ? 'N'
										    : 'a');
	}
	return DONE;
}

/* ---- calls that need more than numbers ---- */

static int memfd_exec(char **args)
{
	static char *const argv[] = { (char *)"probe", (char *)"--list", NULL }, *const envp[] = { NULL };
	int fd = (int)syscall(SYS_memfd_create, "probe", 0), self = open("/proc/self/exe", O_RDONLY);
	char buf[65536];
	ssize_t n;
	int status = 0;
	pid_t pid;

	if (fd < 0 || self < 0)
		return answer_call(-1);
	while ((n = read(self, buf, sizeof(buf))) > 0)
		if (write(fd, buf, (size_t)n) != n)
			return answer_call(-1);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, 1);
		syscall(SYS_execveat, fd, empty_text, argv, envp, 0x1000);
		_exit(errno);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return answer_call(-1);
	errno = WEXITSTATUS(status);
	return answer_call(status == 0 ? 0 : -1);
}

/* A process of our own, looked at as a debugger does. */
static int own_child(long (*attempt)(pid_t))
{
	pid_t pid = fork();
	long r;
	int code;

	if (pid == 0) {
		pause();
		_exit(0);
	}
	r = attempt(pid);
	code = answer_call(r);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return code;
}

static long seize(pid_t pid)
{
	return syscall(SYS_ptrace, 0x4206, pid, 0, 0);
}

static long read_memory(pid_t pid)
{
	char to;
	struct {
		void *base;
		size_t len;
	} local = { &to, 1 }, remote = { page, 1 };

	return syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0);
}

static long compare(pid_t pid)
{
	return syscall(SYS_kcmp, getpid(), pid, 1 /* KCMP_VM */, 0, 0);
}

static long steal_descriptor(pid_t pid)
{
	long pidfd = syscall(434 /* pidfd_open */, pid, 0);

	return pidfd < 0 ? -1 : syscall(NR_pidfd_getfd, pidfd, 0, 0);
}

static int ptrace_child(char **args)
{
	return own_child(seize);
}

static int vm_readv_child(char **args)
{
	return own_child(read_memory);
}

static int kcmp_child(char **args)
{
	return own_child(compare);
}

static int pidfd_getfd_child(char **args)
{
	return own_child(steal_descriptor);
}

/* seccomp(SECCOMP_SET_MODE_FILTER): a filter of one's own is harmless, one with a listener is not. */
static int load_filter(unsigned flags)
{
	struct {
		unsigned short code;
		unsigned char jt, jf;
		unsigned k;
	} allow = { 0x06, 0, 0, 0x7fff0000 };
	struct {
		unsigned short len;
		void *filter;
	} prog = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return answer_call(syscall(SYS_seccomp, 1, flags, &prog));
}

static int seccomp_filter(char **args)
{
	return load_filter(0);
}

static int seccomp_listener(char **args)
{
	return load_filter(8);
}

/* Threads, which libraries make by clone3 where they can. */
static int a_thread(void *arg)
{
	*(int *)arg = 1;
	return 0;
}

static int thread(char **args)
{
	static char stack[65536];
	static volatile int ran;
	int pid = clone(a_thread, stack + sizeof(stack),
			CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, (void *)&ran);

	while (pid > 0 && !ran) /* probe.c bounds it */
		poll(NULL, 0, 1);
	return pid < 0 ? answer_call(-1) : answer(DONE, "ok");
}

const struct probe call_probes[] = {
	{ "call", run_call },
	{ "clone", clone_flags },
	{ "int80", int80 },
	{ "x32", x32 },
	{ "memfd-exec", memfd_exec },
	{ "ptrace-child", ptrace_child },
	{ "process-vm-readv-child", vm_readv_child },
	{ "kcmp-child", kcmp_child },
	{ "pidfd-getfd-child", pidfd_getfd_child },
	{ "seccomp-filter", seccomp_filter },
	{ "seccomp-listener", seccomp_listener },
	{ "thread", thread },
	{ NULL, NULL },
};
