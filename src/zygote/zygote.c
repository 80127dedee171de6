/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-zygote.so, what a zygote runs in C. A zygote is an interpreter that has loaded its
 * libraries and waits; it keeps a fork of itself, the embryo, that becomes the interpreter in a sandbox which the
 * supervisor has built and in which nothing of a user has run yet.
 *
 * The zygote holds no capability. It has the user id that owns the sandboxes' user namespaces, and those lie right
 * below its own; so setns(2) lets its embryos in, and it is only inside that they have capabilities. A pid namespace is
 * entered by children only, so the embryo has to become another process once more, and that one takes over its memory:
 *
 *   zygote       fork: an embryo, which does in Python all that an interpreter does before and in its first cell
 *   embryo       waits for a request; setns(pidfd of the sandbox's init, all namespaces); clone(CLONE_VM); exit
 *   interpreter  descriptors, session, user and group, lockdown, working directory: then it returns into Python
 *
 * So a request finds the page tables copied, and the pages that an interpreter writes to as well: that is what a fork
 * costs. A request that comes before the next embryo is prepared gets it as it is. The zygote itself only waits for its
 * embryo to end, and reports what became of it. What an embryo has copied stays charged to the supervisor's control
 * group, not to the session's.
 *
 * Before it forks, the zygote packs its memory (below). With IPython, numpy and pandas loaded (90 MB) a fork then takes
 * 0.8 ms in place of 1.3 to 1.7, and a session has 4.1 MB of its own after its first cell in place of 4.8.
 *
 * The interpreter's parent has gone when the embryo ends, so it becomes a child of pid 1 of the outer pid namespace,
 * the supervisor, which learns how it ends. Between setns and the end of the lockdown nothing looks up a path. The
 * interpreter stays undumpable until then.
 *
 * This shared object is loaded into the Python of any image, whatever its C library: it makes system calls and calls
 * nothing (src/sandbox/rawcall.h). The exceptions are handed in as pointers: the interpreter's allocators, see
 * cbx_zygote_pack(), and fork, that of its own C library, because the library must learn that it is in another process
 * (its thread's id, the handlers of pthread_atfork). It is built without a stack protector, which would read the
 * library's thread-local storage, and without anything that the compiler could turn into a call of memcpy.
 */
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <sys/socket.h>

#include "sandbox/rawcall.h"
#include "zygote/zygote-protocol.h"

#define NAMESPACES                                                                                                     \
	(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define SIGNAL_CHILD 17 /* SIGCHLD on x86-64 and aarch64 */
#define HIGH	     64 /* descriptors are moved up here before they are put in place */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define EXPORT __attribute__((visibility("default")))

/* Where an interpreter has what, until it has sent PLACED. */
enum { FD_SOCK = CBX_INTERPRETER_FDS, FD_LANDLOCK };

#define QUIET_MS     20 /* from one interpreter to the next embryo, unless it is asked for: others need the processors */
#define TID_ADDRESS  40 /* PR_GET_TID_ADDRESS */
#define RSEQ_SIZE    32u
#ifdef __x86_64__
#define RSEQ_SIGNATURE 0x53053053
#define SHADOW_STACK   0x5005 /* ARCH_SHSTK_STATUS */
#else
#define RSEQ_SIGNATURE 0xd428bc00
#define SHADOW_STACK   74 /* PR_GET_SHADOW_STACK_STATUS */
#endif

/* One thread, one request at a time. */
static struct cbx_zygote_enter request;
static int fds[CBX_ZYGOTE_DESCRIPTORS];
static unsigned nfds;

/* What the embryo reports to its zygote, in memory that both see; no interpreter does. */
static volatile struct made {
	long value; /* pid, or -errno */
	__u32 step; /* 0: it has not been asked for anything */
	__u32 zero;
	__u64 sandbox;
} *made;

static void answer(int sock, __u32 type, __u64 sandbox, long value, __u32 step)
{
	static struct cbx_zygote_message m;

	m.type = type;
	m.value = (__s32)value;
	m.step = step;
	m.sandbox = sandbox;
	while (cbx_raw4(__NR_sendto, sock, &m, sizeof(m), MSG_NOSIGNAL) == -EINTR)
		;
}

static void close_all(void)
{
	for (unsigned i = 0; i < nfds; i++)
		cbx_raw1(__NR_close, fds[i]);
	nfds = 0;
}

/* ---- the interpreter ---- */

static long place_descriptors(void)
{
	static const int places[CBX_ZYGOTE_DESCRIPTORS] = { FD_SOCK, 0, 1, 2, 3, 4, FD_LANDLOCK };
	long r;

	/* From here on fds[0] is a copy of our socket: 3 is about to be another. */
	if ((r = cbx_raw3(__NR_dup3, CBX_ZYGOTE_FD, fds[0], O_CLOEXEC)) < 0)
		return r;
	for (unsigned i = 0; i < nfds; i++) {
		r = cbx_raw3(__NR_fcntl, fds[i], F_DUPFD_CLOEXEC, HIGH);
		if (r < 0)
			return r;
		fds[i] = (int)r;
	}
	for (unsigned i = 0; i < nfds; i++)
		if ((r = cbx_raw3(__NR_dup3, fds[i], places[i], places[i] >= CBX_INTERPRETER_FDS ? O_CLOEXEC : 0)) < 0)
			return r;
	fds[0] = FD_SOCK;
	return cbx_raw3(__NR_close_range, nfds == CBX_ZYGOTE_DESCRIPTORS ? FD_LANDLOCK + 1 : FD_LANDLOCK, ~0u, 0);
}

static long settle(__u32 *step)
{
	int locked = 0;
	long r;

	*step = CBX_ZYGOTE_STEP_DESCRIPTORS;
	if ((r = place_descriptors()) < 0)
		return r;
	*step = CBX_ZYGOTE_STEP_SESSION;
	if ((r = cbx_raw1(__NR_setsid, 0)) < 0)
		return r;
	*step = CBX_ZYGOTE_STEP_USER;
	if ((r = cbx_raw3(__NR_setresgid, request.gid, request.gid, request.gid)) < 0 ||
	    (r = cbx_raw3(__NR_setresuid, request.uid, request.uid, request.uid)) < 0)
		return r;
	cbx_raw1(__NR_umask, 022);
	r = cbx_lockdown(&request.lockdown, nfds == CBX_ZYGOTE_DESCRIPTORS ? FD_LANDLOCK : -1, &locked);
	*step = (__u32)locked;
	if (r < 0)
		return r;
	if (nfds == CBX_ZYGOTE_DESCRIPTORS)
		cbx_raw1(__NR_close, FD_LANDLOCK);
	/* As after an exec; from here on it is a process like any other of the sandbox. */
	*step = CBX_ZYGOTE_STEP_DUMPABLE;
	if ((r = cbx_raw5(__NR_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)) < 0)
		return r;
	*step = CBX_ZYGOTE_STEP_WORKSPACE;
	return cbx_raw1(__NR_chdir, request.workspace);
}

/* The page is that of the zygote and of all its embryos: nothing may stay that another session can see or change. Where
 * the embryo shares this memory, it has still to store our number there, and touches nothing after that. */
static void leave_shared_page(void)
{
	while (made->value == -ECHILD)
		cbx_raw1(__NR_sched_yield, 0);
	cbx_raw2(__NR_munmap, made, sizeof(*made));
	made = (volatile struct made *)0;
}

static void become_interpreter(void)
{
	__u32 step = 0;
	long r;

	leave_shared_page();
	r = settle(&step);

	answer(fds[0], CBX_ZYGOTE_PLACED, request.sandbox, r < 0 ? r : 0, r < 0 ? step : 0);
	if (r < 0)
		cbx_raw1(__NR_exit_group, 1);
	cbx_raw1(__NR_close, FD_SOCK);
	nfds = 0;
}

/* ---- the embryo ---- */

/* Wait for the next request. 1: there is one; 0: the supervisor has gone; negative: -errno, it is not understood. */
static int wait_for_request(void)
{
	static union {
		char bytes[CMSG_SPACE(sizeof(int) * CBX_ZYGOTE_DESCRIPTORS)];
		struct cmsghdr head;
	} control;
	static struct iovec iov;
	static struct msghdr msg;
	long n;

	iov.iov_base = &request;
	iov.iov_len = sizeof(request);
	msg.msg_iov = &iov;
	msg.msg_iovlen = 1;
	msg.msg_control = control.bytes;
	do {
		msg.msg_controllen = sizeof(control.bytes);
		msg.msg_flags = 0;
		n = cbx_raw3(__NR_recvmsg, CBX_ZYGOTE_FD, &msg, MSG_CMSG_CLOEXEC);
	} while (n == -EINTR);
	if (n <= 0)
		return (int)n;
	nfds = 0;
	if (msg.msg_controllen >= sizeof(control.head) && control.head.cmsg_level == SOL_SOCKET &&
	    control.head.cmsg_type == SCM_RIGHTS)
		nfds = (unsigned)((control.head.cmsg_len - CMSG_LEN(0)) / sizeof(int));
	for (unsigned i = 0; i < nfds; i++)
		fds[i] = ((int *)CMSG_DATA(&control.head))[i];
	if (n == sizeof(request) && request.type == CBX_ZYGOTE_ENTER && nfds >= CBX_ZYGOTE_DESCRIPTORS - 1 &&
	    !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && !request.workspace[sizeof(request.workspace) - 1])
		return 1;
	close_all();
	return -EBADMSG;
}

/*
 * A child that shares this process's memory and continues in this very frame, on this stack, while this process does
 * nothing any more but store the child's number and end; so that is written here, in registers.
 * Returns in the child, or a negative errno.
 */
static long move_into_child(int *tid, volatile long *ret)
{
	const unsigned long flags = CLONE_VM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGNAL_CHILD;
#if defined(__x86_64__)
	register long r10 __asm__("r10") = (long)tid;
	register long r8 __asm__("r8") = 0;
	long r;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jle 1f\n\t"
			 "mov %%rax, (%[ret])\n"
			 "0:\n\t"
			 "mov %[end], %%eax\n\t"
			 "xor %%edi, %%edi\n\t"
			 "syscall\n\t"
			 "jmp 0b\n"
			 "1:"
			 : "=a"(r)
			 : "a"(__NR_clone), "D"(flags), "S"(0L), "d"(0L), "r"(r10), "r"(r8), [ret] "b"(ret),
			   [end] "i"(__NR_exit_group)
			 : "rcx", "r11", "cc", "memory");
	return r;
#else
	register long x8 __asm__("x8") = __NR_clone;
	register long x0 __asm__("x0") = (long)flags;
	register long x1 __asm__("x1") = 0;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = (long)tid;

	__asm__ volatile("svc 0\n\t"
			 "cmp x0, 0\n\t"
			 "b.le 1f\n\t"
			 "str x0, [%[ret]]\n"
			 "0:\n\t"
			 "mov x0, 0\n\t"
			 "mov x8, %[end]\n\t"
			 "svc 0\n\t"
			 "b 0b\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), [ret] "r"(ret), [end] "i"(__NR_exit_group)
			 : "cc", "memory");
	return x0;
#endif
}

static char *thread_pointer(void)
{
	char *p;

#if defined(__x86_64__)
	__asm__("mov %%fs:0, %0" : "=r"(p));
#else
	__asm__("mrs %0, tpidr_el0" : "=r"(p));
#endif
	return p;
}

/* Where the C library has this thread's number; it must be what the kernel knows, or we do not understand it. */
static int *thread_number(void)
{
	int *tid = (int *)0;

	if (cbx_raw5(__NR_prctl, TID_ADDRESS, &tid, 0, 0, 0) < 0 || !tid || *tid != cbx_raw1(__NR_gettid, 0))
		return (int *)0;
	return tid;
}

/* The kernel gives one to a child that shares memory, an empty one: it could not return from any function. */
static int shadow_stack(void)
{
	unsigned long on = 0;
#if defined(__x86_64__)
	long r = cbx_raw2(__NR_arch_prctl, SHADOW_STACK, &on);
#else
	long r = cbx_raw5(__NR_prctl, SHADOW_STACK, &on, 0, 0, 0);
#endif

	return r == 0 && on;
}

/*
 * Continue as a child in the pid namespace that was entered. What the C library has told the kernel of its thread, a
 * process with its parent's memory has not; so it is set again.
 */
static long become_child(int (*libc_fork)(void), long rseq_offset)
{
	static int nobody; /* the embryo's end would clear its child's number */
	unsigned long robust = 0, size = 0, stack[3] = { 0 };
	char *rseq = rseq_offset ? thread_pointer() + rseq_offset : (char *)0;
	int *tid = thread_number();
	long r;

	if (!tid || shadow_stack() || (rseq && cbx_raw4(__NR_rseq, rseq, RSEQ_SIZE, 1, RSEQ_SIGNATURE) < 0)) {
		r = libc_fork();
		if (r > 0)
			made->value = r;
		while (r > 0)
			cbx_raw1(__NR_exit_group, 0);
		return r < 0 ? -EAGAIN : 0;
	}
	cbx_raw3(__NR_get_robust_list, 0, &robust, &size);
	cbx_raw2(__NR_sigaltstack, 0, stack);
	cbx_raw1(__NR_set_tid_address, &nobody);
	r = move_into_child(tid, &made->value);
	if (r < 0)
		return r;
	cbx_raw2(__NR_set_robust_list, robust, size);
	cbx_raw2(__NR_sigaltstack, stack, 0);
	if (rseq)
		cbx_raw4(__NR_rseq, rseq, RSEQ_SIZE, 0, RSEQ_SIGNATURE);
	return 0;
}

/*
 * Wait for a request, and carry it out. Returns in the interpreter, which is in its place. libc_fork is the C library's
 * fork(), for a thread that is more than we understand; rseq is the place of its restartable sequences, from the thread
 * pointer, or 0.
 */
EXPORT void cbx_embryo_enter(int (*libc_fork)(void), long rseq);
void cbx_embryo_enter(int (*libc_fork)(void), long rseq)
{
	long r = wait_for_request();

	if (r > 0) {
		made->sandbox = request.sandbox;
		made->value = -ECHILD; /* what is reported when the embryo is killed */
		made->step = CBX_ZYGOTE_STEP_SETNS;
		r = cbx_raw2(__NR_setns, fds[0], NAMESPACES);
		if (r == 0) {
			made->step = CBX_ZYGOTE_STEP_FORK;
			r = become_child(libc_fork, rseq);
			if (r == 0) {
				become_interpreter();
				return;
			}
		}
		made->value = r;
	}
	for (;;)
		cbx_raw1(__NR_exit_group, 0);
}

/* ---- the zygote ---- */

/* Until nothing has been asked for lately, or something is, or the supervisor has gone. */
static void pause_before_fork(void)
{
	struct pollfd {
		int fd;
		short events, revents;
	} p = { CBX_ZYGOTE_FD, 1 /* POLLIN */, 0 };
	struct {
		long s, ns;
	} time = { 0, QUIET_MS * 1000000l };

	cbx_raw5(__NR_ppoll, &p, 1, &time, 0, 0);
}

/*
 * Returns in embryos only. The zygote runs no Python any more: whatever it wrote to would be copied for it, and
 * break up the large pages (below) that make a fork cheap. libc_fork is the C library's fork().
 */
EXPORT void cbx_zygote_serve(int (*libc_fork)(void));
void cbx_zygote_serve(int (*libc_fork)(void))
{
	long page = cbx_raw(__NR_mmap, 0, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pid;

	if (page < 0 && page > -4096)
		cbx_raw1(__NR_exit_group, 1);
	made = (volatile struct made *)page;
	for (;;) {
		made->step = 0;
		pid = libc_fork();
		if (pid == 0)
			return;
		if (pid < 0)
			cbx_raw1(__NR_exit_group, 1);
		/* Reaped, it has surely handed its child over. */
		while (cbx_raw4(__NR_wait4, pid, 0, 0, 0) == -EINTR)
			;
		if (!made->step)
			cbx_raw1(__NR_exit_group, 0);
		answer(CBX_ZYGOTE_FD, CBX_ZYGOTE_FORKED, made->sandbox, made->value, made->value < 0 ? made->step : 0);
		pause_before_fork();
	}
}

/* ---- memory ---- */

#define FILL_MAX   (256ul << 10) /* bytes of one size: what is asked for when an allocator is not what we think */
#define POOL_HEAD  48ul		 /* what Python's allocator keeps at the start of a pool of small blocks */
#define SMALL_MAX  512ul
#define SMALL_STEP 16ul
#define LARGE	   (2ul << 20) /* a large page; also on aarch64 with pages of 4 KiB */
#define CHUNKS_MAX 256

/* Python's arenas are made here, so that they lie in pieces that can be large pages. */
static struct {
	char *next, *end; /* what is left of the last chunk */
	char *chunks[CHUNKS_MAX];
	unsigned n;
} arenas;

static void *map(unsigned long size)
{
	long r = cbx_raw(__NR_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return r < 0 && r > -4096 ? (void *)0 : (void *)r;
}

static void unmap(char *p, char *end)
{
	if (p < end)
		cbx_raw2(__NR_munmap, p, end - p);
}

static int new_chunk(void)
{
	char *all = map(2 * LARGE), *chunk = (char *)(((unsigned long)all + LARGE - 1) & ~(LARGE - 1));

	if (!all)
		return 0;
	unmap(all, chunk);
	unmap(chunk + LARGE, all + 2 * LARGE);
	arenas.next = chunk;
	arenas.end = chunk + LARGE;
	if (arenas.n < CHUNKS_MAX)
		arenas.chunks[arenas.n++] = chunk;
	return 1;
}

static void *arena_alloc(void *context, unsigned long size)
{
	char *p;

	(void)context;
	if (size > LARGE)
		return map(size);
	if ((unsigned long)(arenas.end - arenas.next) < size && !new_chunk())
		return (void *)0;
	p = arenas.next;
	arenas.next += size;
	return p;
}

static void arena_free(void *context, void *p, unsigned long size)
{
	(void)context;
	unmap(p, (char *)p + size);
}

/* Python's PyObjectArenaAllocator. */
struct arena_allocator {
	void *context;
	void *(*alloc)(void *, unsigned long);
	void (*release)(void *, void *, unsigned long);
};

static struct arena_allocator original; /* it gives back what ours has made, too: both map and unmap */
static void (*set_arenas)(const struct arena_allocator *);

/* For as long as the zygote loads: there is one thread, and ours has no lock. */
EXPORT void cbx_zygote_arenas(void (*get)(struct arena_allocator *), void (*set)(const struct arena_allocator *));
void cbx_zygote_arenas(void (*get)(struct arena_allocator *), void (*set)(const struct arena_allocator *))
{
	struct arena_allocator ours = { (void *)0, arena_alloc, arena_free };

	get(&original);
	set_arenas = set;
	set(&ours);
}

/*
 * A fork copies a page table entry for each page, and a large page has one: with the heaps in large pages it takes half
 * as long. An interpreter that writes to one gets entries of its own for its parts, and a copy of the one part. A
 * kernel that cannot do it (before 6.1) leaves things as they are.
 */
static void make_large(const char *heap_end)
{
	char *p = (char *)((unsigned long)heap_end & ~(LARGE - 1));

	for (unsigned i = 0; i < arenas.n; i++)
		cbx_raw3(__NR_madvise, arenas.chunks[i], LARGE, MADV_COLLAPSE);
	while (cbx_raw3(__NR_madvise, p -= LARGE, LARGE, MADV_COLLAPSE) == 0)
		;
}

typedef void *(*alloc_fn)(unsigned long);
typedef void (*release_fn)(void *);

/* Until a block is the first of a pool that has just been begun: the allocator does that when no other has room. */
static void fill_pools(alloc_fn alloc, release_fn release, unsigned long size, unsigned long pool)
{
	for (unsigned long done = 0; done < FILL_MAX; done += size) {
		char *first = alloc(size), *second, *third;

		if (!first)
			return;
		if (((unsigned long)first & (pool - 1)) != POOL_HEAD)
			continue;
		second = alloc(size);
		third = alloc(size);
		if (second != first + size || third != second + size)
			continue;
		release(third);
		release(second);
		release(first);
		return;
	}
}

/* Until a block is behind the end that the heap had: the C library takes it from there when no gap has room. */
static void fill_gaps(alloc_fn alloc, release_fn release, unsigned long size, const char *end)
{
	for (unsigned long done = 0; done < FILL_MAX; done += size) {
		char *block = alloc(size);

		if (block >= end) {
			release(block);
			return;
		}
	}
}

/*
 * Use up what is free between the objects of what has been loaded. An interpreter that was given one of these places
 * would have to copy the page, with all that others share on it; so it gets its memory from pages that hold nothing
 * else, one after the other. The blocks are never given back. What was free was little: most of it is a few objects
 * wide. The heap must have been trimmed; then the C library has left less than two pages of it at the end.
 */
EXPORT void cbx_zygote_pack(alloc_fn object_alloc, release_fn object_release, unsigned long pool, alloc_fn alloc,
			    release_fn release, unsigned long page);
void cbx_zygote_pack(alloc_fn object_alloc, release_fn object_release, unsigned long pool, alloc_fn alloc,
		     release_fn release, unsigned long page)
{
	const char *end = (const char *)cbx_raw1(__NR_brk, 0) - 2 * page;

	for (unsigned long size = 64ul << 10; size >= SMALL_STEP; size -= size > 1024 ? size / 2 : SMALL_STEP)
		fill_gaps(alloc, release, size - 8, end);
	for (unsigned long size = SMALL_MAX; size; size -= SMALL_STEP)
		fill_pools(object_alloc, object_release, size, pool);
	make_large(end);
	set_arenas(&original);
}
