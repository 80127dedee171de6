/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each line is one write to a file that is only appended to. Before the first, the end of the file
 * is read, so that the chain (chain.h) continues through restarts; a line that a crash has cut off stays, is closed by
 * a newline, and is held by the line that follows. After SIGHUP the file of this name may be another, which continues
 * the chain of the old one, or that of its own last line.
 *
 * What anybody can bring about without a token, or code by trying hosts, is limited in number, and so are requests
 * beyond the rate of a tenant: lines of that kind say how many were omitted before them.
 */
#include "observe/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/rate.h"
#include "observe/chain.h"
#include "session/principal.h"

/* Lines of one kind, up to a number a second. */
struct few {
	struct cbx_rate rate;
	uint64_t omitted;
};

/* What one tenant asked for beyond its rate. */
struct refused {
	LIST_ENTRY(refused) entry;
	char tenant[CBX_NAME_MAX + 1];
	struct few few;
};

struct cbx_audit {
	char *path;
	int fd;
	bool code;
	struct cbx_chain chain;
	bool stopped;
	bool torn; /* there is no newline at the file's end */
	uint64_t lines, lost;
	struct few strangers, hosts;
	LIST_HEAD(, refused) refused;
	size_t nrefused;
};

static const char *const names[CBX_HAPPENINGS] = {
	[CBX_HAPPENED_MADE] = "session",       [CBX_HAPPENED_READY] = "session_ready",
	[CBX_HAPPENED_CLOSED] = "session_end", [CBX_HAPPENED_CELL] = "cell",
	[CBX_HAPPENED_RAN] = "cell_end",       [CBX_HAPPENED_COMMAND] = "command",
	[CBX_HAPPENED_EXITED] = "command_end", [CBX_HAPPENED_PACKAGES] = "packages",
	[CBX_HAPPENED_NETWORK] = "network",    [CBX_HAPPENED_DENIED] = "denied",
	[CBX_HAPPENED_QUERY] = "query",
	[CBX_HAPPENED_INTERRUPTED] = "interrupt", [CBX_HAPPENED_RESTARTED] = "restart",
};

/* ---- the file ---- */

