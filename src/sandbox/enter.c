/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the order of entering a sandbox
 *
 *  1  clone3: user, pid, mount, network, IPC and UTS namespaces at once, in the session's control group, with a pidfd
 *                                                                                                (supervisor)
 *  2  id maps: one id, written from the outer namespace; then the "go" byte                      (supervisor)
 *     Meanwhile, as it needs no id:
 *  3  die with the supervisor (PDEATHSIG), in a session of our own; a cgroup
 *     namespace: made by clone3 it would show the way from the supervisor's group to ours. It begins at init's group, so
 *     what runs in "work" reads "/../work": the group above both may hold no process that could make the namespace, and
 *     to make it in "work" and then move init would cost every sandbox a move. Loopback up, and what a sandbox with a
 *     route may not reach walled off; the proxy's listener handed out, where there is to be one; host name
 *  4  open the image's directories while we still have the ids that may reach them
 *  5  "go" is awaited; become the sandbox's user and group             -- PDEATHSIG is set again: this cleared it
 *  6  mount events private; the session's tmpfs; the root overlay on it, with the drivers; further layers
 *  7  /workspace, home, /tmp, /var/tmp: from the same tmpfs; /dev; mounts of the machine that were asked for; /proc
 *  8  the route is there, where there is to be one. pivot_root, nothing of the old root left
 *  9  chdir to the workspace, and verify that it is within the root
 * 10  Landlock's ruleset, made of the new root's directories; the supervisor gets a copy of its descriptor
 * 11  descriptors: init's socket is 3, everything else is close-on-exec
 * 12  rlimits, capabilities, securebits, no_new_privs, Landlock, system call filter: lockdown.h has the order
 * 13  execveat of codebox-init, by descriptor: the sandbox holds no path to it
 *
 * A zygote (enter.h) goes the same way, without user and pid namespaces, an id, a /proc and a ruleset of its own; at 13
 * it is the image's interpreter that is executed.
 *
 * Up to 13 nothing from the sandbox runs: no program of the image, no library, no hook. An error at any step is written
 * to the report socket and ends the process, and with it, as pid 1, the namespaces. Success is the end of file that
 * exec makes by closing that socket.
 */
#include "sandbox/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/syscalls.h"
#include "sandbox/dev.h"
#include "sandbox/handed.h"
#include "sandbox/hostmounts.h"
#include "sandbox/ids.h"
#include "sandbox/init-protocol.h"
#include "sandbox/landlock.h"
#include "sandbox/lockdown.h"
#include "sandbox/mounts.h"
#include "sandbox/net.h"
#include "sandbox/procfs.h"
#include "sandbox/route.h"
#include "sandbox/users.h"

struct entry {
	const struct cbx_outer *outer;
	const struct cbx_plan *plan;
	const struct cbx_lockdown *lockdown;
	const struct cbx_program *program; /* NULL: codebox-init */
	int init_sock;
	int door;                        /* that the proxy's listener is handed out by; -1: there is none */
	struct cbx_route *way;           /* NULL: it has no route */
	int init_fd;                     /* codebox-init's file */
	int layers[CBX_PLAN_LAYERS_MAX]; /* O_PATH of each lower directory */
	int host;                        /* where the machine's mounts come from; -1: the plan has none */
	int store;                       /* the session's tmpfs, a mount */
	int root;                        /* the new root, a mount */
	int shm;                         /* /dev/shm, a mount */
	bool watched;                    /* no control group limits it: the supervisor does */
};

/* ---- directories ---- */

static int write_text(int dir, const char *path, const char *text, struct cbx_err *err)
{
	_cleanup_fd_ int fd = openat(dir, path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	int r;

	if (fd < 0)
		return cbx_fail(err, errno, "make %s", path);
	r = cbx_write_all(fd, text, strlen(text));
	return r < 0 ? cbx_fail(err, -r, "write %s", path) : 0;
}

/* ---- steps 2 to 5 ---- */

static int leave_supervisor(const struct entry *e, struct cbx_err *err)
{
	const char *name = e->plan->hostname;
	int r;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || setsid() < 0)
		return cbx_fail(err, errno, "leave the supervisor's session");
	r = cbx_handed_to_oom(err);
	if (r < 0)
		return r;
	if (unshare(CLONE_NEWCGROUP) < 0)
		return cbx_fail(err, errno, "make a cgroup namespace");
	r = cbx_net_loopback_up(&e->outer->loopback, err);
	if (r == 0 && e->way)
		r = cbx_route_wall(e->way, e->plan, err);
	if (r == 0 && e->door >= 0)
		r = cbx_net_hand_out_listener(e->door, err);
	if (r == 0 && sethostname(name, strlen(name)) < 0)
		return cbx_fail(err, errno, "set the host name");
	return r;
}

