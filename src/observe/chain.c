/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/chain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"

static void hex(struct sha256_ctx digest, char ret[CBX_CHAIN_HEX + 1])
{
	uint8_t sum[SHA256_DIGEST_SIZE];

	sha256_digest(&digest, sizeof(sum), sum);
	cbx_hex(sum, sizeof(sum), ret);
}

void cbx_sha256_hex(const void *p, size_t n, char ret[CBX_CHAIN_HEX + 1])
{
	struct sha256_ctx digest;

	sha256_init(&digest);
	sha256_update(&digest, n, p);
	hex(digest, ret);
}

void cbx_chain_head(const struct cbx_chain *c, char ret[CBX_CHAIN_HEX + 1])
{
	if (c->begun) {
		hex(c->digest, ret);
	} else {
		memset(ret, '0', CBX_CHAIN_HEX);
		ret[CBX_CHAIN_HEX] = '\0';
	}
}

void cbx_chain_add(struct cbx_chain *c, const char *line, size_t n)
{
	sha256_init(&c->digest);
	sha256_update(&c->digest, n, (const uint8_t *)line);
	c->begun = true;
	c->seq++;
	c->lines++;
}

void cbx_chain_add_torn(struct cbx_chain *c, const char *p, size_t n)
{
	if (!c->begun)
		sha256_init(&c->digest);
	sha256_update(&c->digest, 1, (const uint8_t *)"\n");
	sha256_update(&c->digest, n, (const uint8_t *)p);
	c->begun = true;
	c->torn++;
}

int cbx_chain_read(struct cbx_chain *c, const char *line, size_t n, bool any, struct cbx_err *err)
{
	struct cbx_json_doc doc = { 0 };
	struct cbx_err ignored;
	char want[CBX_CHAIN_HEX + 1];
	uint64_t seq = 0;
	int r = 1;

	if (cbx_json_parse(line, n, &doc, &ignored) < 0 || doc.problem.code || !cJSON_IsObject(doc.root)) {
		cbx_json_doc_release(&doc);
		cbx_chain_add_torn(c, line, n);
		return 0;
	}
	cbx_chain_head(c, want);
	if (cbx_json_get_u64(doc.root, "seq", 1, 1ull << 53, &seq, &ignored) != 1 || !cbx_json_text(doc.root, "prev"))
		r = cbx_refuse(err, "chain_broken", EBADMSG, "this is not a line of an audit log");
	else if (!any && seq != c->seq + 1)
		r = cbx_refuse(err, "chain_broken", EBADMSG,
			       "line %llu is followed by line %llu: lines were removed or added",
			       (unsigned long long)c->seq, (unsigned long long)seq);
	else if (!any && strcmp(cbx_json_text(doc.root, "prev"), want) != 0)
		r = cbx_refuse(err, "chain_broken", EBADMSG,
			       "line %llu does not follow what is before it, which was changed",
			       (unsigned long long)seq);
	cbx_json_doc_release(&doc);
	if (r < 0)
		return r;
	c->seq = seq - 1;
	cbx_chain_add(c, line, n);
	return r;
}

int cbx_chain_read_all(struct cbx_chain *c, const char *text, size_t n, bool first, bool *ret_open, struct cbx_err *err)
{
	while (n) {
		const char *end = memchr(text, '\n', n);
		size_t len = end ? (size_t)(end - text) : n;
		int r = cbx_chain_read(c, text, len, first, err);

		if (r < 0)
			return r;
		first = first && !r;
		*ret_open = !end;
		text += len + (end != NULL);
		n -= len + (end != NULL);
	}
	return 0;
}
