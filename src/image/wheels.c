/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-packages is started as codeboxd starts it, with a directory of its own in the store of
 * packages, which is locked while it is needed and which it removes at its end. Its one job answers with a directory of
 * links, spread as the format of wheels says; what the recipe does not exclude of it becomes links in the image, where
 * Debian's Python looks for what is not Debian's.
 */
#include "image/wheels.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "image/graft.h"
#include "image/image-limits.h"
#include "image/progress.h"
#include "image/tree.h"
#include "image/wheellock.h"
#include "packages/job.h"

#define SHARE_FD   (CBX_JOB_SOCKET + 1)
#define PROGRAM_FD (CBX_JOB_SOCKET + 2)
#define PROGRAM	   "codebox-packages"
#define ANSWER_MAX KIB(64)
#define TOKEN	   26

/* ---- which ---- */

/* "3.11", of the name of a program like "python3.11". */
static bool version_of(const char *name, char out[16])
{
	const char *base = strrchr(name, '/');

	base = base ? base + 1 : name;
	if (!cbx_starts_with(base, "python3.") || !base[8] || base[8 + strspn(base + 8, "0123456789")] ||
	    strlen(base) > 12)
		return false;
	strcpy(out, base + strlen("python"));
	return true;
}

/* The image's interpreter is such a program, or a link to one beside it. */
static int find_python(int root, const char *program, char out[16], struct cbx_err *err)
{
	_cleanup_fd_ int dir = -1;
	char target[CBX_UNPACK_PATH_MAX];
	const char *name;
	ssize_t n;

	if (version_of(program, out))
		return 0;
	if (cbx_tree_parent(root, program + 1, NULL, &dir, &name, err) < 0)
		return cbx_wrap(err, "look for %s", program);
	n = readlinkat(dir, name, target, sizeof(target) - 1);
	target[n < 0 ? 0 : n] = '\0';
	return version_of(target, out) ? 0
				       : cbx_refuse(err, "invalid_recipe", EINVAL,
						    "%s of the image is not a link to a program like python3.11, so no "
						    "wheels can be chosen for it; add a package that makes the link",
						    program);
}

static int choose(const struct cbx_recipe *recipe, const char *python, cJSON **ret, struct cbx_err *err)
{
	_cleanup_free_ char *target = NULL;
	struct utsname u;

	if (uname(&u) < 0)
		return cbx_fail(err, errno, "ask for the name of this machine");
	target = cbx_xasprintf("%s-%s", python, u.machine);
	return cbx_wheellock_select(recipe->lock, target, ret, err);
}

/* ---- codebox-packages ---- */

struct worker {
	const struct cbx_dirs *dirs;
	char *store, *own; /* its directories: the second one's name in the first */
	int held;	   /* locked, so that nobody takes it for one that was left */
	int sock;
	pid_t pid;
};

/* By descriptors, as what is installed may be where only root gets, and its own paths are gone by then (main.c). */
static _Noreturn void exec_worker(const struct worker *w, const char *path, int sock)
{
	char *const argv[] = { (char *)path, w->store, w->own, NULL };
	char share[32];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int from[] = { null, null, sock, open(w->dirs->share, O_PATH | O_DIRECTORY | O_CLOEXEC),
			     open(path, O_PATH | O_CLOEXEC) };
	const int to[] = { 0, 1, CBX_JOB_SOCKET, SHARE_FD, PROGRAM_FD };

	snprintf(share, sizeof(share), "/proc/self/fd/%d", SHARE_FD);
	signal(SIGINT, SIG_IGN); /* of a terminal: our end is its */
	if (null < 0 || from[3] < 0 || from[4] < 0 || cbx_place_fds(from, to, ARRAY_SIZE(from)) < 0 ||
	    cbx_close_range(PROGRAM_FD + 1, ~0u, 0) < 0 || fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    setenv("CODEBOX_SHARE_DIR", share, 1) < 0)
		_exit(126);
	syscall(SYS_execveat, PROGRAM_FD, "", argv, environ, AT_EMPTY_PATH);
	_exit(127);
}

