/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the machine's set-up must give: control groups, ids, directories, programs, images and
 * room. As root, files are looked at as the service id, since that is who will need them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/fd.h"
#include "base/str.h"
#include "cgroup/parse.h"
#include "cgroup/tree.h"
#include "doctor/check.h"
#include "sandbox/ids.h"
#include "sandbox/outer.h"
#include "image/store.h"

#define DISK_WANTED   (3 * GIB(1)) /* the default image, and room to build it */
#define MEMORY_WANTED (uint64_t) MIB(512)

/* Run by a probe, so as the service id: the first path that cannot be used so is reported by its place. */
struct wanted {
	const char *path;
	int mode;
};

static void probe_access(void *arg, struct cbx_probe_report *report)
{
	const struct wanted *w = arg;

	for (; w->path; w++, report->stage++) {
		if (access(w->path, w->mode) < 0) {
			report->code = errno;
			return;
		}
	}
}

static bool usable(const struct cbx_doctor *d, const struct wanted *w, struct cbx_probe_report *ret)
{
	return cbx_probe_run(&d->service, probe_access, (void *)w, ret) == 0 && ret->done && ret->code == 0;
}

/* ---- control groups ---- */

static const char cgroup_means[] =
	"A watcher adds up the memory that a session's processes use, with their page tables, sockets and /dev/shm: for a "
	"moment more can be used, and memfds and System V segments that nothing maps, and pipes, are not counted. "
	"Sandboxes work, but not those with cgroup: required.";

static const char group_means[] =
	"The kernel limits each session as a whole; limits.backend of codebox session info says what is in force.";

static const char unify_remedy[] =
	"Boot with systemd.unified_cgroup_hierarchy=1. Debian, Ubuntu: add it to GRUB_CMDLINE_LINUX in "
	"/etc/default/grub, then sudo update-grub. Fedora: sudo grubby --update-kernel=ALL "
	"--args=systemd.unified_cgroup_hierarchy=1. Then reboot. In a container it is the host that must do this.";

static const char container_remedy[] =
	"Give the container a tree of its own that it may write to: podman run --systemd=always; docker run "
	"--cgroupns=private --privileged; incus config set NAME security.nesting=true. Without systemd in it, start "
	"codeboxd in a group in which nothing else runs.";

static const char login_remedy[] =
	"Log in by ssh or at the console (su and sudo start no manager), or: sudo loginctl enable-linger $USER. "
	"Debian, Ubuntu: sudo apt install dbus-user-session libpam-systemd, where they are missing.";

static const char delegate_remedy[] =
	"sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu memory pids io\\n' | "
	"sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload, then log in "
	"anew. (Debian 12, Ubuntu 24.04 and Fedora delegate them from the start.)";

static bool in_container(void)
{
	static const char *const signs[] = { "/run/.containerenv", "/.dockerenv", "/run/systemd/container" };

	for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
		if (access(signs[i], F_OK) == 0)
			return true;
	return false;
}

/* Controllers of a directory of the tree; 0 when it is not there. */
static unsigned controllers_of(const char *dir)
{
	char path[800], list[300];

	snprintf(path, sizeof(path), "%.700s/cgroup.controllers", dir);
	return cbx_read_line(AT_FDCWD, path, list, sizeof(list)) >= 0 ? cbx_cgroup_parse_controllers(list, strlen(list)) : 0;
}

static bool enough(unsigned controllers)
{
	return (controllers & CBX_CONTROLLER_MEMORY) && (controllers & CBX_CONTROLLER_PIDS);
}

static void group_found(struct cbx_result *r, const char *whose, unsigned controllers)
{
	char found[256];

	snprintf(found, sizeof(found), "version 2; %s%s%s", whose,
		 controllers & CBX_CONTROLLER_CPU ? "" : ", without the cpu controller: cpus cannot be limited",
		 controllers & CBX_CONTROLLER_IO ? "" : ", without the io controller: io cannot be limited");
	cbx_result_set(r, CBX_CHECK_OK, found, group_means, "");
}

/* systemd runs: it gives codeboxd a scope or a unit of its own, from the user's manager or, for root, the system's. */
static void check_manager(const struct cbx_doctor *d, struct cbx_result *r)
{
	char dir[200] = "/sys/fs/cgroup";
	unsigned have;

	if (!d->service.from_root)
		snprintf(dir, sizeof(dir), "/sys/fs/cgroup/user.slice/user-%u.slice/user@%u.service",
			 (unsigned)d->service.uid, (unsigned)d->service.uid);
	have = controllers_of(dir);
	if (enough(have))
		group_found(r,
			    d->service.from_root ? "systemd gives codeboxd a unit or a scope" :
						   "the user's systemd gives codeboxd a delegated scope",
			    have);
	else if (access(dir, F_OK) < 0)
		cbx_result_set(r, CBX_CHECK_DEGRADED, "systemd manages no processes of this user, so none is delegated",
			       cgroup_means, login_remedy);
	else
		cbx_result_set(r, CBX_CHECK_DEGRADED, "systemd delegates no memory and process limits to this user",
			       cgroup_means, in_container() ? container_remedy : delegate_remedy);
}

