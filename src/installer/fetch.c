/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: libcurl fetches, one request at a time and without following anything by itself. Each address,
 * those of redirections too, is judged first, and so is the address that is connected to, by the very sockaddr that is:
 * a name cannot come to mean something else in between. A connection is used again for the same host. Only the index
 * itself may be in a private network, and the user's proxy, behind which nothing can be judged but names (via.c).
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "installer/installer.h"
#include "policy/host.h"

#define REDIRECTIONS_MAX 5
#define CONNECT_S	 15
#define STALL_S		 30 /* given up after this time with less than a byte a second */

struct transfer {
	struct cbx_fetch *what;
	FILE *out;
	uint64_t n;
	bool trusted;	   /* of the index's own host */
	const char *proxy; /* which it goes by; NULL: none */
	bool refused;	   /* the address was not public */
	bool full;
	bool other; /* than the part that was asked for */
	CURL *curl;
	uint64_t from, to, of; /* what it says that it is */
};

static size_t read_header(char *p, size_t size, size_t n, void *arg)
{
	static const char name[] = "content-range: bytes ";
	struct transfer *t = arg;
	char line[100];

	snprintf(line, sizeof(line), "%.*s", (int)(n * size < sizeof(line) ? n * size : 0), p);
	if (cbx_starts_with(line, "HTTP/")) /* of an answer that comes after another */
		t->from = t->to = t->of = 0;
	else if (strncasecmp(line, name, sizeof(name) - 1) == 0 &&
		 sscanf(line + sizeof(name) - 1, "%" SCNu64 "-%" SCNu64 "/%" SCNu64, &t->from, &t->to, &t->of) != 3)
		t->of = 0;
	return n * size;
}

/* Whether what comes is what was asked for: neither an error's page, nor another part. */
static bool asked_for(const struct transfer *t, long status)
{
	const struct cbx_fetch *what = t->what;

	if (what->first)
		return status == 206 && t->from == 0 && t->to == what->first - 1 && t->of == what->size;
	return status == 200 || (status == 206 && what->last);
}

/* How a server answers that has ranges, but none that are counted from the end (Azure), or no ranges at all. */
static bool knows_no_such_range(long status)
{
	return status == 400 || status == 405 || status == 416 || status == 501;
}

