/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor makes of AppArmor: labels as the kernel shows them, and a tree of files instead of /proc and /sys. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "doctor/apparmor.h"

static char tree[] = "/tmp/cbxdoctorXXXXXX";

static void put(const char *name, const char *text)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	for (char *p = path + strlen(tree) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		mkdir(path, 0755);
	}
	f = fopen(path, "w");
	ck_assert(f != NULL);
	fputs(text, f);
	fclose(f);
}

static void machine(const char *restricts, const char *enabled)
{
	put("proc/sys/kernel/apparmor_restrict_unprivileged_userns", restricts);
	put("sys/module/apparmor/parameters/enabled", enabled);
}

static void has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "\"%s\" does not say \"%s\"", text, part);
}

/* Ubuntu 24.04: a program without a profile, in its user namespace and, where the kernel shows no label, outside. */
START_TEST(ubuntu)
{
	static const char *const labels[] = { "unprivileged_userns (enforce)", "unconfined", "" };
	struct cbx_result r = { 0 };

	machine("1\n", "Y\n");
	for (int i = 0; i < 3; i++) {
		ck_assert(cbx_apparmor_explains(tree, labels[i], "mapping ids", EACCES, &r));
		ck_assert_int_eq(r.state, CBX_CHECK_FAILED);
		has(r.found, "AppArmor");
		has(r.found, "mapping ids");
		has(r.means, "apparmor_restrict_unprivileged_userns is 1");
		has(r.remedy, "sudo apparmor_parser -r /etc/apparmor.d/codebox");
		if (strcmp(CBX_APPARMOR_PROFILE, "/etc/apparmor.d/codebox") != 0) /* it is there already */
			has(r.remedy, "sudo cp " CBX_APPARMOR_PROFILE " /etc/apparmor.d/codebox");
	}
	/* What the profile's name says does not need the sysctl, which a container may hide. */
	ck_assert(cbx_apparmor_explains("/nonexistent", labels[0], "mapping ids", EACCES, &r));
}
END_TEST

START_TEST(another_profile)
{
	struct cbx_result r = { 0 };

	machine("0\n", "Y\n");
	ck_assert(cbx_apparmor_explains(tree, "some-editor//sub (enforce)", "mounting", EPERM, &r));
	has(r.found, "AppArmor profile some-editor//sub,");
	has(r.found, "mounting");
	has(r.remedy, "in that profile, or load codebox's own: sudo ");
	ck_assert(cbx_apparmor_explains("/nonexistent", "x (enforce)", "mounting", EPERM, &r));
}
END_TEST

START_TEST(not_apparmor)
{
	static const char selinux[] = "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023";
	struct cbx_result r = { 0 };

	machine("0\n", "Y\n");
	ck_assert(!cbx_apparmor_explains(tree, "unconfined", "mounting", EPERM, &r));
	ck_assert(!cbx_apparmor_explains(tree, "codebox (unconfined)", "mounting", EPERM, &r));
	ck_assert(!cbx_apparmor_explains(tree, "x (complain)", "mounting", EPERM, &r));
	ck_assert(!cbx_apparmor_explains(tree, selinux, "mounting", EPERM, &r));
	/* Switched off at boot, it has a sysctl that means nothing. */
	machine("1\n", "N\n");
	ck_assert(!cbx_apparmor_explains(tree, "", "mounting", EPERM, &r));
	/* Other reasons have other errors. */
	machine("1\n", "Y\n");
	ck_assert(!cbx_apparmor_explains(tree, "unprivileged_userns (enforce)", "mounting", ENOSPC, &r));
	ck_assert(!cbx_apparmor_explains("/nonexistent", "unconfined", "mounting", EPERM, &r));
}
END_TEST

/* A label and a profile's path of any length leave whole sentences or none. */
START_TEST(long_names)
{
	char label[400];
	struct cbx_result r = { 0 };

	memset(label, 'a', sizeof(label));
	strcpy(label + 380, " (enforce)");
	ck_assert(cbx_apparmor_explains(tree, label, "making the other namespaces", EACCES, &r));
	has(r.found, "making the other namespaces: Permission denied");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("doctor");
	TCase *t = tcase_create("apparmor");
	SRunner *r;
	char command[100];
	int failed;

	if (!mkdtemp(tree))
		return 99;
	tcase_add_test(t, ubuntu);
	tcase_add_test(t, another_profile);
	tcase_add_test(t, not_apparmor);
	tcase_add_test(t, long_names);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_set_tap(r, "-");
	srunner_run_all(r, CK_SILENT);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	snprintf(command, sizeof(command), "rm -rf %s", tree);
	return system(command) || failed ? 1 : 0;
}