static int open_file(const char *path, struct cbx_err *err)
{
	_cleanup_fd_ int fd =
		open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cbx_fail(
			err, errno,
			"--audit: open %s; the user that codeboxd runs as must be able to write to it, and to its "
			"directory",
			path);
	if (!S_ISREG(st.st_mode) || st.st_mode & (S_IWGRP | S_IWOTH))
		return cbx_refuse(err, "invalid_audit", EPERM,
				  "--audit: %s must be a regular file that nobody but its owner can change", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return cbx_refuse(err, "invalid_audit", EBUSY,
				  "--audit: another codeboxd writes to %s; name another file", path);
	return take_fd(&fd);
}

/* Where the last whole line begins; 0 where there is none: then all is torn. */
static int last_line(const char *text, size_t n, size_t *ret, struct cbx_err *err)
{
	const char *end = memrchr(text, '\n', n);

	for (*ret = 0; end; end = memrchr(text, '\n', (size_t)(end - text))) {
		const char *before = memrchr(text, '\n', (size_t)(end - text)), *line = before ? before + 1 : text;
		struct cbx_chain one = { 0 };
		int r = cbx_chain_read(&one, line, (size_t)(end - line), true, err);

		if (r) {
			*ret = (size_t)(line - text);
			return r < 0 ? r : 0;
		}
	}
	return 0;
}

/* The chain as of the file's end. */
static int read_end(const struct cbx_audit *a, int fd, struct cbx_chain *ret, bool *ret_torn, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	off_t most = 2 * CBX_AUDIT_LINE_MAX, at;
	struct stat st;
	size_t from;
	ssize_t n;

	*ret_torn = false;
	n = fstat(fd, &st) < 0 ? -1 : 1;
	at = n > 0 && st.st_size > most ? st.st_size - most : 0;
	while (n > 0 && at + (off_t)text.len < st.st_size) {
		n = pread(fd, cbx_buf_reserve(&text, KIB(64)), KIB(64), at + (off_t)text.len);
		text.len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		return cbx_fail(err, errno, "--audit: read the end of %s", a->path);
	if (!text.len)
		return 0;
	if (last_line(text.data, text.len, &from, err) < 0 ||
	    cbx_chain_read_all(ret, text.data + from, text.len - from, true, ret_torn, err) < 0)
		return cbx_wrap(err, "--audit");
	return 0;
}

static void append(struct cbx_audit *a, cJSON *o)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	char prev[CBX_CHAIN_HEX + 1];
	size_t skip = a->torn;
	ssize_t n;

	if (a->lost)
		cbx_json_set_u64(o, "lost", a->lost);
	cbx_chain_head(&a->chain, prev);
	cbx_json_set_str(o, "prev", prev);
	if (a->torn)
		cbx_buf_addc(&line, '\n');
	cbx_json_print(&line, o);
	cbx_buf_addc(&line, '\n');
	n = write(a->fd, line.data, line.len);
	if (n == (ssize_t)line.len) {
		cbx_chain_add(&a->chain, line.data + skip, line.len - skip - 1);
		a->torn = false;
		a->lost = 0;
		a->lines++;
		return;
	}
	a->lost++;
	if (n > (ssize_t)skip) {
		cbx_chain_add_torn(&a->chain, line.data + skip, (size_t)n - skip);
		a->torn = true;
	} else if (n > 0) {
		a->torn = false; /* the newline alone */
	}
}

static cJSON *begin(const struct cbx_audit *a, const char *event)
{
	cJSON *o = cbx_json_new_obj();
	char when[32];

	cbx_format_time_ms(cbx_wall_ms(), when);
	cbx_json_set_u64(o, "seq", a->chain.seq + 1);
	cbx_json_set_str(o, "time", when);
	cbx_json_set_str(o, "event", event);
	return o;
}

static void note(struct cbx_audit *a, const char *event)
{
	_cleanup_json_ cJSON *o = begin(a, event);

	cbx_json_set_str(o, "version", PACKAGE_VERSION);
	append(a, o);
}

int cbx_audit_open(const char *path, bool code, struct cbx_audit **ret, struct cbx_err *err)
{
	struct cbx_audit *a = cbx_xcalloc(1, sizeof(*a));
	int r;

	a->path = cbx_xstrdup(path);
	a->code = code;
	LIST_INIT(&a->refused);
	a->strangers.rate.per_second = a->hosts.rate.per_second = CBX_AUDIT_FEW;
	a->fd = r = open_file(path, err);
	if (r >= 0)
		r = read_end(a, a->fd, &a->chain, &a->torn, err);
	if (r >= 0) {
		note(a, "start");
		if (!a->lines)
			r = cbx_fail(err, errno, "--audit: write to %s", path);
	}
	if (r >= 0)
		*ret = a;
	else
		cbx_audit_close(a);
	return r;
}

int cbx_audit_reopen(struct cbx_audit *a, struct cbx_err *err)
{
	struct cbx_chain chain = { 0 };
	struct stat old, now;
	bool torn;
	int fd;

	if (!a || (fstat(a->fd, &old) == 0 && lstat(a->path, &now) == 0 && old.st_dev == now.st_dev &&
		   old.st_ino == now.st_ino))
		return 0;
	fd = open_file(a->path, err);
	if (fd < 0)
		return fd;
	if (read_end(a, fd, &chain, &torn, err) < 0) {
		close(fd);
		return -err->code;
	}
	close(a->fd);
	a->fd = fd;
	a->torn = torn;
	if (chain.begun)
		a->chain = chain;
	note(a, "reopen");
	return 0;
}

void cbx_audit_stop(struct cbx_audit *a)
{
	if (a->lines && !a->stopped)
		note(a, "stop");
	a->stopped = true;
}

void cbx_audit_close(struct cbx_audit *a)
{
	struct refused *one;

	if (!a)
		return;
	cbx_audit_stop(a);
	if (a->fd >= 0)
		close(a->fd);
	while ((one = LIST_FIRST(&a->refused))) {
		LIST_REMOVE(one, entry);
		free(one);
	}
	free(a->path);
	free(a);
}

void cbx_audit_head(const struct cbx_audit *a, char ret[CBX_AUDIT_HEAD])
{
	char hex[CBX_CHAIN_HEX + 1];

	cbx_chain_head(&a->chain, hex);
	snprintf(ret, CBX_AUDIT_HEAD, "%llu:%s", (unsigned long long)a->chain.seq, hex);
}

uint64_t cbx_audit_lines(const struct cbx_audit *a)
{
	return a->lines;
}

uint64_t cbx_audit_lost(const struct cbx_audit *a)
{
	return a->lost;
}

/* ---- lines ---- */

static void set_hashed(cJSON *o, const struct cbx_audit *a, const char *key, const char *text)
{
	_cleanup_free_ char *hashed = cbx_xasprintf("%s_sha256", key);
	char hex[CBX_CHAIN_HEX + 1];

	if (a->code)
		cbx_json_set_str(o, key, text);
	cbx_sha256_hex(text, strlen(text), hex);
	cbx_json_set_str(o, hashed, hex);
}

static void set_via(cJSON *o, const struct cbx_via *from)
{
	if (!from)
		return;
	cbx_json_set_str(o, "by", from->door);
	cbx_json_set_str(o, "token", from->token[0] ? from->token : NULL);
	cbx_json_set_str(o, "traceparent", from->trace[0] ? from->trace : NULL);
}

static void set_what(cJSON *o, const struct cbx_audit *a, const struct cbx_happened *h)
{
	_cleanup_buf_ struct cbx_buf argv = { 0 };

	cbx_json_set_str(o, "image", h->image);
	cbx_json_set_str(o, "database", h->database);
	cbx_json_set_str(o, "policy", h->policy);
	cbx_json_set_str(o, "language", h->language);
	if (h->code)
		set_hashed(o, a, "code", h->code);
	if (h->argv) {
		cbx_json_print(&argv, h->argv);
		cbx_json_set_str(o, "program", cJSON_IsString(h->argv->child) ? h->argv->child->valuestring : NULL);
		set_hashed(o, a, "argv", cbx_buf_str(&argv));
	}
}

static void set_outcome(cJSON *o, const struct cbx_happened *h)
{
	bool ended = h->what == CBX_HAPPENED_RAN || h->what == CBX_HAPPENED_EXITED || h->what == CBX_HAPPENED_CLOSED ||
		     h->what == CBX_HAPPENED_READY || h->what == CBX_HAPPENED_QUERY;

	cbx_json_set_str(o, "outcome", h->outcome && h->outcome[0] ? h->outcome : NULL);
	cbx_json_set_str(o, "why", h->why);
	if (h->what == CBX_HAPPENED_RAN)
		cbx_json_set_u64(o, "wait_ms", h->wait_ms);
	if (ended)
		cbx_json_set_u64(o, "duration_ms", h->duration_ms);
	if (h->cpu_us)
		cbx_json_set_thousandths(o, "cpu_ms", h->cpu_us);
	if (h->memory_peak)
		cbx_json_set_u64(o, "memory_peak_bytes", h->memory_peak);
}

/* One more of a kind that is limited; false: not this one. */
static bool takes(struct few *few, cJSON *o)
{
	if (cbx_rate_take(&few->rate, cbx_now_ms())) {
		few->omitted++;
		return false;
	}
	if (few->omitted)
		cbx_json_set_u64(o, "omitted", few->omitted);
	few->omitted = 0;
	return true;
}

/* Names are those of tenants.json, which may change: what is too many shares one count. */
static struct few *few_of(struct cbx_audit *a, const char *tenant)
{
	struct refused *one;

	if (!tenant)
		return &a->strangers;
	LIST_FOREACH(one, &a->refused, entry)
		if (strcmp(one->tenant, tenant) == 0)
			return &one->few;
	if (a->nrefused == CBX_TENANTS_MAX)
		return &a->strangers;
	one = cbx_xcalloc(1, sizeof(*one));
	snprintf(one->tenant, sizeof(one->tenant), "%s", tenant);
	one->few.rate.per_second = CBX_AUDIT_FEW;
	LIST_INSERT_HEAD(&a->refused, one, entry);
	a->nrefused++;
	return &one->few;
}

/* All else that a tenant is refused is within its rate, and none of it is to be hidden by what is not. */
static bool is_limited(const struct cbx_happened *h)
{
	return h->what == CBX_HAPPENED_DENIED &&
	       (!h->tenant || (h->outcome && strcmp(h->outcome, "too_many_requests") == 0));
}

void cbx_audit_write(struct cbx_audit *a, const struct cbx_happened *h)
{
	_cleanup_json_ cJSON *o = begin(a, names[h->what]);

	if ((is_limited(h) && !takes(few_of(a, h->tenant), o)) ||
	    (h->what == CBX_HAPPENED_NETWORK && !takes(&a->hosts, o)))
		return;
	cbx_json_set_str(o, "tenant", h->tenant);
	set_via(o, h->via);
	cbx_json_set_str(o, "session", h->session_id);
	if (h->id)
		cbx_json_set_u64(o, "id", h->id);
	set_what(o, a, h);
	set_outcome(o, h);
	append(a, o);
}