static int start(const struct cbx_dirs *dirs, struct worker *w, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/" PROGRAM, dirs->libexec), *own = NULL;
	char random[13];
	int pair[2];

	cbx_random_name(random, 12);
	w->dirs = dirs;
	w->store = cbx_xasprintf("%s/packages", dirs->data);
	w->own = cbx_xasprintf("d/%s", random);
	own = cbx_xasprintf("%s/%s", w->store, w->own);
	if (mkdir(own, 0700) < 0)
		return cbx_fail(err, errno, "make %s", own);
	w->held = open(own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->held < 0 || flock(w->held, LOCK_EX | LOCK_NB) < 0)
		return cbx_fail(err, errno, "lock %s", own);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket pair");
	w->pid = fork();
	if (w->pid == 0)
		exec_worker(w, path, pair[1]);
	close(pair[1]);
	w->sock = pair[0];
	return w->pid < 0 ? cbx_fail(err, errno, "start %s", path) : 0;
}

/* It removes what it has made. */
static void end(struct worker *w)
{
	cbx_close_p(&w->sock);
	if (w->pid > 0)
		while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
			;
	cbx_close_p(&w->held);
	free(w->store);
	free(w->own);
}

static int read_answer(int fd, cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };

	if (cbx_read_whole(fd, ANSWER_MAX, &text) < 0 || !text.len ||
	    cbx_json_parse(cbx_buf_str(&text), text.len, &doc, err) < 0 || !cJSON_IsObject(doc.root))
		return cbx_refuse(err, "install_failed", EBADMSG, PROGRAM " gave no answer");
	if (cbx_json_text(doc.root, "kind"))
		return cbx_json_error(doc.root, "install_failed", EIO, err);
	*ret = take_ptr(&doc.root);
	return 0;
}

static int ask(const struct worker *w, const cJSON *job, cJSON **ret, struct cbx_err *err)
{
	_cleanup_fd_ int ours = -1, theirs = -1;
	_cleanup_buf_ struct cbx_buf line = { 0 };
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket pair");
	ours = pair[0];
	theirs = pair[1];
	cbx_json_print(&line, job);
	cbx_buf_addc(&line, '\n');
	r = cbx_send_fds(w->sock, "j", 1, &theirs, 1);
	cbx_close_p(&theirs);
	if (r >= 0)
		r = cbx_write_all(ours, line.data, line.len);
	if (r < 0)
		return cbx_fail(err, -r, "give " PROGRAM " its job");
	(void)shutdown(ours, SHUT_WR);
	return read_answer(ours, ret, err);
}

static cJSON *make_job(const char *token, const char *python, const cJSON *wheels)
{
	cJSON *job = cbx_json_new_obj();

	cbx_json_set_str(job, "job", "install");
	cbx_json_set_u64(job, "cache", CBX_PACKAGES_KEPT_DEFAULT);
	cbx_json_set_str(job, "token", token);
	cbx_json_set_u64(job, "bytes_max", CBX_WHEELS_BYTES);
	cbx_json_set_str(job, "python", python);
	cbx_json_set(job, "packages", cJSON_Duplicate(wheels, 1));
	cbx_json_set(job, "advisories", cbx_json_new_arr());
	cbx_json_set_str(job, "on_advisory", "warn");
	cbx_json_set(job, "asked", cbx_json_new_arr());
	cbx_json_set(job, "known", cbx_json_new_arr());
	return job;
}

/* ---- into the image ---- */

