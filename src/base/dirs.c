/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* A directory from the environment counts only when it is absolute, as the XDG specification asks. */
static char *from_env(const char *name, const char *suffix)
{
	const char *v = getenv(name);

	return v && v[0] == '/' ? cbx_xasprintf("%s%s", v, suffix) : NULL;
}

static char *home_dir(void)
{
	const char *home = getenv("HOME");
	struct passwd *pw;

	if (home && home[0] == '/')
		return cbx_xstrdup(home);
	pw = getpwuid(geteuid());
	return cbx_xstrdup(pw && pw->pw_dir && pw->pw_dir[0] == '/' ? pw->pw_dir : "/nonexistent");
}

static char *user_dir(const char *override, const char *xdg, const char *home, const char *below)
{
	char *d = from_env(override, "");

	if (!d)
		d = from_env(xdg, "/codebox");
	return d ? d : cbx_xasprintf("%s/%s/codebox", home, below);
}

/*
 * Anybody can be first at a name in /tmp. Then a directory below the home is used, and from then on, whatever becomes of
 * the one in /tmp: that it exists is what the daemon and all clients go by.
 */
static char *tmp_or_home(const char *home)
{
	_cleanup_free_ char *tmp = cbx_xasprintf("/tmp/codebox-%u", (unsigned)geteuid());
	_cleanup_free_ char *own = cbx_xasprintf("%s/.local/state/codebox/run", home);
	struct stat st;
	bool taken = lstat(tmp, &st) == 0 && !(S_ISDIR(st.st_mode) && st.st_uid == geteuid());
	bool moved = lstat(own, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();

	return taken || moved ? take_ptr(&own) : take_ptr(&tmp);
}

static char *runtime_dir(const char *home)
{
	char *d = from_env("CODEBOX_RUNTIME_DIR", "");
	struct stat st;

	if (d)
		return d;
	if (geteuid() == 0)
		return cbx_xstrdup("/run/codebox");
	d = from_env("XDG_RUNTIME_DIR", "/codebox");
	if (d)
		return d;
	d = cbx_xasprintf("/run/user/%u", (unsigned)geteuid());
	if (stat(d, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid()) {
		char *full = cbx_xasprintf("%s/codebox", d);

		free(d);
		return full;
	}
	free(d);
	return tmp_or_home(home);
}

int cbx_dirs_init(struct cbx_dirs *dirs, struct cbx_err *err)
{
	bool root = geteuid() == 0;
	_cleanup_free_ char *home = home_dir();

	memset(dirs, 0, sizeof(*dirs));
	dirs->runtime = runtime_dir(home);
	dirs->data = root ? from_env("CODEBOX_DATA_DIR", "")
			  : user_dir("CODEBOX_DATA_DIR", "XDG_DATA_HOME", home, ".local/share");
	dirs->state = root ? from_env("CODEBOX_STATE_DIR", "")
			   : user_dir("CODEBOX_STATE_DIR", "XDG_STATE_HOME", home, ".local/state");
	dirs->config = root ? from_env("CODEBOX_CONFIG_DIR", "")
			    : user_dir("CODEBOX_CONFIG_DIR", "XDG_CONFIG_HOME", home, ".config");
	if (!dirs->config)
		dirs->config = cbx_xstrdup("/etc/codebox");
	if (!dirs->data)
		dirs->data = cbx_xstrdup("/var/lib/codebox");
	if (!dirs->state)
		dirs->state = cbx_xstrdup("/var/log/codebox");
	dirs->images = cbx_xasprintf("%s/images", dirs->data);
	dirs->libexec = from_env("CODEBOX_LIBEXEC_DIR", "");
	if (!dirs->libexec)
		dirs->libexec = cbx_xstrdup(CBX_LIBEXEC_DIR);
	dirs->share = from_env("CODEBOX_SHARE_DIR", "");
	if (!dirs->share)
		dirs->share = cbx_xstrdup(CBX_SHARE_DIR);
	if (strlen(dirs->runtime) > 80) { /* sun_path has room for 107 bytes */
		int r = cbx_refuse(err, "invalid_argument", ENAMETOOLONG,
				   "the run-time directory %s is too long for a socket's name; set CODEBOX_RUNTIME_DIR",
				   dirs->runtime);

		cbx_dirs_release(dirs);
		return r;
	}
	return 0;
}

void cbx_dirs_release(struct cbx_dirs *dirs)
{
	free(dirs->runtime);
	free(dirs->data);
	free(dirs->images);
	free(dirs->state);
	free(dirs->config);
	free(dirs->libexec);
	free(dirs->share);
	memset(dirs, 0, sizeof(*dirs));
}

static int make_parents(const char *path, struct cbx_err *err)
{
	_cleanup_free_ char *p = cbx_xstrdup(path);

	for (char *slash = strchr(p + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(p, 0755) < 0 && errno != EEXIST) {
			int code = errno;
			struct stat st;

			/* A read-only file system says EROFS for what is there already. */
			if (stat(p, &st) < 0 || !S_ISDIR(st.st_mode))
				return cbx_fail(err, code, "make directory %s", p);
		}
		*slash = '/';
	}
	return 0;
}

/* A descriptor of the directory. Once there is one, nothing is done by the name: a directory above it may be the service
 * id's, and that could put a link in its place while root is at work. */
static int open_owned(const char *path, mode_t mode, uid_t owner, bool or_root, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return cbx_refuse(err, "unsafe_directory", ENOTDIR, "%s is not a directory; remove it", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "look at directory %s", path);
	if (st.st_uid == CBX_SERVICE_RANGE && geteuid() == 0 && owner != CBX_SERVICE_RANGE)
		return cbx_refuse(err, "unsafe_directory", EPERM,
				  "%s was made before there was an account \"codebox\"; give it over: codebox stop; "
				  "chown -Rh --from=%u codebox %s",
				  path, CBX_SERVICE_RANGE, path);
	if (st.st_uid != geteuid() && st.st_uid != owner && !(or_root && st.st_uid == 0))
		return cbx_refuse(err, "unsafe_directory", EPERM,
				  "%s belongs to user %u, not to user %u; remove it or set CODEBOX_RUNTIME_DIR", path,
				  (unsigned)st.st_uid, (unsigned)owner);
	if ((st.st_mode & 022) && fchmod(fd, mode) < 0)
		return cbx_fail(err, errno, "%s is writable by others, and its mode cannot be changed", path);
	return take_fd(&fd);
}

static int make_owned(const char *path, mode_t mode, uid_t owner, struct cbx_err *err)
{
	struct stat st;
	int r = make_parents(path, err);

	if (r < 0)
		return r;
	if (mkdir(path, mode) < 0 && errno != EEXIST) {
		int code = errno;

		if (lstat(path, &st) < 0)
			return cbx_fail(err, code, "make directory %s", path);
	}
	return open_owned(path, mode, owner, false, err);
}

int cbx_dirs_make_private(const char *path, mode_t mode, struct cbx_err *err)
{
	_cleanup_fd_ int fd = make_owned(path, mode, geteuid(), err);

	return fd < 0 ? fd : 0;
}

bool cbx_ids_are_mapped(const char *map, uint32_t first, uint32_t count)
{
	_cleanup_fclose_ FILE *f = fopen(map, "re");
	uint32_t inside, outside, n;

	/* A kernel without user namespaces has all of them. */
	if (!f)
		return true;
	while (fscanf(f, "%" SCNu32 " %" SCNu32 " %" SCNu32, &inside, &outside, &n) == 3)
		if (first >= inside && first - inside < n && count <= n - (first - inside))
			return true;
	return false;
}

int cbx_service_init(struct cbx_service *s, struct cbx_err *err)
{
	struct passwd *pw;

	memset(s, 0, sizeof(*s));
	if (getuid() != geteuid() || getgid() != getegid())
		return cbx_refuse(
			err, "unsafe_start", EPERM,
			"codebox is installed setuid or setgid, which it refuses; remove these bits: chmod ug-s");
	s->uid = geteuid();
	s->gid = getegid();
	if (s->uid != 0)
		return 0;
	s->from_root = 1;
	pw = getpwnam("codebox");
	if (pw && pw->pw_uid != 0 && pw->pw_gid != 0) {
		s->uid = pw->pw_uid;
		s->gid = pw->pw_gid;
		return 0;
	}
	if (!cbx_ids_are_mapped("/proc/self/uid_map", CBX_SERVICE_RANGE, 1) ||
	    !cbx_ids_are_mapped("/proc/self/gid_map", CBX_SERVICE_RANGE, 1))
		return cbx_refuse(err, "no_service_id", EINVAL,
				  "root gives itself up for another user, and this container has neither the id %u nor an "
				  "account \"codebox\"; make one: useradd --system --user-group codebox",
				  CBX_SERVICE_RANGE);
	s->uid = CBX_SERVICE_RANGE;
	s->gid = CBX_SERVICE_RANGE;
	return 0;
}

int cbx_service_become(const struct cbx_service *s, struct cbx_err *err)
{
	cap_t none;
	int r;

	if (s->from_root) {
		if (setgroups(0, NULL) < 0)
			return cbx_fail(err, errno, "drop supplementary groups");
		if (setresgid(s->gid, s->gid, s->gid) < 0)
			return cbx_fail(err, errno, "become group %u", (unsigned)s->gid);
		if (setresuid(s->uid, s->uid, s->uid) < 0)
			return cbx_fail(err, errno, "become user %u", (unsigned)s->uid);
		if (setuid(0) == 0)
			return cbx_refuse(err, "unsafe_start", EPERM, "root could be regained after giving it up");
	}
	none = cap_init();
	if (!none)
		return cbx_fail(err, errno, "make an empty capability set");
	r = cap_set_proc(none);
	cap_free(none);
	if (r < 0)
		return cbx_fail(err, errno, "drop capabilities");
	return 0;
}

int cbx_service_make_dir(const struct cbx_service *s, const char *path, mode_t mode, struct cbx_err *err)
{
	_cleanup_fd_ int fd = make_owned(path, mode, s->uid, err);

	if (fd < 0 || !s->from_root)
		return fd < 0 ? fd : 0;
	/* Root's own group keeps access: a process that is still user 0, but in a user namespace without root's power,
	 * has to reach the image store and the files of an installation below root's home alike. */
	if (fchown(fd, s->uid, 0) < 0 || fchmod(fd, mode | 0050) < 0)
		return cbx_fail(err, errno, "give %s to user %u", path, (unsigned)s->uid);
	return 0;
}

int cbx_service_open_dir(const struct cbx_service *s, const char *path, struct cbx_err *err)
{
	return open_owned(path, s->from_root ? 0750 : 0700, s->uid, true, err);
}

int cbx_service_open_lock(const struct cbx_service *s, const char *dir, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/lock", dir);
	_cleanup_fd_ int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0)
		return cbx_fail(err, errno, "open %s", path);
	if (fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "look at %s", path);
	if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
		return cbx_refuse(err, "unsafe_directory", EINVAL, "%s is not a lock file; remove it", path);
	if (s->from_root && st.st_uid != s->uid && fchown(fd, s->uid, s->gid) < 0)
		return cbx_fail(err, errno, "give %s to user %u", path, (unsigned)s->uid);
	return take_fd(&fd);
}

int cbx_service_give_socket(const struct cbx_service *s, const char *path, struct cbx_err *err)
{
	_cleanup_fd_ int fd = -1;
	struct stat st;

	if (!s->from_root)
		return 0;
	fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "look at %s", path);
	if (!S_ISSOCK(st.st_mode) || st.st_uid != 0 || st.st_nlink > 1)
		return cbx_refuse(err, "unsafe_directory", EPERM, "%s was replaced while it was made; try again", path);
	if (fchownat(fd, "", s->uid, s->gid, AT_EMPTY_PATH) < 0)
		return cbx_fail(err, errno, "give %s to user %u", path, (unsigned)s->uid);
	return 0;
}