static int open_layers(struct entry *e, struct cbx_err *err)
{
	char path[CBX_NAME_MAX + CBX_PATH_MAX + 16];

	for (uint32_t i = 0; i < e->plan->nlayers; i++) {
		const char *source = e->plan->layers[i].source;

		if (strcmp(source, "host:/usr") == 0)
			snprintf(path, sizeof(path), "usr");
		else
			snprintf(path, sizeof(path), "images/%s/%s", e->plan->image, source);
		e->layers[i] = cbx_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
					   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
		if (e->layers[i] < 0)
			return cbx_fail(err, errno, "open directory \"%s\" of image \"%s\"", source, e->plan->image);
	}
	e->init_fd = open("/init", O_PATH | O_CLOEXEC);
	return e->init_fd < 0 ? cbx_fail(err, errno, "open codebox-init") : 0;
}

static int await_go(int report, struct cbx_err *err)
{
	char go;
	ssize_t n = cbx_read_full(report, &go, 1);

	if (n == 0)
		_exit(1); /* the supervisor gave up */
	return n < 0 ? cbx_fail(err, (int)-n, "wait for the supervisor") : 0;
}

static int become_user(const struct entry *e, struct cbx_err *err)
{
	if (e->program)
		return 0; /* a zygote keeps the id that owns the sandboxes' user namespaces */
	if (setresgid(CBX_INSIDE_GID, CBX_INSIDE_GID, CBX_INSIDE_GID) < 0)
		return cbx_fail(err, errno, "become the sandbox's group");
	if (setresuid(CBX_INSIDE_UID, CBX_INSIDE_UID, CBX_INSIDE_UID) < 0)
		return cbx_fail(err, errno, "become the sandbox's user");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return cbx_fail(err, errno, "ask to die with the supervisor");
	return 0;
}

/* ---- step 6 ---- */

static int mount_store(struct entry *e, struct cbx_err *err)
{
	char size[48], inodes[48];
	const char *const options[] = { size, inodes, "mode=0755", NULL };
	_cleanup_fd_ int old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	snprintf(size, sizeof(size), "size=%llu", (unsigned long long)e->plan->disk_bytes);
	snprintf(inodes, sizeof(inodes), "nr_inodes=%llu", (unsigned long long)e->plan->disk_inodes);
	e->store = cbx_mount_new_at("tmpfs", options, CBX_NOSUID_NODEV, old, "/session", err);
	return e->store < 0 ? e->store : 0;
}

/* The image's user database, with the session's user added where it lacks one. */
static int write_users(const struct entry *e, int upper, const char *file, const char *entry, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = cbx_users_with(e->layers[0], file, entry, &text, err);

	return r > 0 ? write_text(upper, file, text.data, err) : r;
}