/* Nobody manages the tree; codeboxd uses the group that it is started in. */
static void check_own_group(const struct cbx_doctor *d, const char *dir, struct cbx_result *r)
{
	char procs[800], control[800];
	struct wanted w[] = { { dir, W_OK }, { procs, W_OK }, { control, W_OK }, { NULL, 0 } };
	struct cbx_probe_report p;
	unsigned have = controllers_of(dir);

	snprintf(procs, sizeof(procs), "%.700s/cgroup.procs", dir);
	snprintf(control, sizeof(control), "%.700s/cgroup.subtree_control", dir);
	if (!(d->service.from_root ? access(procs, W_OK) == 0 : usable(d, w, &p)))
		cbx_result_set(r, CBX_CHECK_DEGRADED,
			       "our own may not be written to, and no systemd runs that gives another", cgroup_means,
			       container_remedy);
	else if (!enough(have))
		cbx_result_set(r, CBX_CHECK_DEGRADED, "our own has no memory and process limits", cgroup_means,
			       container_remedy);
	else
		group_found(r, "our own is ours to use", have);
}

void cbx_check_cgroup(struct cbx_doctor *d, struct cbx_result *r)
{
	struct cbx_service anybody = { .uid = d->service.uid, .gid = d->service.gid };
	struct cbx_err err = { 0 };
	struct statfs fs;
	char dir[700];

	if (statfs("/sys/fs/cgroup", &fs) < 0 || (fs.f_type != CGROUP2_SUPER_MAGIC && fs.f_type != TMPFS_MAGIC))
		cbx_result_set(r, CBX_CHECK_DEGRADED, "none are mounted at /sys/fs/cgroup", cgroup_means,
			       in_container() ? container_remedy :
						"sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup, or use a distribution "
						"with systemd.");
	else if (fs.f_type == TMPFS_MAGIC)
		cbx_result_set(r, CBX_CHECK_DEGRADED, "version 1, or both versions mixed", cgroup_means, unify_remedy);
	else if (access("/run/systemd/system", F_OK) == 0)
		check_manager(d, r);
	else if (cbx_cgroup_tree_find(&anybody, dir, sizeof(dir), &err) < 0)
		cbx_result_set(r, CBX_CHECK_DEGRADED, err.msg, cgroup_means, container_remedy);
	else
		check_own_group(d, dir, r);
}

/* ---- ids ---- */

static bool listed(const char *path, uid_t uid, const char *name)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[300], number[16];

	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, ":\n")] = '\0';
		if (strcmp(line, number) == 0 || (name && strcmp(line, name) == 0))
			return true;
	}
	return false;
}

