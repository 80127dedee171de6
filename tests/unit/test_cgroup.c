/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from the kernel's texts about control groups, and what is written to a group: here a directory of files.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cgroup/files.h"
#include "cgroup/group.h"
#include "cgroup/parse.h"
#include "cgroup/tree.h"

#define GB (1ull << 30)

/* ---- texts ---- */

static int self_of(const char *text, struct cbx_cgroup_self *ret)
{
	struct cbx_err err;

	return cbx_cgroup_parse_self(text, strlen(text), ret, &err);
}

START_TEST(our_group)
{
	struct cbx_cgroup_self self;

	ck_assert_int_eq(self_of("0::/user.slice/a b.scope\n", &self), 0);
	ck_assert_str_eq(self.path, "/user.slice/a b.scope");
	ck_assert(!self.v1);
	ck_assert_int_eq(self_of("12:memory:/x\n1:name=systemd:/y\n0::/y\n", &self), 0);
	ck_assert(self.v1);
	ck_assert_int_eq(self_of("1:name=systemd:/y\n0::/a:b\n", &self), 0);
	ck_assert(!self.v1);
	ck_assert_str_eq(self.path, "/a:b");
	ck_assert_int_eq(self_of("", &self), 0);
	ck_assert_str_eq(self.path, "");
	ck_assert_int_lt(self_of("0::/../x\n", &self), 0);
	ck_assert_int_lt(self_of("0::/..\n", &self), 0);
	ck_assert_int_eq(self_of("0::/..x/...\n", &self), 0);
	ck_assert_int_lt(self_of("0::relative\n", &self), 0);
	ck_assert_int_lt(self_of("0::\n", &self), 0);
	ck_assert_int_lt(self_of("0::/a\n0::/b\n", &self), 0);
	ck_assert_int_lt(self_of("x::/a\n", &self), 0);
	ck_assert_int_lt(self_of("99999999999999999999::/a\n", &self), 0);
	ck_assert_int_lt(self_of("no colons\n", &self), 0);
	ck_assert_int_lt(self_of("0:memory:/a\n", &self), 0);
}
END_TEST

START_TEST(a_path_that_is_too_long_is_refused)
{
	struct cbx_cgroup_self self;
	char text[CBX_CGROUP_PATH_MAX + 100];

	memset(text, 'a', sizeof(text));
	memcpy(text, "0::/", 4);
	text[sizeof(text) - 1] = '\0';
	ck_assert_int_lt(self_of(text, &self), 0);
	text[4 + CBX_CGROUP_PATH_MAX - 2] = '\0';
	ck_assert_int_eq(self_of(text, &self), 0);
	ck_assert_uint_eq(strlen(self.path), CBX_CGROUP_PATH_MAX - 1);
}
END_TEST

static int mounted_at(const char *text, const char *path, char dir[CBX_CGROUP_PATH_MAX])
{
	struct cbx_err err;

	return cbx_cgroup_parse_mounts(text, strlen(text), path, dir, &err);
}