/* Not where there is something of the name: the image's own modules, or a mount. */
static int link_modules(const struct entry *e, int upper, struct cbx_err *err)
{
	if (faccessat(e->layers[0], &CBX_INSIDE_MODULES[1], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (symlinkat(CBX_MODULES_LINK, upper, &CBX_INSIDE_MODULES[1]) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make " CBX_INSIDE_MODULES);
	return 0;
}

/*
 * Every directory that something is mounted on is made in the overlay's upper layer. So it is there whatever the image
 * holds, and a link or a file of that name in the image is covered, not followed.
 */
static int fill_upper(const struct entry *e, int upper, struct cbx_err *err)
{
	static const char *const dirs[] = { "dev",	"proc",	     "tmp",	  "var/tmp",
					    "etc",	"workspace", "home/user", "run/codebox" };
	_cleanup_free_ char *hosts = cbx_xasprintf("127.0.0.1 localhost %s\n::1 localhost\n", e->plan->hostname);
	_cleanup_free_ char *name = cbx_xasprintf("%s\n", e->plan->hostname);
	_cleanup_free_ char *resolver = e->way ? cbx_xasprintf("nameserver %s\n", cbx_route_resolver(e->plan)) :
						 cbx_xstrdup("");
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = cbx_mount_make_dirs(upper, dirs[i], err);
	for (uint32_t i = 1; r == 0 && i < e->plan->nlayers; i++)
		r = cbx_mount_make_dirs(upper, e->plan->layers[i].target + 1, err);
	if (r == 0 && e->plan->flags & CBX_PLAN_PACKAGES)
		r = cbx_mount_make_dirs(upper, &CBX_INSIDE_PACKAGES[1], err);
	if (r == 0)
		r = cbx_host_make_targets(e->plan, upper, 0, err);
	if (r == 0 && e->plan->flags & CBX_PLAN_NODE)
		r = link_modules(e, upper, err);
	if (r == 0)
		r = write_text(upper, "etc/hosts", hosts, err);
	if (r == 0)
		r = write_text(upper, "etc/hostname", name, err);
	if (r == 0)
		r = write_text(upper, "etc/resolv.conf", resolver, err);
	if (r == 0 && e->program)
		r = write_text(upper, &CBX_INSIDE_ZYGOTE[1], "", err);
	if (r == 0)
		r = write_users(e, upper, "etc/passwd", "user:x:1000:1000:codebox:/home/user:/bin/sh\n", err);
	if (r == 0)
		r = write_users(e, upper, "etc/group", "user:x:1000:\n", err);
	return r;
}

/* An overlay of layer i with an upper layer of its own on the session's tmpfs, where our own additions are. The root's
 * has one more layer, that of the drivers. Own inodes
 * matter: on a shared tree one session's file locks and watches are seen by another, even when it is read-only. */
static int mount_layer(const struct entry *e, uint32_t i, struct cbx_err *err)
{
	char lower[96], upper[64], work[64];
	const char *const upper_name = &upper[sizeof("upperdir=/session/") - 1];
	const char *const work_name = &work[sizeof("workdir=/session/") - 1];
	const char *const options[] = { lower, upper, work, "userxattr", NULL };
	_cleanup_fd_ int dir = -1;
	int r;

	if (!e->outer->overlay)
		return cbx_mount_copy(e->layers[i], "", CBX_MOUNT_ATTR_RDONLY | CBX_NOSUID_NODEV, err);
	/* By descriptor: the path to the store may lead through directories that only the supervisor may search. */
	snprintf(lower, sizeof(lower), "lowerdir=%s/proc/self/fd/%d", i == 0 ? CBX_OUTER_DRIVERS ":" : "",
		 e->layers[i]);
	snprintf(upper, sizeof(upper), "upperdir=/session/upper%u", i);
	snprintf(work, sizeof(work), "workdir=/session/work%u", i);
	if (mkdirat(e->store, upper_name, 0755) < 0 || mkdirat(e->store, work_name, 0755) < 0)
		return cbx_fail(err, errno, "make the session's layer");
	dir = openat(e->store, upper_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return cbx_fail(err, errno, "open the session's layer");
	r = i == 0 ? fill_upper(e, dir, err) : 0;
	if (r < 0)
		return r;
	return cbx_mount_new("overlay", options, CBX_MOUNT_ATTR_RDONLY | CBX_NOSUID_NODEV, err);
}

static int mount_root(struct entry *e, struct cbx_err *err)
{
	_cleanup_fd_ int top = open("/newroot", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (top < 0)
		return cbx_fail(err, errno, "open the place of the new root");
	e->root = mount_layer(e, 0, err);
	if (e->root < 0)
		return e->root;
	r = cbx_mount_attach(e->root, top, "the root", err);
	for (uint32_t i = 1; r == 0 && i < e->plan->nlayers; i++) {
		const char *at = e->plan->layers[i].target;
		_cleanup_fd_ int layer = mount_layer(e, i, err);
		_cleanup_fd_ int target = layer < 0 ? -1 : cbx_mount_point(e->root, at, err);

		r = layer < 0 ? layer : target < 0 ? target : cbx_mount_attach(layer, target, at, err);
	}
	return r;
}

/* ---- step 7 ---- */

/* A directory of the session's tmpfs, with its nosuid and nodev and what else is asked for. Returns the mount. */
static int mount_area(const struct entry *e, const char *name, mode_t mode, unsigned attr, const char *target,
		      struct cbx_err *err)
{
	_cleanup_fd_ int mount = -1, at = -1;
	int r;

	/* Apart from mkdir: the umask does not count then. */
	if (mkdirat(e->store, name, 0755) < 0 || fchmodat(e->store, name, mode, 0) < 0)
		return cbx_fail(err, errno, "make the session's %s", name);
	mount = cbx_mount_copy(e->store, name, attr, err);
	if (mount < 0)
		return mount;
	at = cbx_mount_point(e->root, target, err);
	r = at < 0 ? at : cbx_mount_attach(mount, at, target, err);
	return r < 0 ? r : take_fd(&mount);
}

/* One rule for all that the session can write. */
static unsigned noexec(const struct entry *e)
{
	return e->plan->noexec_workspace ? CBX_MOUNT_ATTR_NOEXEC : 0;
}

static int mount_work_areas(const struct entry *e, struct cbx_err *err)
{
	static const struct {
		const char *name, *target;
		mode_t mode;
	} areas[] = {
		{ "workspace", CBX_INSIDE_WORKSPACE, 0755 },
		{ "home", CBX_INSIDE_HOME, 0700 },
		{ "tmp", "/tmp", 01777 },
		{ "vartmp", "/var/tmp", 01777 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(areas); i++) {
		_cleanup_fd_ int mount = mount_area(e, areas[i].name, areas[i].mode, noexec(e), areas[i].target, err);

		if (mount < 0)
			return mount;
	}
	return 0;
}

static int mount_host(const struct entry *e, struct cbx_err *err)
{
	_cleanup_fd_ int workspace = -1;
	int r;

	if (!e->plan->nmounts)
		return 0;
	workspace = openat(e->store, "workspace", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (workspace < 0)
		return cbx_fail(err, errno, "open the workspace");
	r = cbx_host_make_targets(e->plan, workspace, 1, err);
	return r < 0 ? r : cbx_host_attach(e->host, e->plan, e->root, err);
}

static int mount_dev(struct entry *e, struct cbx_err *err)
{
	_cleanup_fd_ int dev = mount_area(e, "dev", 0755, CBX_MOUNT_ATTR_NOEXEC, "/dev", err);

	/* A zygote's interpreters have the terminals and queues of the sandbox that they enter. */
	return dev < 0 ? dev : cbx_dev_fill(dev, e->root, e->plan, e->program != NULL, &e->shm, err);
}

/* Where the root is not an overlay, of which they are a layer. */
static int mount_runtimes(const struct entry *e, struct cbx_err *err)
{
	_cleanup_fd_ int mount = -1, target = -1;

	if (e->outer->overlay)
		return 0;
	mount = cbx_mount_copy(AT_FDCWD, CBX_OUTER_DRIVERS CBX_INSIDE_RUNTIMES,
			       CBX_MOUNT_ATTR_RDONLY | CBX_NOSUID_NODEV, err);
	if (mount < 0)
		return mount;
	target = cbx_mount_point(e->root, CBX_INSIDE_RUNTIMES, err);
	return target < 0 ? target : cbx_mount_attach(mount, target, CBX_INSIDE_RUNTIMES, err);
}

static int mount_zygote(const struct entry *e, struct cbx_err *err)
{
	_cleanup_fd_ int mount = cbx_mount_copy(AT_FDCWD, "/zygote.so", CBX_NOSUID_NODEV, err), target = -1;

	if (mount < 0)
		return mount;
	target = cbx_mount_point(e->root, CBX_INSIDE_ZYGOTE, err);
	return target < 0 ? target : cbx_mount_attach(mount, target, CBX_INSIDE_ZYGOTE, err);
}

/* ---- steps 9 to 13 ---- */

static int enter_workspace(struct cbx_err *err)
{
	char cwd[CBX_PATH_MAX];

	if (chdir(CBX_INSIDE_WORKSPACE) < 0)
		return cbx_fail(err, errno, "change to the workspace");
	/* A working directory outside of the root would read as "(unreachable)…" (CVE-2024-21626). */
	if (!getcwd(cwd, sizeof(cwd)) || strcmp(cwd, CBX_INSIDE_WORKSPACE) != 0)
		return cbx_refuse(err, "unsafe_directory", EPERM, "the workspace is not within the sandbox's root");
	return 0;
}

/* Where the kernel has no Landlock, and that is allowed, ret->fd is -1. */
static int make_ruleset(const struct entry *e, int report, struct cbx_landlock *ret, struct cbx_err *err)
{
	/* The strict profile has no interpreters that come from a zygote: all its processes descend from init. */
	bool strict = e->plan->profile == CBX_PROFILE_STRICT;
	_cleanup_fd_ int root = -1;
	int r;

	ret->fd = -1;
	/* A zygote's interpreters get the ruleset of the sandbox that they enter. It has none itself, not even one
	 * about signals alone: setns(2) with a pidfd asks for access as ptrace does, which Landlock refuses out of its
	 * domain. */
	if (e->plan->landlock == CBX_LANDLOCK_OFF || e->program)
		return 0;
	if (!e->outer->landlock_abi)
		return e->plan->landlock == CBX_LANDLOCK_AUTO
			       ? 0
			       : cbx_refuse(err, "landlock", ENOSYS,
					    "landlock: it is required, but this kernel does not have it or has it "
					    "switched off; add landlock to lsm= on its command line");
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return cbx_fail(err, errno, "open the new root");
	if ((r = cbx_landlock_new(e->outer->landlock_abi, strict ? CBX_LANDLOCK_NO_TCP | CBX_LANDLOCK_SCOPED : 0, ret,
				  err)) < 0 ||
	    (r = cbx_landlock_allow_standard(ret, root, !strict, err)) < 0 ||
	    /* Its file is on a mount that the new root does not show. */
	    (r = cbx_landlock_allow(ret, e->init_fd, CBX_LANDLOCK_READ | CBX_LANDLOCK_EXECUTE, "codebox-init",
				    err)) < 0)
		return r;
	if (!strict &&
	    (r = cbx_landlock_allow_at(ret, root, "/dev/mqueue", CBX_LANDLOCK_CHANGE | CBX_LANDLOCK_READ, err)) < 0)
		return r;
	for (uint32_t i = 0; i < e->plan->nmounts; i++) {
		const struct cbx_plan_mount *m = &e->plan->mounts[i];

		if (m->writable && (r = cbx_landlock_allow_at(ret, root, m->target, CBX_LANDLOCK_CHANGE, err)) < 0)
			return r;
	}
	r = cbx_send_fds(report, "r", 1, &ret->fd, 1);
	return r < 0 ? cbx_fail(err, -r, "hand over the Landlock ruleset") : 0;
}

static int become_init(struct entry *e, int *report, struct cbx_err *err)
{
	const char *const argv[] = { "codebox-init", NULL };
	const char *const envp[] = { NULL };
	struct cbx_landlock ruleset;
	int r, step, null = open("/dev/null", O_RDWR), from[CBX_FDS_MAX], to[CBX_FDS_MAX] = { 0, 1, 2, CBX_INIT_SOCKET };
	int *needed[] = { &e->init_fd, &ruleset.fd, report }, placed[ARRAY_SIZE(needed)];
	size_t n = 4;

	r = make_ruleset(e, *report, &ruleset, err);
	if (r < 0)
		return r;
	if (null < 0)
		return cbx_fail(err, errno, "open /dev/null");
	from[0] = from[1] = from[2] = null;
	from[3] = e->init_sock;
	/* A failure on the way is reported where nothing is placed. */
	r = fcntl(*report, F_DUPFD_CLOEXEC, 2 * CBX_FDS_MAX);
	if (r < 0)
		return cbx_fail(err, errno, "keep the way to report");
	*report = r;
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) { /* until the exec; where they are, the others may be placed */
		placed[i] = *needed[i];
		if (placed[i] < 0)
			continue;
		from[n] = placed[i];
		to[n] = (int)n;
		placed[i] = (int)n++;
	}
	r = cbx_place_fds(from, to, n);
	if (r < 0)
		return cbx_fail(err, -r, "place init's descriptors");
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		*needed[i] = placed[i];
	if (cbx_close_range(CBX_INIT_SOCKET + 1, ~0u, CBX_CLOSE_RANGE_CLOEXEC) < 0)
		return cbx_fail(err, errno, "close descriptors");
	r = cbx_lockdown(e->lockdown, ruleset.fd, &step);
	if (r < 0)
		return cbx_fail(err, -r, "%s", cbx_lockdown_step_name(step));
	if (e->program) {
		execve(e->program->argv[0], e->program->argv, e->program->envp);
		return cbx_fail(err, errno, "execute %s", e->program->argv[0]);
	}
	syscall(SYS_execveat, e->init_fd, "", argv, envp, AT_EMPTY_PATH);
	return cbx_fail(err, errno, "execute codebox-init");
}

static int enter(struct entry *e, int *report, struct cbx_err *err)
{
	int r;

	if ((r = leave_supervisor(e, err)) < 0 || (r = open_layers(e, err)) < 0 || (r = await_go(*report, err)) < 0 ||
	    (r = become_user(e, err)) < 0)
		return r;
	if ((r = cbx_mount_all_private(err)) < 0 || (r = mount_store(e, err)) < 0 || (r = mount_root(e, err)) < 0)
		return r;
	if ((r = mount_work_areas(e, err)) < 0 || (r = mount_dev(e, err)) < 0 ||
	    (r = mount_runtimes(e, err)) < 0 || (r = mount_host(e, err)) < 0)
		return r;
	if (e->watched && (r = cbx_handed_send(*report, e->shm, err)) < 0)
		return r;
	if (e->way && (r = cbx_route_await(e->way, err)) < 0)
		return r;
	r = e->program ? mount_zygote(e, err) : cbx_procfs_mount(e->root, e->store, e->outer, e->plan, err);
	if (r < 0)
		return r;
	if ((r = cbx_mount_pivot(e->root, err)) < 0 || (r = enter_workspace(err)) < 0)
		return r;
	return become_init(e, report, err);
}

/* The cloned process. Does not return. */
static void child(const struct cbx_outer *outer, const struct cbx_plan *plan, const struct cbx_lockdown *lockdown,
		  const struct cbx_program *program, int init_sock, int door, struct cbx_route *way, int host, bool watched,
		  int report)
{
	struct entry e = { .outer = outer, .plan = plan, .lockdown = lockdown, .program = program,
			   .init_sock = init_sock, .door = door, .way = way, .host = host, .store = -1, .root = -1, .shm = -1,
			   .watched = watched };
	struct cbx_err err = { 0 };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
	enter(&e, &report, &err);
	(void)cbx_write_all(report, &err, sizeof(err));
	_exit(1);
}

int cbx_sandbox_start(const struct cbx_outer *outer, const struct cbx_plan *plan, uint32_t outer_id, int init_sock,
		      int door, int cgroup, const struct cbx_program *program, struct cbx_starting *ret, struct cbx_err *err)
{
	_cleanup_fd_ int ours = -1, theirs = -1, pidfd = -1, host = -1;
	_cleanup_(cbx_route_release) struct cbx_route way = CBX_ROUTE_NONE;
	bool open = plan->flags & CBX_PLAN_OPEN && !program;
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
			 CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	struct cbx_lockdown lockdown;
	int pair[2], r;
	pid_t pid;

	if (cgroup >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup;
	}
	r = cbx_plan_check(plan, err);
	if (r == 0)
		r = cbx_lockdown_prepare(outer, plan, &lockdown, err);
	if (r == 0 && program) {
		args.flags &= ~(uint64_t)(CLONE_NEWUSER | CLONE_NEWPID);
		r = cbx_lockdown_for_zygote(outer, &lockdown, err);
	}
	if (r == 0 && plan->nmounts)
		r = host = cbx_host_open(outer->host_ns, plan, &ret->opener, err);
	if (r >= 0 && open)
		r = cbx_route_prepare(&way, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make the report socket");
	ours = pair[0];
	theirs = pair[1];
	pid = cbx_clone3(&args);
	if (pid < 0)
		return cbx_fail(err, errno, "make the sandbox's namespaces");
	if (pid == 0)
		child(outer, plan, &lockdown, program, init_sock, door, open ? &way : NULL, host, !program && cgroup < 0, theirs);
	r = program ? 0 : cbx_ids_write_sandbox(pid, outer_id, err);
	if (r == 0 && open)
		r = cbx_route_start(&way, plan, pid, &ret->route, err);
	if (r == 0)
		r = cbx_write_all(ours, "g", 1) < 0 ? cbx_refuse(err, "sandbox", EPIPE, "the sandbox died at its start")
						    : 0;
	if (r < 0) {
		struct cbx_handed none = CBX_HANDED_NONE;

		cbx_pidfd_send_signal(pidfd, SIGKILL);
		waitid(P_PID, (id_t)pid, NULL, WEXITED);
		/* It may have failed before, and said at what. */
		cbx_close_p(&theirs);
		while (cbx_sandbox_report(ours, &none, err) > 0)
			;
		cbx_handed_release(&none);
		return -err->code;
	}
	ret->pid = pid;
	ret->pidfd = take_fd(&pidfd);
	ret->report = take_fd(&ours);
	return 0;
}
