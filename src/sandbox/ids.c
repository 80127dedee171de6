/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/plan.h"

#define RANGE_MIN 64      /* a smaller range is not worth a setuid helper */
#define RANGE_MAX 65535   /* ids that we use of a larger one */

/* First line "name:first:count" of a subordinate id file for this user, by name or by number. */
static int find_range(const char *path, const char *name, uid_t uid, uint32_t *ret_first, uint32_t *ret_count)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[256], number[16];

	if (!f)
		return 0;
	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	while (fgets(line, sizeof(line), f)) {
		char *save = NULL, *who = strtok_r(line, ":\n", &save);
		char *first = strtok_r(NULL, ":\n", &save), *count = strtok_r(NULL, ":\n", &save);
		struct cbx_err ignored;
		uint64_t a, n;

		if (!who || !first || !count || (strcmp(who, number) != 0 && (!name || strcmp(who, name) != 0)))
			continue;
		if (cbx_parse_u64(first, "first", 1, UINT32_MAX - 1, &a, &ignored) < 0 ||
		    cbx_parse_u64(count, "count", RANGE_MIN, UINT32_MAX - a, &n, &ignored) < 0)
			continue;
		*ret_first = (uint32_t)a;
		*ret_count = n > RANGE_MAX ? RANGE_MAX : (uint32_t)n;
		return 1;
	}
	return 0;
}

void cbx_ids_find(uid_t service_uid, gid_t service_gid, struct cbx_ids *ret)
{
	struct passwd *pw = getpwuid(service_uid);
	const char *name = pw ? pw->pw_name : NULL;
	uint32_t uids = 0, gids = 0;

	memset(ret, 0, sizeof(*ret));
	ret->uid = service_uid;
	ret->gid = service_gid;
	ret->from_root = geteuid() == 0;
	if (find_range("/etc/subuid", name, service_uid, &ret->first_uid, &uids) &&
	    find_range("/etc/subgid", name, service_uid, &ret->first_gid, &gids)) {
		ret->count = uids < gids ? uids : gids;
	} else if (ret->from_root) {
		/* The service id itself may be the range's first. */
		ret->first_uid = CBX_SERVICE_RANGE + 1;
		ret->first_gid = CBX_SERVICE_RANGE + 1;
		ret->count = RANGE_MAX;
	}
	/* Root of a container may have fewer ids than are listed, or than there are. */
	if (ret->from_root && (!cbx_ids_are_mapped("/proc/self/uid_map", ret->first_uid, ret->count) ||
			       !cbx_ids_are_mapped("/proc/self/gid_map", ret->first_gid, ret->count)))
		ret->count = 0;
}

static int write_file(pid_t pid, const char *name, const char *text, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("/proc/%d/%s", (int)pid, name);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return cbx_fail(err, errno, "open %s", path);
	n = write(fd, text, strlen(text));
	if (n < 0)
		return cbx_fail(err, errno, "write %s", path);
	return 0;
}

/* newuidmap PID 0 UID 1 1 FIRST COUNT: the set-user-id helper checks the range against /etc/subuid. */
static int run_helper(const char *helper, pid_t pid, uint32_t own, uint32_t first, uint32_t count)
{
	char text[4][16];
	const char *const argv[] = { helper, text[0], "0", text[1], "1", "1", text[2], text[3], NULL };
	const char *const envp[] = { "PATH=/usr/bin:/bin:/usr/sbin:/sbin", NULL };
	int status;
	pid_t child;

	snprintf(text[0], 16, "%d", (int)pid);
	snprintf(text[1], 16, "%u", own);
	snprintf(text[2], 16, "%u", first);
	snprintf(text[3], 16, "%u", count);
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0) {
		int null = open("/dev/null", O_RDWR);

		if (null < 0 || cbx_place_fds((int[]){ null, null, null }, (int[]){ 0, 1, 2 }, 3) < 0)
			_exit(127);
		execve(helper, (char *const *)argv, (char *const *)envp);
		_exit(127);
	}
	if (waitpid(child, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

static int write_map(pid_t pid, const char *file, unsigned own, unsigned first, unsigned count, struct cbx_err *err)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "0 %u 1\n", own);

	if (count)
		snprintf(text + n, sizeof(text) - (size_t)n, "1 %u %u\n", first, count);
	return write_file(pid, file, text, err);
}

/* ranges: those of subordinate ids, too. */
static int write_maps(const struct cbx_ids *ids, pid_t pid, bool ranges, struct cbx_err *err)
{
	unsigned count = ranges ? ids->count : 0;
	int r = write_map(pid, "uid_map", (unsigned)ids->uid, ids->first_uid, count, err);

	/* Without it an ordinary user may not write a gid map: dropping groups could lift a refusal
	 * (user_namespaces(7)). */
	if (r >= 0)
		r = write_file(pid, "setgroups", "deny", err);
	return r < 0 ? r : write_map(pid, "gid_map", (unsigned)ids->gid, ids->first_gid, count, err);
}

int cbx_ids_write_outer(struct cbx_ids *ids, pid_t pid, struct cbx_err *err)
{
	if (ids->count && ids->from_root)
		return write_maps(ids, pid, true, err);
	if (ids->count) {
		if (run_helper("/usr/bin/newuidmap", pid, ids->uid, ids->first_uid, ids->count) == 0) {
			if (run_helper("/usr/bin/newgidmap", pid, ids->gid, ids->first_gid, ids->count) == 0)
				return 0;
			return cbx_refuse(err, "ids", EPERM,
					  "newuidmap accepted the range in /etc/subuid, but newgidmap refused that in "
					  "/etc/subgid; make the two agree");
		}
		ids->count = 0;
	}
	return write_maps(ids, pid, false, err);
}

int cbx_ids_write_sandbox(pid_t pid, uint32_t outer_id, struct cbx_err *err)
{
	char text[64];
	int r;

	snprintf(text, sizeof(text), "%d %u 1\n", CBX_INSIDE_UID, outer_id);
	r = write_file(pid, "uid_map", text, err);
	if (r < 0)
		return r;
	r = write_file(pid, "setgroups", "deny", err);
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%d %u 1\n", CBX_INSIDE_GID, outer_id);
	return write_file(pid, "gid_map", text, err);
}