START_TEST(where_it_is_mounted)
{
	static const char plain[] = "22 1 0:5 / / rw - ext4 /dev/a rw\n"
				    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
	static const char part[] = "30 22 0:26 /docker/abc /sys/fs\\040x/cgroup rw - cgroup2 cgroup rw\n";
	static const char *const bad[] = {
		"30 22 0:26 / /sys/fs/cgroup rw - cgroup cgroup2 rw\n",
		"30 22 0:26 / /sys rw shared:4 cgroup2 cgroup2 rw\n",
		"30 22 0:26 / sys rw - cgroup2 x rw\n",
		"30 22 0:26 /../.. /sys rw - cgroup2 x rw\n",
		"30 22 0:26 / /sy\\9 rw - cgroup2 x rw\n",
		"30 22\n",
		"",
		"-",
		"\n\n",
		"30 22 0:26 / /s\\000 rw - cgroup2 x rw",
	};
	char dir[CBX_CGROUP_PATH_MAX];

	ck_assert_int_eq(mounted_at(plain, "/a/b.scope", dir), 0);
	ck_assert_str_eq(dir, "/sys/fs/cgroup/a/b.scope");
	ck_assert_int_eq(mounted_at(part, "/docker/abc", dir), 0);
	ck_assert_str_eq(dir, "/sys/fs x/cgroup");
	ck_assert_int_eq(mounted_at("30 22 0:26 /a / rw - cgroup2 cgroup rw\n", "/a", dir), 0);
	ck_assert_str_eq(dir, "/");
	ck_assert_int_eq(mounted_at(part, "/docker/abc/d", dir), 0);
	ck_assert_str_eq(dir, "/sys/fs x/cgroup/d");
	ck_assert_int_eq(mounted_at(part, "/docker/abcd", dir), -ENOENT);
	ck_assert_int_eq(mounted_at(part, "/", dir), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(mounted_at(bad[i], "/", dir) < 0, "accepted: %s", bad[i]);
}
END_TEST

START_TEST(values)
{
	static const char events[] = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
	static const char io[] =
		"8:0 rbytes=100 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2\n7:0 \nx rbytes=-1\n";
	uint64_t v, w;

	ck_assert(cbx_cgroup_parse_value(events, strlen(events), "oom_kill", &v) && v == 2);
	ck_assert(cbx_cgroup_parse_value(events, strlen(events), "oom", &v) && v == 3);
	ck_assert(!cbx_cgroup_parse_value(events, strlen(events), "oom_", &v));
	ck_assert(!cbx_cgroup_parse_value("max\n", 4, "max", &v));
	ck_assert(!cbx_cgroup_parse_value("max x\n", 6, "max", &v));
	ck_assert(!cbx_cgroup_parse_value(NULL, 0, "max", &v));
	ck_assert(cbx_cgroup_parse_number("4096\n", 5, &v) && v == 4096);
	ck_assert(!cbx_cgroup_parse_number("max\n", 4, &v));
	ck_assert(!cbx_cgroup_parse_number("18446744073709551616", 20, &v));
	cbx_cgroup_parse_io(io, strlen(io), &v, &w);
	ck_assert_uint_eq(v, 101);
	ck_assert_uint_eq(w, 22);
	ck_assert_uint_eq(cbx_cgroup_parse_controllers("cpuset cpu io memory pids\n", 26),
			  CBX_CONTROLLER_CPU | CBX_CONTROLLER_IO | CBX_CONTROLLER_MEMORY | CBX_CONTROLLER_PIDS);
	ck_assert_uint_eq(cbx_cgroup_parse_controllers("cpuset hugetlb\n", 15), 0);
}
END_TEST

/* ---- a tree of files ---- */

static char place[] = "/tmp/cbxgroupXXXXXX";

static void make_file(const char *name, const char *text)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", place, name);
	f = fopen(path, "w");
	ck_assert(f != NULL);
	fputs(text, f);
	fclose(f);
}

static void make_directory(const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", place, name);
	ck_assert_int_eq(mkdir(path, 0755), 0);
}

static void expect(const char *name, const char *text)
{
	char have[200];
	int dir = open(place, O_RDONLY | O_DIRECTORY);

	ck_assert_int_ge(cbx_read_small(dir, name, have, sizeof(have)), 0);
	ck_assert_str_eq(have, text);
	close(dir);
}

static void setup(void)
{
	strcpy(place, "/tmp/cbxgroupXXXXXX");
	ck_assert(mkdtemp(place) != NULL);
	make_file("cgroup.procs", "");
	make_file("cgroup.subtree_control", "");
	make_file("cgroup.controllers", "cpu memory pids\n");
	make_directory("supervisor");
	make_file("supervisor/cgroup.procs", "");
	make_directory("sessions");
	make_file("sessions/cgroup.subtree_control", "");
	make_file("sessions/memory.max", "");
}

static void teardown(void)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf '%s'", place);
	ck_assert_int_eq(system(command), 0);
}

static void take(struct cbx_cgroup_tree *t, const char *name)
{
	struct cbx_service me = { .uid = geteuid(), .gid = getegid() };

	cbx_cgroup_tree_take(t, open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC), name, &me);
}