static size_t take(char *p, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	struct cbx_fetch *what = t->what;
	long status = 0;

	n *= size;
	t->n += n;
	(void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	t->full = t->n > what->max;
	if (t->full || !asked_for(t, status)) {
		t->other = what->first && status / 100 == 2;
		return t->full || t->other ? 0 : n;
	}
	t->full = (what->first && t->n > what->first) ||
		  (what->together && atomic_fetch_add(what->together, n) + n > what->max);
	if (t->full)
		return 0;
	if (what->ahead && t->n == n && fwrite(what->ahead->data, what->ahead->len, 1, t->out) != 1)
		return 0;
	return fwrite(p, 1, n, t->out);
}

/* Addresses for documentation are those of no private network; a name that has one is that of a mirror which its own
 * network has put there. */
static bool public(const struct cbx_ip *ip)
{
	const char *special = cbx_ip_special(ip);

	return !special || strcmp(special, "for documentation") == 0;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct transfer *t = arg;
	bool fine = t->trusted || t->proxy;
	struct cbx_ip ip;

	if (!fine)
		fine = cbx_ip_from_sockaddr(&ip, &a->addr) && public(&ip);
	if (!fine) {
		t->refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int too_large(const char *who, uint64_t max, bool together, struct cbx_err *err)
{
	char size[32];

	cbx_format_size(max, size);
	return cbx_refuse(err, "too_large", EFBIG, "%s sends more than %s%s", who, size,
			  together ? ", which is what the policy allows for all files of one installation "
				     "(install_size); install fewer packages at once, or ask whoever runs codebox to "
				     "change the policy"
				   : "");
}

int cbx_fetch_count(_Atomic uint64_t *together, uint64_t n, uint64_t max, const char *who, struct cbx_err *err)
{
	return atomic_fetch_add(together, n) + n > max ? too_large(who, max, true, err) : 0;
}

static int failed(CURLcode code, const struct transfer *t, const char *host, const char *why, struct cbx_err *err)
{
	if (t->other)
		return cbx_refuse(err, "no_ranges", EBADMSG, "%s does not send the part that is asked for", host);
	if (t->full)
		return too_large(host, t->what->max, t->what->together, err);
	if (t->refused)
		return cbx_refuse(err, "index_refused", EPERM, "the index leads to %s, which is not a public address",
				  host);
	if (code == CURLE_WRITE_ERROR)
		return cbx_fail(err, errno ? errno : EIO, "keep what %s sends", host);
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		return cbx_refuse(
			err, "index_refused", EPERM,
			"%s shows a certificate that cannot be verified: %.200s; name a file of its authority, "
			"as cert of pip's configuration or in SSL_CERT_FILE (trusted-host does not count here)",
			host, why[0] ? why : curl_easy_strerror(code));
	return cbx_refuse(err, "index_down", EIO, "%s cannot be reached%s: %.200s; try again later", host,
			  t->proxy ? " by the configured proxy" : "", why[0] ? why : curl_easy_strerror(code));
}

static int status_error(const struct cbx_index *index, long status, const char *host, struct cbx_err *err)
{
	if (status == 404 || status == 410)
		return cbx_refuse(err, "not_found", ENOENT, "%s has no such page", host);
	if (status == 401 || status == 403)
		return cbx_refuse(err, "index_refused", EACCES,
				  "%s wants another user or password (status %ld); see %s", host, status,
				  index->config);
	if (status == 407)
		return cbx_refuse(err, "index_refused", EACCES,
				  "the proxy by which %s is reached wants another user or password (status 407)", host);
	return cbx_refuse(err, "index_down", EIO, "%s answered with status %ld; try again later", host, status);
}

static void set_up(CURL *c, const struct cbx_index *index, const char *url, struct transfer *t,
		   struct curl_slist *headers, char *why)
{
	const char *netrc = getenv("NETRC");
	char range[48];
	struct stat st;

	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, t);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(c, CURLOPT_PROXY, t->proxy ? t->proxy : "");
	curl_easy_setopt(c, CURLOPT_NOPROXY, ""); /* via.c has read it */
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)CBX_INSTALL_TIMEOUT_S);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "codebox/" PACKAGE_VERSION);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, read_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
	if (t->what->first)
		snprintf(range, sizeof(range), "0-%" PRIu64, t->what->first - 1);
	else
		snprintf(range, sizeof(range), "-%" PRIu64, t->what->last);
	if (t->what->first || t->what->last)
		curl_easy_setopt(c, CURLOPT_RANGE, range);
	else if (!t->what->together) /* of a file of an installation the bytes count as they are */
		curl_easy_setopt(c, CURLOPT_ACCEPT_ENCODING, "");
	if (t->trusted)
		curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
	if (t->trusted && netrc && netrc[0])
		curl_easy_setopt(c, CURLOPT_NETRC_FILE, netrc);
	if (t->trusted && index->client) {
		curl_easy_setopt(c, CURLOPT_SSLCERT, index->client);
		curl_easy_setopt(c, CURLOPT_SSLKEY, index->client);
	}
	if (t->trusted && index->user)
		curl_easy_setopt(c, CURLOPT_USERPWD, index->user);
	if (index->ca && stat(index->ca, &st) == 0 && S_ISDIR(st.st_mode)) {
		curl_easy_setopt(c, CURLOPT_CAINFO, NULL);
		curl_easy_setopt(c, CURLOPT_CAPATH, index->ca);
	} else if (index->ca) {
		curl_easy_setopt(c, CURLOPT_CAINFO, index->ca);
	}
}

void cbx_fetcher_release(struct cbx_fetcher *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(f->curl); i++)
		curl_easy_cleanup(take_ptr(&f->curl[i]));
}

