/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What codebox-packages reads of an unpacked wheel (METADATA, entry_points.txt, a script), and addresses of an index:
 * whatever they hold, nothing is made beside the session's directory, programs have plain names and begin with the
 * session's Python, and only files of the directory of wheels, or of the index's own host, are allowed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/remove.h"
#include "fuzz.h"
#include "installer/installer.h"

#define PLAIN  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define PYTHON "#!/py\n"

static int top = -1;
static char where[] = "/dev/shm/cbx-fuzz-wheel-XXXXXX";

static void leave(void)
{
	(void)cbx_remove_tree(AT_FDCWD, where, 100000);
}

static int make(int dir, const char *path)
{
	int fd;

	must(mkdirat(dir, path, 0755) == 0);
	fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(fd >= 0);
	return fd;
}

static void put(int dir, const char *path, const uint8_t *data, size_t size)
{
	_cleanup_fd_ int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	must(fd >= 0 && cbx_write_all(fd, data, size) == 0);
}

static void judge_programs(int bin)
{
	_cleanup_closedir_ DIR *d = fdopendir(dup(bin));
	const struct dirent *e;

	must(d);
	while ((e = readdir(d))) {
		char head[sizeof(PYTHON)] = "";
		_cleanup_fd_ int fd = -1;

		if (e->d_name[0] == '.')
			continue;
		must(strspn(e->d_name, PLAIN) == strlen(e->d_name));
		fd = openat(bin, e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		must(fd >= 0);
		if (strcmp(e->d_name, "script") == 0)
			continue; /* one without "#!python" is as it was */
		must(cbx_read_full(fd, head, sizeof(head) - 1) == (ssize_t)sizeof(head) - 1 &&
		     strcmp(head, PYTHON) == 0);
	}
}

static void judge_wheel(const uint8_t *data, size_t size)
{
	_cleanup_fd_ int tree = make(top, "w"), info = make(tree, "a-1.dist-info"), files = make(tree, "a-1.data"),
			 scripts = make(files, "scripts"), to = make(top, "s"), bin = -1;
	struct cbx_err err = { 0 };
	struct stat st;

	put(info, "METADATA", data, size);
	put(info, "WHEEL", data, size);
	put(info, "RECORD", data, size);
	put(info, "entry_points.txt", data, size);
	put(scripts, "script", data, size);
	if (cbx_wheel_check(tree, "a", "1", &err) < 0)
		must(err.code && err.msg[0]);
	if (cbx_wheel_link(tree, to, "/py", &err) < 0)
		must(err.code && err.msg[0]);
	bin = openat(to, "bin", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(bin >= 0);
	judge_programs(bin);
	must(fstat(top, &st) == 0 && st.st_nlink == 4); /* the wheel and the session, and no directory beside them */
	(void)cbx_remove_tree(top, "w", 1000);
	(void)cbx_remove_tree(top, "s", 1000);
}

static void judge_address(const char *url)
{
	struct cbx_index directory = { .dir = (char *)"/srv/wheels" };
	struct cbx_indexes found = { 0 };
	struct cbx_err err = { 0 };
	const char *name = cbx_index_file(&directory, url);

	must(!name || (name[0] != '.' && !strchr(name, '/') && cbx_index_allows(&directory, url, &err) == 0));
	if (cbx_index_find("http://index.example:8080/simple", &found, &err) >= 0 &&
	    cbx_index_allows(&found.all[0], url, &err) == 0)
		must(strncmp(url, "https://", 8) == 0 || strncmp(url, "http://", 7) == 0);
	cbx_indexes_release(&found);
	if (strlen(url) < 4000 && cbx_index_find(url, &found, &err) >= 0 && found.all[0].host)
		must(found.all[0].host[0] && !strchr(found.all[0].host, '@') && !strchr(found.all[0].host, '/') &&
		     found.all[0].url[strlen(found.all[0].url) - 1] == '/');
	cbx_indexes_release(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (top < 0) {
		must(mkdtemp(where));
		atexit(leave);
		top = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		must(top >= 0);
	}
	judge_wheel(data, size);
	judge_address(text);
	free(text);
	return 0;
}