START_TEST(a_delegated_group_is_taken)
{
	struct cbx_cgroup_tree t, other;
	struct cbx_err err;
	struct stat st;
	char path[300];

	make_directory("sessions/session-3"); /* of a codeboxd that was killed */
	make_directory("sessions/session-3/work");
	make_directory("sessions/session-x");
	make_directory("sessions/tenant-a"); /* likewise */
	make_directory("sessions/tenant-a/session-4");
	take(&t, "codeboxd.service");
	snprintf(path, sizeof(path), "%s/sessions/session-3", place);
	ck_assert_int_lt(stat(path, &st), 0);
	snprintf(path, sizeof(path), "%s/sessions/session-x", place);
	ck_assert_int_eq(stat(path, &st), 0);
	snprintf(path, sizeof(path), "%s/sessions/tenant-a", place);
	ck_assert_int_lt(stat(path, &st), 0);
	ck_assert_msg(t.backend == CBX_CGROUP_INHERIT, "%s", t.reason);
	expect("supervisor/cgroup.procs", "0");
	/* What +memory, +pids and +cpu, in this order, leave in a file that is not a control group's. */
	expect("cgroup.subtree_control", "+cpusry");
	expect("sessions/cgroup.subtree_control", "+cpusry");
	ck_assert_int_eq(cbx_cgroup_tree_limit(&t, 1 << 20, &err), 0);
	expect("sessions/memory.max", "1048576");
	ck_assert_int_eq(cbx_cgroup_tree_limit(&t, 0, &err), 0);
	expect("sessions/memory.max", "max8576"); /* as above */
	take(&other, "codeboxd.service");
	ck_assert_int_eq(other.backend, CBX_CGROUP_NONE);
	ck_assert_msg(strstr(other.reason, "another codeboxd") != NULL, "%s", other.reason);
	cbx_cgroup_tree_release(&t);
	take(&t, "run-r1.scope");
	ck_assert_int_eq(t.backend, CBX_CGROUP_SCOPE);
	cbx_cgroup_tree_release(&t);
}
END_TEST

START_TEST(a_group_without_controllers_is_not)
{
	struct cbx_cgroup_tree t;

	make_file("cgroup.controllers", "memory\n");
	take(&t, "x");
	ck_assert_int_eq(t.backend, CBX_CGROUP_NONE);
	ck_assert_msg(strstr(t.reason, "pids") != NULL, "%s", t.reason);
	expect("cgroup.subtree_control", "");
}
END_TEST

START_TEST(a_group_of_somebody_else_is_not)
{
	struct cbx_cgroup_tree t;
	char path[300];

	if (geteuid() == 0)
		return; /* nothing is read-only to root */
	snprintf(path, sizeof(path), "%s/cgroup.procs", place);
	ck_assert_int_eq(chmod(path, 0444), 0);
	take(&t, "x");
	ck_assert_int_eq(t.backend, CBX_CGROUP_NONE);
	ck_assert_msg(strstr(t.reason, "delegated") != NULL, "%s", t.reason);
}
END_TEST

static void make_session(void)
{
	static const char *const files[] = { "memory.max",	"pids.max",	 "cgroup.max.descendants", "cpu.max",
					     "work/memory.max", "work/pids.max", "work/memory.oom.group" };

	make_directory("work");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		make_file(files[i], "");
}

static int limit(unsigned controllers, const struct cbx_cgroup_limits *l, struct cbx_err *err)
{
	int dir = open(place, O_RDONLY | O_DIRECTORY), r = cbx_cgroup_limit(dir, controllers, l, err);

	close(dir);
	return r;
}

START_TEST(limits_are_written)
{
	struct cbx_cgroup_limits l = { .memory_bytes = GB, .disk_bytes = GB, .processes = 50, .cpus_milli = 1500,
				       .cpu_weight = 40 };
	struct cbx_err err;

	make_session();
	make_file("cpu.weight", "100");
	make_file("memory.swap.max", "max");
	ck_assert_int_eq(limit(CBX_CONTROLLER_CPU, &l, &err), 0);
	expect("work/memory.max", "1073741824");
	expect("work/memory.oom.group", "1");
	expect("work/pids.max", "50");
	expect("memory.max", "2164260864");
	expect("pids.max", "66");
	expect("cpu.max", "150000 100000");
	expect("cpu.weight", "400"); /* as below */
	expect("cgroup.max.descendants", "2");
	/* A regular file keeps what is behind a shorter text. */
	expect("memory.swap.max", "0ax");
}
END_TEST

START_TEST(a_limit_that_cannot_be_written_is_an_error)
{
	struct cbx_cgroup_limits l = { .memory_bytes = GB, .disk_bytes = GB, .processes = 50,
				       .cpu_weight = CBX_CPU_WEIGHT_DEFAULT };
	struct cbx_err err;
	char path[300];

	make_session();
	ck_assert_int_eq(limit(0, &l, &err), 0); /* memory.swap.max is not there: a kernel without swap */
	expect("cpu.max", "");
	snprintf(path, sizeof(path), "%s/work/memory.oom.group", place);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(limit(0, &l, &err), -ENOENT);
	ck_assert_msg(strstr(err.msg, "memory.oom.group") != NULL, "%s", err.msg);
}
END_TEST

