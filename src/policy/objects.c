/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a store is called becomes part of addresses and of what is signed, so it is held to
 * characters that need no escaping there. Without encryption only this machine is spoken to.
 */
#include "policy/objects.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "policy/host.h"

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

static int wrong(const cJSON *node, const cJSON **ret_bad, struct cbx_err *err, const char *what)
{
	*ret_bad = node;
	return cbx_refuse(err, "invalid_policy", EINVAL, "store: %s", what);
}

static bool made_of(const char *s, const char *more, size_t max)
{
	size_t n = 0;

	while (s[n] && (strchr(plain, s[n]) || strchr(more, s[n])))
		n++;
	return n && !s[n] && n <= max;
}

static bool is_loopback(const struct cbx_host *h)
{
	const char *special = h->literal ? cbx_ip_special(&h->ip) : NULL;

	return special ? strcmp(special, "loopback") == 0 : strcmp(h->name, "localhost") == 0;
}

/* "https://HOST[:PORT]", and for one of Azure's emulators a name behind that; *ret is how a request names it. */
static const char *parse_endpoint(const char *s, bool azure, struct cbx_buf *ret)
{
	static const char usage[] = "endpoint: give an address such as \"https://s3.eu-central-1.amazonaws.com\", with "
				    "no bucket in it";
	bool secure = cbx_starts_with(s, "https://"), v6;
	const char *host = s + (secure ? strlen("https://") : strlen("http://")), *path;
	uint16_t usual = secure ? 443 : 80, port = usual;
	struct cbx_host h;

	if ((!secure && !cbx_starts_with(s, "http://")) || strlen(s) > 500)
		return usage;
	path = strchr(host, '/');
	if (cbx_host_parse_port(host, path ? (size_t)(path - host) : strlen(host), &h, &port))
		return usage;
	if (path && (!azure || !made_of(path + 1, "", 64)))
		return usage;
	if (!secure && !is_loopback(&h))
		return "endpoint: without encryption only a store on this machine is used; give one of https";
	v6 = h.literal && h.ip.v6;
	cbx_buf_addf(ret, "%s://%s%s%s", secure ? "https" : "http", v6 ? "[" : "", h.name, v6 ? "]" : "");
	if (port != usual)
		cbx_buf_addf(ret, ":%u", port);
	if (path)
		cbx_buf_adds(ret, path);
	return NULL;
}

static int only(const cJSON *v, const char *const *known, const char *fault, const cJSON **ret_bad, struct cbx_err *err)
{
	const cJSON *m;

	cJSON_ArrayForEach(m, v) {
		size_t i = 0;

		while (known[i] && strcmp(known[i], m->string) != 0)
			i++;
		if (!known[i])
			return wrong(m, ret_bad, err, fault);
	}
	return 0;
}

static int parse_azure(const cJSON *v, struct cbx_object_store *s, const cJSON **ret_bad, struct cbx_err *err)
{
	static const char *const known[] = { "type", "endpoint", "account", "container", "prefix", "secret", NULL };
	const char *account = cbx_json_str(v, "account"), *fault, *path;
	_cleanup_buf_ struct cbx_buf endpoint = { 0 };
	int r = only(v, known, "unknown key; accepted are: type, endpoint, account, container, prefix, secret", ret_bad,
		     err);

	if (r < 0)
		return r;
	fault = parse_endpoint(cbx_json_str(v, "endpoint"), true, &endpoint);
	path = fault ? NULL : strchr(strstr(cbx_buf_str(&endpoint), "://") + 3, '/');
	if (!fault && !made_of(account, "", 64))
		fault = "account: give the name of the storage account";
	if (!fault && path && strcmp(path + 1, account) != 0)
		fault = "endpoint: behind the host only the account may stand, as emulators want it";
	if (!fault && !made_of(cbx_json_str(v, "container"), "", 63))
		fault = "container: give its name, up to 63 characters";
	if (fault)
		return wrong(v, ret_bad, err, fault);
	cbx_json_set_str(s->json, "endpoint", cbx_buf_str(&endpoint));
	cbx_json_set_str(s->json, "bucket", cbx_json_str(v, "container"));
	cbx_json_set_str(s->json, "user", account);
	return 0;
}

static int parse_s3(const cJSON *v, struct cbx_object_store *s, const cJSON **ret_bad, struct cbx_err *err)
{
	static const char *const known[] = { "type",   "endpoint",   "region", "bucket",
					     "prefix", "access_key", "secret", NULL };
	const char *region = cbx_json_str(v, "region"), *fault;
	_cleanup_buf_ struct cbx_buf endpoint = { 0 };
	int r = only(v, known, "unknown key; accepted are: type, endpoint, region, bucket, prefix, access_key, secret",
		     ret_bad, err);

	if (r < 0)
		return r;
	fault = parse_endpoint(cbx_json_str(v, "endpoint"), false, &endpoint);
	if (!fault && !made_of(region, "", 64))
		fault = "region: give one such as \"us-east-1\", which most stores other than Amazon's take";
	if (!fault && !made_of(cbx_json_str(v, "bucket"), "", 63))
		fault = "bucket: give its name, up to 63 characters";
	if (!fault && !made_of(cbx_json_str(v, "access_key"), "", 128))
		fault = "access_key: give the id of an access key; its secret is named by \"secret\"";
	if (fault)
		return wrong(v, ret_bad, err, fault);
	cbx_json_set_str(s->json, "endpoint", cbx_buf_str(&endpoint));
	cbx_json_set_str(s->json, "region", region);
	cbx_json_set_str(s->json, "bucket", cbx_json_str(v, "bucket"));
	cbx_json_set_str(s->json, "user", cbx_json_str(v, "access_key"));
	return 0;
}

