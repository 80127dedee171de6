/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the store of artifacts is codebox-store's. The key that signs links is beside it, where
 * codebox-store does not reach; it stays, so that links outlive codeboxd. Links lead to the first address of --http, or
 * to where its clients know it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "http/http.h"
#include "session/artifacts.h"

static int make_key(const char *path, uint8_t key[CBX_LINK_KEY], struct cbx_err *err)
{
	_cleanup_free_ char *fresh = cbx_xasprintf("%s.%d", path, (int)getpid());
	_cleanup_fd_ int fd = -1;

	(void)unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (getrandom(key, CBX_LINK_KEY, 0) != CBX_LINK_KEY || fd < 0 || cbx_write_all(fd, key, CBX_LINK_KEY) < 0 ||
	    fsync(fd) < 0)
		return cbx_fail(err, errno, "make %s", fresh);
	/* Another daemon of this user may have been quicker: its key is as good. */
	if (link(fresh, path) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make %s", path);
	(void)unlink(fresh);
	return 0;
}

static int read_key(const char *path, uint8_t key[CBX_LINK_KEY], struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : cbx_fail(err, errno, "open %s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077 ||
	    cbx_read_full(fd, key, CBX_LINK_KEY) != CBX_LINK_KEY)
		return cbx_refuse(err, "unsafe_file", EPERM,
				  "%s is not a key of %d bytes that its owner alone reads; remove it", path, CBX_LINK_KEY);
	return 1;
}

/* A tenant who had some has a directory. */
static bool holds_something(const char *store)
{
	DIR *d = opendir(store);
	const struct dirent *e;
	bool any = false;

	while (d && !any && (e = readdir(d)))
		any = e->d_name[0] != '.';
	if (d)
		closedir(d);
	return any;
}

void cbx_daemon_make_artifacts(struct cbx_daemon *d)
{
	_cleanup_free_ char *store = cbx_xasprintf("%s/artifacts", d->dirs.data);
	_cleanup_free_ char *key = cbx_xasprintf("%s/artifacts.key", d->dirs.data);
	struct cbx_err err;
	int r = cbx_service_make_dir(&d->service, store, 0700, &err);

	if (r >= 0)
		r = read_key(key, d->artifacts.key, &err);
	if (r == 0)
		r = make_key(key, d->artifacts.key, &err);
	if (r == 0)
		r = read_key(key, d->artifacts.key, &err);
	if (r < 0) {
		cbx_warn("no artifacts can be kept: %s", err.msg);
		return;
	}
	d->artifacts.left = holds_something(store);
	d->artifacts.store = take_ptr(&store);
}

void cbx_daemon_link_artifacts(struct cbx_daemon *d, const char *url)
{
	_cleanup_free_ char *base = NULL;
	const char *own;

	for (size_t i = 0; !url && (own = cbx_http_url(d->http, i)); i++)
		if (!cbx_starts_with(own, "unix:") && cbx_ends_with(own, "/mcp"))
			url = base = cbx_xasprintf("%.*s", (int)(strlen(own) - strlen("/mcp")), own);
	if (d->http)
		cbx_artifact_links_at(d->engine, url);
}

void cbx_daemon_release_artifacts(struct cbx_daemon *d)
{
	free(take_ptr(&d->artifacts.store));
	explicit_bzero(d->artifacts.key, sizeof(d->artifacts.key));
}
