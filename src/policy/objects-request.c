/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a request's connection string, as Azure Storage has them, is taken apart: what it says becomes a
 * store, which is held to what a policy's own is held to, and whose host the policy must name. Its secret is what
 * codebox-upload would take of a policy's, a key or a shared access signature.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "policy/objects.h"

#define CONTAINER "code-interpreter-artifacts"

static const char *const members[] = {
	"DefaultEndpointsProtocol", "AccountName",   "AccountKey",    "EndpointSuffix", "BlobEndpoint",
	"SharedAccessSignature",    "QueueEndpoint", "TableEndpoint", "FileEndpoint"
};

static int refuse(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "invalid_argument", EINVAL, "%s", what);
}

static int read_members(const char *text, cJSON *said, struct cbx_err *err)
{
	_cleanup_free_ char *copy = cbx_xstrdup(text);
	int r = 0;

	for (char *rest = copy, *pair; r == 0 && (pair = strsep(&rest, ";"));) {
		char *equals = strchr(pair, '=');
		const char *name = NULL;

		if (!*pair)
			continue;
		for (size_t i = 0; equals && i < ARRAY_SIZE(members); i++)
			if (strlen(members[i]) == (size_t)(equals - pair) &&
			    strncmp(members[i], pair, (size_t)(equals - pair)) == 0)
				name = members[i];
		if (!name) /* it may be the rest of a secret, and is not shown */
			r = refuse(err,
				   "give a connection string of Azure Storage, of members such as AccountName=NAME");
		else if (cJSON_HasObjectItem(said, name))
			r = cbx_refuse(err, "invalid_argument", EINVAL, "it says %s twice; say it once", name);
		else
			cbx_json_set_str(said, name, equals + 1);
	}
	explicit_bzero(copy, strlen(text));
	return r;
}

/* "https://ACCOUNT.blob.core.windows.net", or what is said in place of that. */
static char *endpoint_of(const cJSON *said)
{
	const char *protocol = cbx_json_text(said, "DefaultEndpointsProtocol"),
		   *suffix = cbx_json_text(said, "EndpointSuffix");
	char *endpoint =
		cbx_json_text(said, "BlobEndpoint")
			? cbx_xstrdup(cbx_json_text(said, "BlobEndpoint"))
			: cbx_xasprintf("%s://%s.blob.%s", protocol ? protocol : "https",
					cbx_json_str(said, "AccountName"), suffix ? suffix : "core.windows.net");
	size_t n = strlen(endpoint);

	if (n && endpoint[n - 1] == '/')
		endpoint[n - 1] = '\0';
	return endpoint;
}

/* Of a string with a signature, which need not say it: the first part of its host, or what follows an emulator's. */
static char *account_of(const cJSON *said, const char *endpoint)
{
	const char *host = strstr(endpoint, "://"), *path;

	if (cbx_json_text(said, "AccountName") || !host)
		return cbx_xstrdup(cbx_json_str(said, "AccountName"));
	host += 3;
	path = strchr(host, '/');
	return path ? cbx_xstrdup(path + 1) : cbx_xasprintf("%.*s", (int)strcspn(host, ".:"), host);
}

static int check_host(const struct cbx_servers *allowed, const char *endpoint, struct cbx_err *err)
{
	bool secure = cbx_starts_with(endpoint, "https://");
	const char *host = strstr(endpoint, "://") + 3;
	uint16_t usual = secure ? 443 : 80, port = usual;
	struct cbx_host h;

	/* It was checked. */
	if (cbx_host_parse_port(host, strcspn(host, "/"), &h, &port))
		return refuse(err, "its endpoint is not an address");
	if (cbx_servers_allow(allowed, &h, port, usual))
		return 0;
	return cbx_refuse(err, "server_not_allowed", EPERM,
			  "the policy does not let requests name %s, port %u (artifacts.stores, codebox-policy(5)); ask "
			  "whoever runs codebox",
			  h.name, port);
}

static int build(const struct cbx_servers *allowed, const cJSON *said, const char *container, cJSON **ret,
		 struct cbx_err *err)
{
	_cleanup_free_ char *endpoint = endpoint_of(said), *account = account_of(said, endpoint);
	_cleanup_json_ cJSON *o = cbx_json_new_obj();
	struct cbx_object_store store = { 0 };
	const cJSON *ignored;
	int r;

	cbx_json_set_str(o, "type", "azure");
	cbx_json_set_str(o, "endpoint", endpoint);
	cbx_json_set_str(o, "account", account);
	cbx_json_set_str(o, "container", container ? container : CONTAINER);
	r = cbx_object_store_parse_place(o, &store, &ignored, err);
	if (r < 0)
		snprintf(err->kind, sizeof(err->kind), "invalid_argument"); /* a request's, not a policy's */
	else
		r = check_host(allowed, cbx_json_str(store.json, "endpoint"), err);
	if (r >= 0)
		*ret = take_ptr(&store.json);
	cbx_object_store_release(&store);
	return r;
}

int cbx_object_store_of_string(const struct cbx_servers *allowed, const char *text, const char *container, cJSON **ret,
			       char **ret_secret, struct cbx_err *err)
{
	cJSON *said = cbx_json_new_obj();
	const char *secret;
	int r;

	*ret = NULL;
	*ret_secret = NULL;
	if (strlen(text) > CBX_SQL_STRING_MAX || !cbx_plain(text) || !cbx_utf8_valid(text, strlen(text)))
		r = cbx_refuse(err, "invalid_argument", EINVAL, "give up to %d bytes of text", CBX_SQL_STRING_MAX);
	else
		r = read_members(text, said, err);
	secret = cbx_json_text(said, "AccountKey");
	secret = secret ? secret : cbx_json_text(said, "SharedAccessSignature");
	if (r >= 0 && (!secret || !*secret))
		r = refuse(err, "it has neither AccountKey nor SharedAccessSignature; add one of them");
	if (r >= 0)
		r = build(allowed, said, container, ret, err);
	if (r >= 0)
		*ret_secret = cbx_xstrdup(secret);
	cbx_json_wipe(said);
	return r;
}