static bool in_path(const char *program)
{
	static const char *const dirs[] = { "/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		_cleanup_free_ char *path = cbx_xasprintf("%s/%s", dirs[i], program);

		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

void cbx_check_subids(struct cbx_doctor *d, struct cbx_result *r)
{
	static const char means[] =
		"Sandboxes run with your own id, apart by namespaces only; with a range each has its own.";
	struct passwd *pw = getpwuid(d->service.uid);
	const char *name = pw ? pw->pw_name : NULL;
	char remedy[300];

	if (d->service.from_root) {
		struct cbx_ids ids;

		cbx_ids_find(d->service.uid, d->service.gid, &ids);
		if (!ids.count) {
			snprintf(remedy, sizeof(remedy),
				 "Give the outer container more ids, or list a range that it has for user %.60s in "
				 "/etc/subuid and /etc/subgid, as \"%.60s:30000:20000\".",
				 name ? name : "codebox", name ? name : "codebox");
			cbx_result_set(r, CBX_CHECK_DEGRADED, "none: this is the root of a container with few ids",
				       "Sandboxes run with one id, apart by namespaces only; with a range each has its own.",
				       remedy);
			return;
		}
		cbx_result_set(r, CBX_CHECK_OK, "root gives sandboxes a range of ids of their own",
			       "Each sandbox has an id that nothing else has.", "");
		return;
	}
	if (!in_path("newuidmap") || !in_path("newgidmap")) {
		cbx_result_set(r, CBX_CHECK_DEGRADED, "newuidmap and newgidmap are not installed", means,
			       "Debian, Ubuntu: sudo apt install uidmap. Fedora: sudo dnf install shadow-utils.");
	} else if (!listed("/etc/subuid", d->service.uid, name) || !listed("/etc/subgid", d->service.uid, name)) {
		snprintf(remedy, sizeof(remedy),
			 "sudo usermod --add-subuids 1000000-1065535 --add-subgids 1000000-1065535 %.60s",
			 name ? name : "$USER");
		cbx_result_set(r, CBX_CHECK_DEGRADED, "none in /etc/subuid and /etc/subgid", means, remedy);
	} else {
		cbx_result_set(r, CBX_CHECK_OK, "a range in /etc/subuid and /etc/subgid",
			       "Sandboxes can have several ids.", "");
	}
}

void cbx_check_service(struct cbx_doctor *d, struct cbx_result *r)
{
	struct passwd *pw = getpwuid(d->service.uid);
	char found[200];

	if (!d->service.from_root) {
		snprintf(found, sizeof(found), "you, user %u", (unsigned)d->service.uid);
		cbx_result_set(r, CBX_CHECK_OK, found, "The daemon and all sandboxes run as you.", "");
		return;
	}
	snprintf(found, sizeof(found), "user %u (%.60s), not root", (unsigned)d->service.uid,
		 pw ? pw->pw_name : "no account has this number");
	cbx_result_set(r, CBX_CHECK_OK, found,
		       "Started by root, the daemon gives root up for this id before it does anything. With an account "
		       "\"codebox\" it is that one.",
		       "");
}

/* ---- directories and programs ---- */

void cbx_check_runtime(struct cbx_doctor *d, struct cbx_result *r)
{
	struct wanted w[] = { { d->dirs->runtime, R_OK | W_OK | X_OK }, { NULL, 0 } };
	struct cbx_probe_report p = { 0 };
	struct cbx_err err = { 0 };

	if (cbx_service_make_dir(&d->service, d->dirs->runtime, 0700, &err) == 0 && !usable(d, w, &p))
		cbx_fail(&err, p.code ? p.code : EIO, "use %s", d->dirs->runtime);
	if (!err.code)
		cbx_result_set(r, CBX_CHECK_OK, d->dirs->runtime, "The daemon's sockets are there.", "");
	else
		cbx_result_set(
			r, CBX_CHECK_FAILED, err.msg, "The daemon has no place for its sockets.",
			"Set CODEBOX_RUNTIME_DIR to a directory that belongs to you, such as ~/.codebox-run.");
}

void cbx_check_helpers(struct cbx_doctor *d, struct cbx_result *r)
{
	_cleanup_free_ char *supervisor = cbx_xasprintf("%s/codebox-supervisor", d->dirs->libexec);
	_cleanup_free_ char *init = cbx_xasprintf("%s/codebox-init", d->dirs->libexec);
	_cleanup_free_ char *driver = cbx_xasprintf("%s/runtimes/python/driver.py", d->dirs->share);
	_cleanup_free_ char *calls = cbx_xasprintf("%s/syscalls/default", d->dirs->share);
	struct wanted w[] = { { supervisor, X_OK }, { init, X_OK }, { driver, R_OK }, { calls, R_OK }, { NULL, 0 } };
	struct cbx_probe_report p;
	char found[256];

	if (usable(d, w, &p)) {
		cbx_result_set(r, CBX_CHECK_OK, "supervisor, init, driver and system call lists are there",
			       "The installation is complete.", "");
		return;
	}
	snprintf(found, sizeof(found), "%.150s: %s", p.done ? w[p.stage].path : d->dirs->libexec,
		 p.done ? strerror(p.code) : "cannot be looked at");
	if (p.done && p.code == EACCES && d->service.from_root)
		cbx_result_set(r, CBX_CHECK_FAILED, found, "Root's daemon runs as another user, who cannot get there.",
			       "Install codebox where everybody can read it: ./configure --prefix=/usr/local && sudo "
			       "make install");
	else
		cbx_result_set(r, CBX_CHECK_FAILED, found, "The installation is not complete.",
			       "Install codebox again: sudo make install, or the distribution's package.");
}

/* ---- images and room ---- */

static const char image_remedy[] = "codebox image build python downloads it (Debian packages); codebox image build "
				   "host uses this machine's own /usr, "
				   "without a download.";

void cbx_check_images(struct cbx_doctor *d, struct cbx_result *r)
{
	_cleanup_json_ cJSON *images = NULL;
	_cleanup_buf_ struct cbx_buf names = { 0 };
	bool python = false, damaged = false;
	struct cbx_err err;
	const cJSON *i;

	if (cbx_image_list(d->dirs->images, &images, &err) < 0) {
		cbx_result_set(r, CBX_CHECK_FAILED, err.msg, "The image store cannot be read.", image_remedy);
		return;
	}
	cJSON_ArrayForEach(i, images) {
		const cJSON *name = cbx_json_member(i, "name");
		bool bad = cbx_json_member(i, "damaged") != NULL;

		if (!cJSON_IsString(name))
			continue;
		cbx_buf_addf(&names, "%s%s%s", names.len ? ", " : "", name->valuestring, bad ? " (damaged)" : "");
		damaged |= bad;
		python |= !bad && strcmp(name->valuestring, "python") == 0;
	}
	if (python && !damaged)
		cbx_result_set(r, CBX_CHECK_OK, names.data, "The default image, python, is there.", "");
	else if (python)
		cbx_result_set(r, CBX_CHECK_DEGRADED, names.data, "An image other than the default one is damaged.",
			       "codebox image rm NAME, then codebox image build NAME.");
	else if (names.len)
		cbx_result_set(r, CBX_CHECK_DEGRADED, names.data,
			       "The default image, python, is not there; others work with --image.", image_remedy);
	else
		cbx_result_set(r, CBX_CHECK_FAILED, "there are none", "A sandbox needs an image to run.", image_remedy);
}

void cbx_check_disk(struct cbx_doctor *d, struct cbx_result *r)
{
	_cleanup_free_ char *path = cbx_xstrdup(d->dirs->images);
	struct statvfs fs;
	char size[32], found[200];
	uint64_t room;

	while (statvfs(path, &fs) < 0 && strrchr(path, '/') > path)
		*strrchr(path, '/') = '\0';
	if (statvfs(path, &fs) < 0) {
		cbx_result_set(r, CBX_CHECK_DEGRADED, "the room for images is not known",
			       "The store's directory is missing.", "Set CODEBOX_DATA_DIR to a directory that exists.");
		return;
	}
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	cbx_format_size(room, size);
	snprintf(found, sizeof(found), "%s free for %.120s", size, d->dirs->images);
	if (room >= DISK_WANTED)
		cbx_result_set(r, CBX_CHECK_OK, found, "Enough to build the default image.", "");
	else
		cbx_result_set(
			r, CBX_CHECK_DEGRADED, found, "Building the default image takes about 3 GiB at its peak.",
			"Free some room, or set CODEBOX_DATA_DIR to a directory on a larger disk; codebox image build "
			"python-minimal and host need less.");
}

void cbx_check_memory(struct cbx_doctor *d, struct cbx_result *r)
{
	char text[4096], size[32], found[200];
	unsigned long long kib = 0;
	const char *line = cbx_read_line(AT_FDCWD, "/proc/meminfo", text, sizeof(text)) >= 0 ? strstr(text, "MemAvailable:") : NULL;

	if (!line || sscanf(line, "MemAvailable: %llu kB", &kib) != 1) {
		cbx_result_set(r, CBX_CHECK_DEGRADED, "not known", "/proc/meminfo cannot be read.", "Mount /proc.");
		return;
	}
	cbx_format_size(kib * 1024, size);
	snprintf(found, sizeof(found), "%s available", size);
	if (kib * 1024 >= MEMORY_WANTED)
		cbx_result_set(r, CBX_CHECK_OK, found, "A session's files are held in memory, too.", "");
	else
		cbx_result_set(r, CBX_CHECK_DEGRADED, found,
			       "pandas and the like may not fit; files of a session are held in "
			       "memory, too.",
			       "End other programs, or add swap space.");
}

/* Nothing is amiss where it is not there: no shipped policy asks for it. */
void cbx_check_open_network(struct cbx_doctor *d, struct cbx_result *r)
{
	static const char needs[] = "Sessions cannot have the policy's network \"open\"; for that";
	bool pasta = access(CBX_OUTER_PASTA, X_OK) == 0, tun = access("/dev/net/tun", R_OK | W_OK) == 0;
	_cleanup_free_ char *means = cbx_xasprintf("%s %s%s%s.", needs, pasta ? "" : "install pasta (Debian: apt install passt)",
						   pasta || tun ? "" : ", and ", tun ? "" : "give /dev/net/tun the mode 0666");

	if (pasta && tun)
		cbx_result_set(r, CBX_CHECK_OK, "pasta is installed",
			       "Sessions can have the policy's network \"open\"; none has it unless the policy says so.", "");
	else
		cbx_result_set(r, CBX_CHECK_OK, pasta ? "optional, and not there: /dev/net/tun cannot be opened"
						       : "optional, and not there: pasta is not installed",
			       means, "");
}

void cbx_check_apt(struct cbx_doctor *d, struct cbx_result *r)
{
	if (in_path("apt-get"))
		cbx_result_set(r, CBX_CHECK_OK, "apt-get is there", "Images of Debian packages can be built.", "");
	else
		cbx_result_set(r, CBX_CHECK_DEGRADED, "apt-get is not installed",
			       "Images of Debian packages cannot be built here.",
			       "codebox image build host uses this machine's own Python. Fedora also has it: sudo dnf "
			       "install apt.");
}
