/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "image/export.h"
#include "image/front.h"

/* As whoever started us. A file that is there already is emptied, and keeps its mode and its links. */
static int open_output(const char *path, bool force, struct cbx_err *err)
{
	int fd;

	if (strcmp(path, "-") == 0)
		return isatty(STDOUT_FILENO) ? cbx_refuse(err, "invalid_argument", EINVAL,
							  "an archive is not for a terminal; name a file, or redirect")
					     : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	fd = open(path, O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), 0644);
	if (fd < 0 && errno == EEXIST)
		return cbx_refuse(err, "file_exists", EEXIST, "%s exists; use --force to replace it", path);
	return fd < 0 ? cbx_fail(err, errno, "make %s", path) : fd;
}

/* Half an archive is not to be taken for one. As root we cannot remove it any more, but empty it. */
static void drop_output(const char *path, int fd)
{
	struct stat st;

	if (strcmp(path, "-") == 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (ftruncate(fd, 0) < 0 || unlink(path) < 0)
		fprintf(stderr, "codebox image: %s is left, and is not an archive\n", path);
}

static bool tag_valid(const char *tag)
{
	return *tag && strlen(tag) < 200 &&
	       tag[strspn(tag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:")] == '\0';
}

static int export_to(const struct cbx_dirs *dirs, const char *name, const char *tag, const char *path, bool force,
		     struct cbx_err *err)
{
	_cleanup_fd_ int fd = open_output(path, force, err);
	int r;

	if (fd < 0)
		return fd;
	signal(SIGPIPE, SIG_IGN);
	r = cbx_image_become(dirs, false, err);
	if (r >= 0)
		r = cbx_export_image(dirs->images, name, tag, fd, err);
	if (r < 0)
		drop_output(path, fd);
	return r;
}

int cbx_image_main_export(const struct cbx_dirs *dirs, int argc, char **argv)
{
	static const struct option options[] = {
		{ "force", no_argument, NULL, 'f' },
		{ "tag", required_argument, NULL, 't' },
		{ 0 },
	};
	_cleanup_free_ char *made = NULL;
	const char *tag = NULL;
	struct cbx_err err;
	bool force = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'f')
			force = true;
		else if (c == 't')
			tag = optarg;
		else
			return cbx_image_bad_usage("export: unknown option");
	}
	if (argc - optind != 2)
		return cbx_image_bad_usage("export: give the name of an image, and a file or -");
	if (tag && !tag_valid(tag)) {
		cbx_refuse(&err, "invalid_argument", EINVAL,
			   "--tag: \"%.80s\" is not a name; write one like example.org/name:tag", tag);
		return cbx_image_fail(&err);
	}
	if (!tag)
		tag = made = cbx_xasprintf("localhost/%s:latest", argv[optind]);
	return export_to(dirs, argv[optind], tag, argv[optind + 1], force, &err) < 0 ? cbx_image_fail(&err) : 0;
}