/* Of a wheel's parts, its modules have a place that the version is part of; all else keeps its name. */
static int link_part(struct cbx_graft *g, int from, int root, const char *part, const char *version)
{
	_cleanup_fd_ int dir = cbx_tree_openat(from, part, O_RDONLY | O_DIRECTORY, 0);
	_cleanup_free_ char *place = strcmp(part, "site") == 0
					     ? cbx_xasprintf("usr/local/lib/python%s/dist-packages", version)
					     : cbx_xasprintf("usr/local/%s", part);

	if (dir < 0) /* a wheel may bring files for the top */
		return dir == -ENOTDIR ? 0 : cbx_fail(g->err, -dir, "open what was unpacked");
	return cbx_graft_at(g, dir, root, place);
}

static int link_all(struct cbx_graft *g, const char *path, int root, const char *version)
{
	_cleanup_fd_ int from = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char **names;
	size_t n;
	int r = from < 0 ? cbx_fail(g->err, errno, "open %s", path) : cbx_tree_names(from, &names, &n, g->err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++)
		r = cbx_plain(names[i]) ? link_part(g, from, root, names[i], version)
					: cbx_refuse(g->err, "unsafe_path", EINVAL, "a name has control characters");
	cbx_tree_names_free(names, n);
	return r;
}

static void describe(cJSON *manifest, const struct cbx_recipe *recipe, const cJSON *wheels)
{
	cJSON *list = cJSON_Duplicate(wheels, 1), *v;

	cJSON_ArrayForEach(v, list)
		cJSON_DeleteItemFromObjectCaseSensitive(v, "size");
	cbx_json_set(manifest, "wheels", list);
	cbx_json_set_str(manifest, "lock", recipe->lock->digest);
}

static void tell(const cJSON *wheels)
{
	uint64_t bytes = 0;
	const cJSON *v;
	char size[32];

	cJSON_ArrayForEach(v, wheels)
		bytes += cbx_json_u64(v, "size");
	cbx_format_size(bytes, size);
	cbx_progress_step("Fetching and unpacking %d wheels (%s, less what is there)", cJSON_GetArraySize(wheels),
			  size);
}

static int add_to(const struct worker *w, const cJSON *job, int root, const struct cbx_recipe *recipe,
		  const char *version, struct cbx_unpack_stats *used, struct cbx_err *err)
{
	struct cbx_graft g = { .packages = true,
			       .onto = true,
			       .exclude = recipe->exclude,
			       .include = recipe->include,
			       .entries = used->entries,
			       .bytes = used->bytes,
			       .err = err };
	_cleanup_free_ char *path = cbx_xasprintf("%s/%s/s/%s", w->store, w->own, cbx_json_text(job, "token"));
	_cleanup_json_ cJSON *answer = NULL;
	int r = ask(w, job, &answer, err);

	if (r == 0)
		r = link_all(&g, path, root, version);
	used->entries = g.entries;
	used->bytes = g.bytes;
	return r;
}

int cbx_wheels_add(const struct cbx_dirs *dirs, const struct cbx_stage *stage, const struct cbx_recipe *recipe,
		   struct cbx_unpack_stats *used, cJSON *manifest, struct cbx_err *err)
{
	const cJSON *python = cbx_json_member(recipe->interpreters, "python"),
		    *argv = cbx_json_member(python, "argv");
	_cleanup_json_ cJSON *wheels = NULL, *job = NULL;
	struct worker w = { .held = -1, .sock = -1 };
	char version[16], token[TOKEN + 1];
	int r = find_python(stage->rootfs, argv->child->valuestring, version, err);

	if (r == 0)
		r = choose(recipe, version, &wheels, err);
	if (r < 0 || !wheels->child)
		return r;
	tell(wheels);
	cbx_random_name(token, TOKEN);
	job = make_job(token, argv->child->valuestring, wheels);
	r = start(dirs, &w, err);
	if (r == 0)
		r = add_to(&w, job, stage->rootfs, recipe, version, used, err);
	end(&w);
	if (r == 0)
		describe(manifest, recipe, wheels);
	return r < 0 ? cbx_wrap(err, "wheels of the recipe") : 0;
}