/* One request. 1: *next, malloc'd, is where to go. */
static int request(struct cbx_fetcher *f, const struct cbx_index *index, const char *url, struct transfer *t,
		   char **next, struct cbx_err *err)
{
	_cleanup_free_ char *header = cbx_xasprintf("Accept: %s", t->what->accept ? t->what->accept : "*/*");
	struct curl_slist *headers = curl_slist_append(NULL, header);
	CURL *c;
	char why[CURL_ERROR_SIZE] = "", host[256] = "";
	const char *text = NULL, *p = strstr(url, "://");
	CURLcode code;
	long status = 0;
	int r = 0;

	p = p ? p + 3 : "";
	if (memchr(p, '@', strcspn(p, "/?#")))
		p = strchr(p, '@') + 1;
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(p, "/?#"), p);
	t->trusted = index->host && strcasecmp(host, index->host) == 0;
	if (!f->curl[t->trusted])
		f->curl[t->trusted] = curl_easy_init();
	c = t->curl = f->curl[t->trusted];
	if (!c || !headers || !host[0]) {
		curl_slist_free_all(headers);
		return cbx_fail(err, ENOMEM, "prepare a request");
	}
	r = cbx_via_find(index, url, t->trusted, &t->proxy, err);
	if (t->trusted && index->authorization) {
		_cleanup_free_ char *login = cbx_xasprintf("Authorization: %s", index->authorization);

		headers = curl_slist_append(headers, login); /* it copies the text */
	}
	set_up(c, index, url, t, headers, why);
	errno = 0;
	code = r < 0 ? CURLE_OK : curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	if (r < 0) {
		/* nothing was asked */
	} else if (code != CURLE_OK) {
		r = failed(code, t, host, why, err);
	} else if (status >= 300 && status < 400 &&
		   curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, (char **)&text) == CURLE_OK && text) {
		*next = cbx_xstrdup(text);
		r = 1;
	} else if (!asked_for(t, status)) {
		r = (t->what->first && status / 100 == 2) ||
				    ((t->what->first || t->what->last) && knows_no_such_range(status))
			    ? cbx_refuse(err, "no_ranges", EBADMSG, "%s does not send the part that is asked for", host)
			    : status_error(index, status, host, err);
	} else if (t->what->first && t->n != t->what->first) {
		r = cbx_refuse(err, "index_down", EPIPE, "%s cannot be reached any more: it broke off; try again later",
			       host);
	} else if (curl_easy_getinfo(c, CURLINFO_CONTENT_TYPE, (char **)&text) == CURLE_OK) {
		t->what->html = text && strstr(text, "html");
		t->what->part = status == 206 && t->n >= t->what->last; /* else the whole is shorter than that */
	}
	curl_easy_reset(c); /* it forgets all but its connections */
	curl_slist_free_all(headers);
	return r;
}

static int copy_file(const struct cbx_index *index, const char *url, struct cbx_fetch *what, FILE *out,
		     struct cbx_err *err)
{
	const char *name = cbx_index_file(index, url);
	_cleanup_fd_ int dir = open(index->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char chunk[65536];
	uint64_t all = 0;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? cbx_refuse(err, "not_found", ENOENT, "%s: there is no such file", name)
				       : cbx_fail(err, errno, "open %s", name);
	/* A shorter one is read from its start. */
	what->part = what->last && lseek(fd, -(off_t)what->last, SEEK_END) > 0;
	while ((n = cbx_read_full(fd, chunk, sizeof(chunk))) > 0) {
		all += (uint64_t)n;
		if (all > what->max)
			return too_large(name, what->max, what->together, err);
		if (what->together && cbx_fetch_count(what->together, (uint64_t)n, what->max, name, err) < 0)
			return -err->code;
		if (fwrite(chunk, 1, (size_t)n, out) != (size_t)n)
			return cbx_fail(err, errno, "copy %s", name);
	}
	return n < 0 ? cbx_fail(err, (int)-n, "read %s", name) : 0;
}

static int follow(struct cbx_fetcher *f, const struct cbx_index *index, struct cbx_fetch *what, FILE *out,
		  struct cbx_err *err)
{
	_cleanup_free_ char *at = cbx_xstrdup(what->url);

	what->html = what->part = false;
	for (int i = 0; i <= REDIRECTIONS_MAX; i++) {
		struct transfer t = { .what = what, .out = out };
		char *next = NULL;
		int r = cbx_index_allows(index, at, err);

		if (r >= 0 && index->dir)
			return copy_file(index, at, what, out, err);
		if (r >= 0 && index->offline)
			r = cbx_refuse(err, "index_down", ENETUNREACH,
				       "%s is not asked: the configuration of uv says offline; remove that, or install "
				       "what is "
				       "in the cache",
				       index->host);
		if (r >= 0)
			r = request(f, index, at, &t, &next, err);
		if (r <= 0)
			return r;
		free(at);
		at = next;
	}
	return cbx_refuse(err, "index_down", ELOOP,
			  "the index redirects more than %d times; see its address in the policy", REDIRECTIONS_MAX);
}

int cbx_fetch(struct cbx_fetcher *f, const struct cbx_index *index, struct cbx_fetch *what, FILE *out,
	      struct cbx_err *err)
{
	int r = follow(f, index, what, out, err);

	if (r < 0 && what->last && strcmp(err->kind, "no_ranges") == 0) {
		what->last = 0; /* nothing was written so far */
		r = follow(f, index, what, out, err);
	}
	return r;
}
