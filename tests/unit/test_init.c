/* SPDX-License-Identifier: Apache-2.0 */
/* codebox-init's file requests, without a sandbox around them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "sandbox/init.h"
#include "unit_main.h"

static char top[64];

static void make_top(void)
{
	snprintf(top, sizeof(top), "/tmp/cbxinit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	ck_assert_int_eq(chdir(top), 0);
}

static void remove_top(void)
{
	_cleanup_free_ char *command = cbx_xasprintf("chmod -R u+rwx %s; rm -rf %s", top, top);

	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(system(command), 0);
}

static void ask(struct cbx_init_header h, const char *name, struct cbx_init_header *a, char *out)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s%s%s", top, name[0] ? "/" : "", name);
	h.len = (uint32_t)strlen(path) + 1;
	*a = (struct cbx_init_header){ 0 };
	cbx_init_file(&h, path, a, out);
}

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	close(fd);
}

/* ---- scan ---- */

#define FILES 450

/* Each page goes on where the one before it ended, also where a long name did not fit and a shorter one would. */
START_TEST(pages_of_a_scan)
{
	unsigned seen[FILES] = { 0 };
	struct cbx_init_header a;
	char out[CBX_INIT_MAX], name[256];
	uint64_t skip = 0;
	int pages = 0;

	srandom((unsigned)_i);
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "%03d%0*d", i, (int)(random() % 240) + 1, 0);
		touch(name);
	}
	do {
		ask((struct cbx_init_header){ .type = CBX_INIT_SCAN, .value = (int64_t)skip }, "", &a, out);
		ck_assert_int_gt(a.value, 0);
		ck_assert_uint_eq(a.arg, FILES);
		for (size_t at = 0; at < a.len;) {
			struct cbx_init_entry e;

			memcpy(&e, out + at, sizeof(e));
			memcpy(name, out + at + sizeof(e), 3);
			name[3] = '\0';
			seen[atoi(name)]++;
			at += e.entry_len;
		}
		skip += (uint64_t)a.value;
		pages++;
	} while (skip < a.arg);
	ck_assert_int_gt(pages, 1);
	for (int i = 0; i < FILES; i++)
		ck_assert_msg(seen[i] == 1, "file %d is in %u pages", i, seen[i]);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_checked_fixture(t, make_top, remove_top);
	tcase_add_loop_test(t, pages_of_a_scan, 0, 8);
}

TEST_MAIN("init", add_tests)