START_TEST(use_of_disks_is_limited)
{
	struct cbx_cgroup_limits l = { .memory_bytes = GB, .disk_bytes = GB, .processes = 50, .cpu_weight = CBX_CPU_WEIGHT_DEFAULT,
				       .io_bytes = 1 << 20,
				       .disks = { makedev(254, 0) }, .ndisks = 1 };
	struct cbx_err err;

	make_session();
	make_file("io.max", "");
	ck_assert_int_eq(limit(CBX_CONTROLLER_IO, &l, &err), 0);
	expect("io.max", "254:0 rbps=1048576 wbps=1048576 riops=max wiops=max");
	l.io_bytes = 0;
	ck_assert_int_eq(limit(CBX_CONTROLLER_IO, &l, &err), 0); /* none is asked for: nothing is written */
	expect("io.max", "254:0 rbps=1048576 wbps=1048576 riops=max wiops=max");
	l.io_operations = 100;
	l.disks[0] = makedev(8, 16);
	make_file("io.max", "");
	ck_assert_int_eq(limit(CBX_CONTROLLER_IO, &l, &err), 0);
	expect("io.max", "8:16 rbps=max wbps=max riops=100 wiops=100");
}
END_TEST

/* A disk with a partition, as in /sys. */
START_TEST(a_partition_lies_on_a_disk)
{
	struct cbx_disks disks;
	char links[300];
	dev_t d;

	make_directory("devices");
	make_directory("devices/sda");
	make_directory("devices/sda/sda1");
	make_file("devices/sda/dev", "8:0\n");
	make_file("devices/sda/sda1/dev", "8:1\n");
	make_file("devices/sda/sda1/partition", "1\n");
	make_directory("block");
	snprintf(links, sizeof(links), "ln -s ../devices/sda %s/block/8:0; ln -s ../devices/sda/sda1 %s/block/8:1", place,
		 place);
	ck_assert_int_eq(system(links), 0);
	make_file("block/x", "");
	snprintf(links, sizeof(links), "%s/block", place);
	cbx_disks_read(&disks, links);
	ck_assert_uint_eq(disks.n, 2);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(cbx_disks_find(&disks, makedev(8, i), &d));
		ck_assert_uint_eq(d, makedev(8, 0));
	}
	ck_assert(!cbx_disks_find(&disks, makedev(8, 2), &d));
	ck_assert(!cbx_disks_find(&disks, makedev(0, 50), &d));
	cbx_disks_release(&disks);
	cbx_disks_read(&disks, "/nonexistent");
	ck_assert_uint_eq(disks.n, 0);
}
END_TEST

START_TEST(groups_are_removed)
{
	struct cbx_err err;
	int dir = open(place, O_RDONLY | O_DIRECTORY);

	ck_assert_int_eq(cbx_cgroup_remove(dir, 7), 0);
	make_directory("session-7");
	make_directory("session-7/work");
	make_directory("session-7/init");
	make_directory("session-70");
	ck_assert_int_eq(cbx_cgroup_remove(dir, 7), 0);
	ck_assert_int_lt(faccessat(dir, "session-7", F_OK, 0), 0);
	ck_assert_int_eq(faccessat(dir, "session-70", F_OK, 0), 0);
	ck_assert_int_lt(cbx_cgroup_put(dir, "session-70/nothing", "1", &err), 0);
	close(dir);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cgroup");
	TCase *texts = tcase_create("texts"), *files = tcase_create("files");
	SRunner *r;

	tcase_add_test(texts, our_group);
	tcase_add_test(texts, a_path_that_is_too_long_is_refused);
	tcase_add_test(texts, where_it_is_mounted);
	tcase_add_test(texts, values);
	tcase_add_checked_fixture(files, setup, teardown);
	tcase_add_test(files, a_delegated_group_is_taken);
	tcase_add_test(files, a_group_without_controllers_is_not);
	tcase_add_test(files, a_group_of_somebody_else_is_not);
	tcase_add_test(files, limits_are_written);
	tcase_add_test(files, a_limit_that_cannot_be_written_is_an_error);
	tcase_add_test(files, use_of_disks_is_limited);
	tcase_add_test(files, a_partition_lies_on_a_disk);
	tcase_add_test(files, groups_are_removed);
	suite_add_tcase(s, texts);
	suite_add_tcase(s, files);
	r = srunner_create(s);
	srunner_set_tap(r, "-");
	srunner_run_all(r, CK_SILENT);
	srunner_free(r);
	return 0;
}
