/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: who installs from a lock knows a wheel's name and SHA-256, and no address, so that a lock serves
 * with any index. The page of the index that names the file is read by the process which fetches it then, and only
 * that: what the page says of the file counts no more than the sum that is computed of what comes.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "installer/installer.h"

/* What a page has of a wheel. */
struct found {
	char *address; /* with that SHA-256; NULL: none */
	bool other;    /* a file of that name with another one */
};

static void look_in_json(const char *text, size_t n, const struct cbx_wheel *w, struct found *f)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err ignored;
	const cJSON *v;

	if (cbx_json_parse(text, n, &doc, &ignored) < 0)
		return;
	cJSON_ArrayForEach(v, cbx_json_member(doc.root, "files")) {
		const char *sum = cbx_json_text(cbx_json_member(v, "hashes"), "sha256"),
			   *url = cbx_json_text(v, "url"), *file = cbx_json_text(v, "filename");
		bool same = sum && strcasecmp(sum, w->sum) == 0;

		f->other |= !same && file && strcmp(file, w->file) == 0;
		if (!same || !url)
			continue;
		f->address = cbx_xstrdup(url);
		return;
	}
}

/* <a href="../../files/a-1.0-py3-none-any.whl#sha256=…">: in front of the sum is the address, behind a quote. */
static void look_in_html(const char *text, const struct cbx_wheel *w, struct found *f)
{
	_cleanup_free_ char *wanted = cbx_xasprintf("#sha256=%s", w->sum);
	const char *end = strcasestr(text, wanted), *p = end;
	char *out;

	f->other = !end && strstr(text, w->file);
	while (p && p > text && !strchr("\"'", p[-1]))
		p--;
	if (!p || p == text)
		return;
	f->address = out = cbx_xcalloc(1, (size_t)(end - p) + 1);
	for (; p < end; p++) {
		*out++ = *p;
		if (cbx_starts_with(p, "&amp;"))
			p += strlen("amp;");
	}
}

/* Relative addresses are those of a page. */
static char *joined(const char *page, const char *address)
{
	CURLU *u = strstr(address, "://") ? NULL : curl_url();
	char *text = NULL, *ret;

	if (!u)
		return cbx_xstrdup(address);
	if (curl_url_set(u, CURLUPART_URL, page, 0) || curl_url_set(u, CURLUPART_URL, address, 0) ||
	    curl_url_get(u, CURLUPART_URL, &text, 0))
		text = NULL;
	ret = text ? cbx_xstrdup(text) : NULL;
	curl_free(text);
	curl_url_cleanup(u);
	return ret;
}

int cbx_find_wheel(struct cbx_fetcher *fetcher, const struct cbx_indexes *from, const struct cbx_store_dirs *store,
		   const struct cbx_wheel *w, char **ret, struct cbx_err *err)
{
	const struct cbx_index *index;
	_cleanup_buf_ struct cbx_buf page = { 0 };
	_cleanup_free_ char *address = NULL;
	struct found f = { 0 };
	int r = cbx_answer_page(fetcher, from, store, w->name, &address, &index, &page, err);

	if (r < 0)
		return cbx_wrap(err, "%s", w->file);
	if (page.data[0] == 'h')
		look_in_html(cbx_buf_str(&page), w, &f);
	else
		look_in_json(page.data + 1, page.len - 1, w, &f);
	if (!f.address)
		return cbx_refuse(err, f.other ? "wrong_hash" : "not_found", f.other ? EBADMSG : ENOENT,
				  "%s has %s %s with the SHA-256 %s", index->dir ? index->dir : index->host,
				  f.other ? "another file of the name" : "no file", w->file, w->sum);
	*ret = joined(address, f.address);
	free(f.address);
	return *ret ? 0 : cbx_refuse(err, "index_refused", EINVAL, "the index has no usable address for %s", w->file);
}