int cbx_object_store_parse_place(const cJSON *v, struct cbx_object_store *s, const cJSON **ret_bad, struct cbx_err *err)
{
	const char *prefix = cbx_json_str(v, "prefix");
	bool azure = strcmp(cbx_json_str(v, "type"), "azure") == 0;
	int r;

	cbx_object_store_release(s);
	*ret_bad = v;
	if (!cJSON_IsObject(v) || (!azure && strcmp(cbx_json_str(v, "type"), "s3") != 0))
		return wrong(v, ret_bad, err, "give an object whose \"type\" is \"s3\" or \"azure\"");
	s->json = cbx_json_new_obj();
	cbx_json_set_str(s->json, "type", cbx_json_str(v, "type"));
	r = azure ? parse_azure(v, s, ret_bad, err) : parse_s3(v, s, ret_bad, err);
	if (r < 0)
		return r;
	if (cbx_json_member(v, "prefix") &&
	    (!made_of(prefix, "/", 200) || prefix[0] == '/' || strstr(prefix, "//") || strstr(prefix, "./")))
		return wrong(v, ret_bad, err, "prefix: give what names of objects begin with, such as \"codebox/\"");
	cbx_json_set_str(s->json, "prefix", prefix);
	return 0;
}

int cbx_object_store_parse(const cJSON *v, struct cbx_object_store *s, const cJSON **ret_bad, struct cbx_err *err)
{
	static const char remedy[] = "secret: name where it is, as in {\"environment\": \"STORE_SECRET\"}, {\"file\": "
				     "\"/etc/codebox/store.secret\"} or {\"credential\": \"store\"}; a policy has no "
				     "secret itself";
	int r = cbx_object_store_parse_place(v, s, ret_bad, err);

	if (r < 0)
		return r;
	v = cbx_json_member(v, "secret");
	return cbx_secret_ref_parse(v, &s->secret) ? 0 : wrong(v ? v : *ret_bad, ret_bad, err, remedy);
}

void cbx_object_store_copy(struct cbx_object_store *to, const struct cbx_object_store *from)
{
	to->json = from->json ? cJSON_Duplicate(from->json, 1) : NULL;
	cbx_secret_ref_copy(&to->secret, &from->secret);
}

void cbx_object_store_release(struct cbx_object_store *s)
{
	cJSON_Delete(take_ptr(&s->json));
	cbx_secret_ref_release(&s->secret);
}

void cbx_object_store_to_json(const struct cbx_object_store *s, cJSON *group)
{
	static const struct {
		const char *name, *s3, *azure;
	} names[] = { { "user", "access_key", "account" }, { "bucket", "bucket", "container" } };
	bool azure = strcmp(cbx_json_str(s->json, "type"), "azure") == 0;
	cJSON *o, *m;

	if (!s->json)
		return;
	o = cbx_json_new_obj();
	cJSON_ArrayForEach(m, s->json) {
		const char *name = m->string;

		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (strcmp(m->string, names[i].name) == 0)
				name = azure ? names[i].azure : names[i].s3;
		if (m->valuestring[0])
			cbx_json_set_str(o, name, m->valuestring);
	}
	cbx_secret_ref_to_json(&s->secret, o, "secret");
	cbx_json_set(group, "store", o);
}

/* clang-format off */
#define JSON(...) #__VA_ARGS__
static const char store_schema[] = JSON({"type":"object",
"description":"The object store that artifacts are copied to, from where their links lead",
"required":["type","endpoint","secret"],"additionalProperties":false,"properties":{
"type":{"enum":["s3","azure"]},
"endpoint":{"type":"string","description":"Its address, of https, or on this machine"},
"region":{"type":"string"},
"bucket":{"type":"string"},
"prefix":{"type":"string","description":"What names of objects begin with"},
"access_key":{"type":"string","description":"The id of an access key"},
"account":{"type":"string","description":"Of Azure"},
"container":{"type":"string","description":"Of Azure"},
"secret":{"type":"object","description":"Where it is","minProperties":1,"maxProperties":1,"additionalProperties":false,
"properties":{"environment":{"type":"string"},"file":{"type":"string"},"credential":{"type":"string"}}}}});
/* clang-format on */

static const char stores_schema[] = "{\"type\":\"array\",\"maxItems\":64,\"description\":\"Hosts of Azure Blob that a "
				    "request may name in a connection string; if omitted, none\",\"items\":{\"type\":"
				    "\"string\"}}";

void cbx_object_store_schema(cJSON *properties)
{
	cbx_json_set(properties, "stores", cJSON_Parse(stores_schema));
	cbx_json_set(properties, "store", cJSON_Parse(store_schema));
}
