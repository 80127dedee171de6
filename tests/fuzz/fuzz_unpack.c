/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: any bytes as an archive, unpacked into a directory that is thrown away. Beside that directory
 * lies a file that links and names from the archive must not reach, and whatever comes of it, nothing that was made is
 * a device, or has an identity or extra rights of its own, and the limits hold. A layer is then put onto what a lower
 * one could have left, which must not lead out either, and the layer must stay as it was.
 *
 * The first byte chooses the options.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "image/compose.h"
#include "image/unpack.h"

#define ENTRIES_MAX 200
#define BYTES_MAX   (1 << 20)

static char base[] = "/dev/shm/cbxfuzzXXXXXX";
static uint64_t found, bytes;

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
	must(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode));
	must(S_ISLNK(st->st_mode) || !(st->st_mode & 07022));
	must(st->st_uid == geteuid());
	found++;
	if (S_ISREG(st->st_mode))
		bytes += (uint64_t)st->st_size;
	return 0;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static void remove_base(void)
{
	nftw(base, drop, 16, FTW_DEPTH | FTW_PHYS);
}

static void check_secret(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[16];
	struct stat st;

	must(fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink == 1 && (st.st_mode & 0777) == 0600);
	must(read(fd, text, sizeof(text)) == 6 && memcmp(text, "secret", 6) == 0);
}

static void compose(const char *in, int layer, uint64_t entries)
{
	static char out[64];
	_cleanup_fd_ int root = -1;
	struct cbx_err err = { 0 };
	int r;

	snprintf(out, sizeof(out), "%s/out", base);
	must(mkdir(out, 0755) == 0);
	root = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(root >= 0 && symlinkat("..", root, "l") == 0 && symlinkat("../secret", root, "c") == 0);
	must(mkdirat(root, "a", 0755) == 0 && mkdirat(root, "a/b", 0755) == 0 &&
	     symlinkat("/dev/shm", root, "a/b/d") == 0);
	r = cbx_compose_layer(layer, root, &err);
	must(r >= 0 || (err.code && err.msg[0]));
	found = bytes = 0;
	must(nftw(out, look, 16, FTW_PHYS) == 0);
	must(found <= entries + 6);
	must(nftw(out, drop, 16, FTW_DEPTH | FTW_PHYS) == 0);
	found = bytes = 0;
	must(nftw(in, look, 16, FTW_PHYS) == 0);
	must(found <= entries + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_unpack_options o = { .max_entries = ENTRIES_MAX, .max_bytes = BYTES_MAX };
	struct cbx_unpack_stats stats = { 0 };
	_cleanup_fd_ int archive = -1, root = -1;
	static char in[64], secret[64];
	struct cbx_err err = { 0 };
	int r;

	if (size < 2)
		return 0;
	if (!in[0]) {
		umask(022);
		must(mkdtemp(base));
		atexit(remove_base);
		snprintf(in, sizeof(in), "%s/in", base);
		snprintf(secret, sizeof(secret), "%s/secret", base);
		archive = open(secret, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		must(archive >= 0 && write(archive, "secret", 6) == 6);
		cbx_close_p(&archive);
	}
	o.format = data[0] & 1 ? CBX_ARCHIVE_DEB : CBX_ARCHIVE_TAR;
	o.merge_usr = data[0] & 2;
	o.whiteouts = (data[0] >> 2 & 3) % (CBX_WHITEOUTS_KEPT + 1);
	o.add_only = data[0] & 16;
	must(mkdir(in, 0755) == 0);
	root = open(in, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	archive = memfd_create("archive", MFD_CLOEXEC);
	must(root >= 0 && archive >= 0 && write(archive, data + 1, size - 1) == (ssize_t)(size - 1));
	must(lseek(archive, 0, SEEK_SET) == 0);
	r = cbx_unpack(archive, root, &o, &stats, &err);
	must(r >= 0 || (err.code && err.msg[0]));
	found = bytes = 0;
	must(nftw(in, look, 16, FTW_PHYS) == 0);
	must(found <= stats.entries + 1); /* the directory itself */
	if (r >= 0)
		must(bytes <= BYTES_MAX && stats.entries <= ENTRIES_MAX);
	if (o.whiteouts == CBX_WHITEOUTS_KEPT)
		compose(in, root, stats.entries);
	check_secret(secret);
	must(nftw(in, drop, 16, FTW_DEPTH | FTW_PHYS) == 0);
	return 0;
}
