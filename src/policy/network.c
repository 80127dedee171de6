/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

static void free_texts(char **all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(all[i]);
	free(all);
}

static void rule_release(struct cbx_net_rule *r)
{
	free_texts(r->methods, r->nmethods);
	free_texts(r->paths, r->npaths);
	free(r->host);
	free(r->ports);
	free(r->addresses);
	cbx_net_secrets_release(r);
}

void cbx_network_release(struct cbx_network *net)
{
	for (size_t i = 0; i < net->n; i++)
		rule_release(&net->rules[i]);
	free(net->rules);
	memset(net, 0, sizeof(*net));
}

/* ---- reading ---- */

#define REFUSE(rd, at, ...)                                                                                            \
	(*(rd)->node = (at), cbx_refuse((rd)->err, "invalid_argument", EINVAL, "network: " __VA_ARGS__))

static int set_host(const struct cbx_net_bad *rd, const cJSON *v, const char *text, size_t n, struct cbx_net_rule *r)
{
	_cleanup_free_ char *copy = strndup(text, n);
	const char *name = copy && cbx_starts_with(copy, "*.") ? copy + 2 : copy, *why;
	struct cbx_host host;
	char range[50];

	if (!copy)
		return REFUSE(rd, v, "no memory");
	if (strcmp(copy, "*") == 0) {
		r->kind = CBX_NET_ANY;
		r->host = cbx_xstrdup(copy);
		return 0;
	}
	if (strchr(copy, '/') || (copy[0] != '[' && strchr(copy, ':'))) {
		why = cbx_ip_range_parse(copy, &r->range);
		if (why)
			return REFUSE(rd, v, "\"%.80s\" is not a range of addresses: %s", copy, why);
		r->kind = CBX_NET_ADDRESS;
	} else {
		why = cbx_host_parse(name, strlen(name), &host);
		if (!why && host.literal && name != copy)
			why = "an address has nothing below it";
		if (why)
			return REFUSE(rd, v, "\"%.80s\" is not a host: %s", copy, why);
		r->kind = host.literal ? CBX_NET_ADDRESS : name == copy ? CBX_NET_NAME : CBX_NET_SUFFIX;
		r->range = (struct cbx_ip_range){ host.ip, host.ip.v6 ? 128 : 32 };
	}
	if (r->kind == CBX_NET_ADDRESS) {
		cbx_ip_range_print(&r->range, range);
		r->host = cbx_xstrdup(range);
	} else {
		r->host = cbx_xasprintf("%s%s", r->kind == CBX_NET_SUFFIX ? "*." : "", host.name);
	}
	return 0;
}

static void add_port(struct cbx_net_rule *r, uint16_t port)
{
	r->ports = cbx_xrealloc(r->ports, (r->nports + 1) * sizeof(*r->ports));
	r->ports[r->nports++] = port;
}

/* "host", "host:port", "[v6]:port" */
static int parse_short(const struct cbx_net_bad *rd, const cJSON *v, struct cbx_net_rule *r)
{
	const char *s = v->valuestring, *close = s[0] == '[' ? strchr(s, ']') : NULL;
	const char *colon = close ? close + 1 : strchr(s, ':');
	uint16_t port;

	if (!close && colon && strchr(colon + 1, ':'))
		colon = NULL; /* an IPv6 address or range */
	if (colon && *colon == ':') {
		if (!cbx_port_parse(colon + 1, strlen(colon + 1), &port))
			return REFUSE(rd, v, "\"%.80s\": a port is a number from 1 to 65535", s);
		add_port(r, port);
		return set_host(rd, v, s, (size_t)(colon - s), r);
	}
	return set_host(rd, v, s, strlen(s), r);
}

static int parse_ports(const struct cbx_net_bad *rd, const cJSON *list, struct cbx_net_rule *r)
{
	const cJSON *v;

	if (!cJSON_IsArray(list) || !list->child)
		return REFUSE(rd, list, "ports: give a list of numbers, as in [443]");
	cJSON_ArrayForEach(v, list) {
		double d = cJSON_IsNumber(v) ? v->valuedouble : 0;

		if (!(d >= 1 && d <= 65535) || d != (double)(uint16_t)d)
			return REFUSE(rd, v, "ports: a port is a number from 1 to 65535");
		if (r->nports == CBX_NETWORK_LIST_MAX)
			return REFUSE(rd, v, "ports: too many; up to %d are allowed", CBX_NETWORK_LIST_MAX);
		add_port(r, (uint16_t)d);
	}
	return 0;
}

static bool method_valid(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-");

	return n && n < 24 && !s[n] && strcmp(s, "CONNECT") != 0;
}

static bool path_valid(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] & 0x80 || strchr("\\%?#\x7f", s[i]))
			return false;
	return s[0] == '/' && n < 256 && !strstr(s, "/./") && !strstr(s, "/../");
}

static int parse_texts(const struct cbx_net_bad *rd, const cJSON *list, const char *hint, bool (*valid)(const char *),
		       char ***all, size_t *n)
{
	const cJSON *v;

	if (!cJSON_IsArray(list) || !list->child)
		return REFUSE(rd, list, "%s: give a list of %s", list->string, hint);
	cJSON_ArrayForEach(v, list) {
		if (!cJSON_IsString(v) || !valid(v->valuestring))
			return REFUSE(rd, v, "%s: give %s", list->string, hint);
		if (*n == CBX_NETWORK_LIST_MAX)
			return REFUSE(rd, v, "%s: too many; up to %d are allowed", list->string, CBX_NETWORK_LIST_MAX);
		*all = cbx_xrealloc(*all, (*n + 1) * sizeof(**all));
		(*all)[(*n)++] = cbx_xstrdup(v->valuestring);
	}
	return 0;
}

static void add_address(struct cbx_net_rule *r, const struct cbx_ip_range *range)
{
	r->addresses = cbx_xrealloc(r->addresses, (r->naddresses + 1) * sizeof(*r->addresses));
	r->addresses[r->naddresses++] = *range;
}

static int parse_addresses(const struct cbx_net_bad *rd, const cJSON *list, struct cbx_net_rule *r)
{
	const cJSON *v;

	if (!cJSON_IsArray(list))
		return REFUSE(rd, list, "addresses: give a list, as in [\"10.1.2.3\", \"10.2.0.0/16\"]");
	cJSON_ArrayForEach(v, list) {
		const char *s = cJSON_IsString(v) ? v->valuestring : "";
		struct cbx_ip_range range;
		const char *why = cbx_ip_range_parse(s, &range);

		if (why)
			return REFUSE(rd, v, "addresses: \"%.80s\": %s", s, why);
		if (r->naddresses == CBX_NETWORK_LIST_MAX)
			return REFUSE(rd, v, "addresses: too many; up to %d are allowed", CBX_NETWORK_LIST_MAX);
		add_address(r, &range);
	}
	return 0;
}

static int parse_member(const struct cbx_net_bad *rd, const cJSON *v, struct cbx_net_rule *r)
{
	if (strcmp(v->string, "ports") == 0)
		return parse_ports(rd, v, r);
	if (strcmp(v->string, "methods") == 0)
		return parse_texts(rd, v, "methods, as in [\"GET\"]", method_valid, &r->methods, &r->nmethods);
	if (strcmp(v->string, "paths") == 0)
		return parse_texts(rd, v, "paths that begin with \"/\" and have no \"%\" and \"..\", as in [\"/v1/\"]",
				   path_valid, &r->paths, &r->npaths);
	if (strcmp(v->string, "addresses") == 0)
		return parse_addresses(rd, v, r);
	if (strcmp(v->string, "secrets") == 0)
		return cbx_net_secrets_parse(rd, v, r);
	if (strcmp(v->string, "plain") == 0) {
		r->plain = cJSON_IsTrue(v);
		return cJSON_IsBool(v) ? 0 : REFUSE(rd, v, "plain: give true or false");
	}
	return strcmp(v->string, "host") == 0 ? 0
					      : REFUSE(rd, v,
						       "unknown key \"%.80s\"; accepted are: host, ports, methods, "
						       "paths, addresses, secrets, plain",
						       v->string);
}

static int parse_rule(const struct cbx_net_bad *rd, const cJSON *v, struct cbx_net_rule *r)
{
	const cJSON *host = cJSON_IsObject(v) ? cbx_json_member(v, "host") : NULL, *m;
	int n;

	if (!cJSON_IsString(v) && !cJSON_IsString(host))
		return REFUSE(
			rd, v,
			"allow: give names of hosts, or objects as in {\"host\": \"example.org\", \"ports\": [443]}");
	n = cJSON_IsString(v) ? parse_short(rd, v, r)
			      : set_host(rd, host, host->valuestring, strlen(host->valuestring), r);
	if (n < 0)
		return n;
	if (cJSON_IsObject(v))
		cJSON_ArrayForEach(m, v)
			if ((n = parse_member(rd, m, r)) < 0)
				return n;
	if (r->naddresses && r->kind == CBX_NET_ADDRESS)
		return REFUSE(rd, v, "addresses: \"%s\" is one already", r->host);
	if (r->nsecrets && r->kind != CBX_NET_NAME)
		return REFUSE(rd, v, "secrets: \"%s\" is not the name of one host; a secret is for one", r->host);
	if (r->plain && !r->nsecrets)
		return REFUSE(rd, v, "plain: there are no secrets that may go by plain HTTP");
	if (!r->nports) {
		if (!r->nsecrets || r->plain)
			add_port(r, 80);
		add_port(r, 443);
	}
	return 0;
}

static int parse_rules(const struct cbx_net_bad *rd, const cJSON *list, struct cbx_network *net)
{
	const cJSON *v;
	int r;

	if (!cJSON_IsArray(list))
		return REFUSE(rd, list, "allow: give a list, as in [\"pypi.org\", \"*.pythonhosted.org\"]");
	cJSON_ArrayForEach(v, list) {
		if (net->n == CBX_NETWORK_RULES_MAX)
			return REFUSE(rd, v, "allow: too many; up to %d are allowed", CBX_NETWORK_RULES_MAX);
		net->rules = cbx_xrealloc(net->rules, (net->n + 1) * sizeof(*net->rules));
		memset(&net->rules[net->n], 0, sizeof(*net->rules));
		r = parse_rule(rd, v, &net->rules[net->n++]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int parse_limit(const struct cbx_net_bad *rd, const cJSON *v, struct cbx_network *net)
{
	struct cbx_err why = { 0 };
	bool number = cJSON_IsNumber(v);
	_cleanup_free_ char *text =
		number ? cbx_xasprintf("%.17g", v->valuedouble) : cbx_xstrdup(cJSON_IsString(v) ? v->valuestring : "");
	int r;

	if (strcmp(v->string, "connections") == 0)
		r = cbx_parse_u64(text, v->string, 1, CBX_NETWORK_CONNECTIONS_MAX, &net->connections, &why);
	else if (strcmp(v->string, "bytes") == 0)
		r = cbx_parse_size(text, v->string, 0, GIB(65536), &net->bytes, &why);
	else if (strcmp(v->string, "time") == 0)
		r = cbx_parse_duration_ms(text, v->string, 1000, CBX_TTL_MAX_S * 1000ull, &net->time_ms, &why);
	else
		return REFUSE(rd, v, "unknown key \"%.80s\"; accepted are: allow, connections, bytes, time", v->string);
	return r < 0 ? REFUSE(rd, v, "%s", why.msg) : 0;
}

static int parse(const struct cbx_net_bad *rd, const cJSON *v, struct cbx_network *net)
{
	const cJSON *m;
	int r = 0;

	if (cJSON_IsString(v) && strcmp(v->valuestring, "none") == 0)
		return 0;
	net->open = cJSON_IsString(v) && strcmp(v->valuestring, "open") == 0;
	if (net->open)
		return 0;
	if (!cJSON_IsObject(v) || !cbx_json_member(v, "allow"))
		return REFUSE(rd, v, "give \"none\", \"open\", or what may be reached, as in {\"allow\": [\"pypi.org\"]}");
	net->allow = true;
	net->connections = CBX_NETWORK_CONNECTIONS_DEFAULT;
	net->time_ms = CBX_NETWORK_TIME_DEFAULT_MS;
	cJSON_ArrayForEach(m, v) {
		r = strcmp(m->string, "allow") == 0 ? parse_rules(rd, m, net) : parse_limit(rd, m, net);
		if (r < 0)
			return r;
	}
	return 0;
}

int cbx_network_parse(const cJSON *v, struct cbx_network *ret, const cJSON **ret_bad, struct cbx_err *err)
{
	const cJSON *ignored;
	struct cbx_net_bad rd = { ret_bad ? ret_bad : &ignored, err };
	int r;

	*rd.node = v;
	memset(ret, 0, sizeof(*ret));
	r = parse(&rd, v, ret);
	if (r < 0)
		cbx_network_release(ret);
	return r;
}

/* ---- writing ---- */

static bool standard_ports(const struct cbx_net_rule *r)
{
	return r->nports == 2 && r->ports[0] == 80 && r->ports[1] == 443;
}

static void set_texts(cJSON *o, const char *key, char *const *all, size_t n)
{
	cJSON *list = n ? cbx_json_new_arr() : NULL;

	for (size_t i = 0; i < n; i++)
		cbx_json_push_str(list, all[i]);
	if (list)
		cbx_json_set(o, key, list);
}

static cJSON *rule_json(const struct cbx_net_rule *r)
{
	cJSON *o = cbx_json_new_obj(), *ports = cbx_json_new_arr(), *list;
	char text[50];

	cbx_json_set_str(o, "host", r->host);
	for (size_t i = 0; i < r->nports; i++) {
		_cleanup_json_ cJSON *one = cbx_json_new_obj();

		cbx_json_set_u64(one, "p", r->ports[i]);
		cbx_json_push(ports, cJSON_DetachItemViaPointer(one, one->child));
	}
	cbx_json_set(o, "ports", ports);
	set_texts(o, "methods", r->methods, r->nmethods);
	set_texts(o, "paths", r->paths, r->npaths);
	if (r->nsecrets)
		cbx_json_set(o, "secrets", cbx_net_secrets_to_json(r));
	if (r->plain)
		cbx_json_set_bool(o, "plain", true);
	if (r->naddresses) {
		list = cbx_json_new_arr();
		for (size_t i = 0; i < r->naddresses; i++) {
			cbx_ip_range_print(&r->addresses[i], text);
			cbx_json_push_str(list, text);
		}
		cbx_json_set(o, "addresses", list);
	}
	return o;
}

cJSON *cbx_network_to_json(const struct cbx_network *net)
{
	cJSON *o = cbx_json_new_obj(), *list;

	if (!net->allow) {
		cbx_json_set_str(o, "v", net->open ? "open" : "none");
		list = cJSON_DetachItemViaPointer(o, o->child);
		cJSON_Delete(o);
		return list;
	}
	list = cbx_json_new_arr();
	for (size_t i = 0; i < net->n; i++)
		cbx_json_push(list, rule_json(&net->rules[i]));
	cbx_json_set(o, "allow", list);
	cbx_json_set_u64(o, "connections", net->connections);
	cbx_json_set_u64(o, "bytes", net->bytes);
	cbx_json_set_u64(o, "time", net->time_ms / 1000);
	return o;
}

void cbx_network_print(const struct cbx_network *net, struct cbx_buf *out)
{
	if (!net->allow)
		cbx_buf_adds(out, net->open ? "open" : "none");
	else if (!net->n)
		cbx_buf_adds(out, "nothing");
	for (size_t i = 0; i < net->n; i++) {
		const struct cbx_net_rule *r = &net->rules[i];

		cbx_buf_addf(out, "%s%s", i ? ", " : "", r->host);
		for (size_t k = 0; !standard_ports(r) && k < r->nports; k++)
			cbx_buf_addf(out, "%c%u", k ? '/' : ':', r->ports[k]);
		for (size_t k = 0; k < r->nsecrets; k++)
			cbx_buf_addf(out, "%s%s", k ? ", " : " with ", r->secrets[k].header);
	}
}

cJSON *cbx_network_schema(void)
{
	static const char text[] =
		"{\"description\":\"What sessions may reach: nothing but their own loopback, all that is public, or these "
		"hosts, through a proxy\",\"anyOf\":[{\"enum\":[\"none\",\"open\"]},{\"type\":\"object\",\"properties\":{"
		"\"allow\":{\"description\":\"Hosts: a name, *.name for all below it, * for all, an address or a range "
		"of them\",\"type\":\"array\",\"maxItems\":64,\"items\":{\"anyOf\":[{\"type\":\"string\"},{"
		"\"type\":\"object\",\"properties\":{\"host\":{\"type\":\"string\"},\"ports\":{\"description\":\"80 "
		"and "
		"443 if omitted\",\"type\":\"array\",\"minItems\":1,\"maxItems\":16,\"items\":{\"type\":\"integer\","
		"\"minimum\":1,\"maximum\":65535}},\"methods\":{\"description\":\"Of plain HTTP; no tunnels\",\"type\":"
		"\"array\",\"minItems\":1,\"maxItems\":16,\"items\":{\"type\":\"string\",\"pattern\":\"^[A-Z-]{1,23}$"
		"\"}},"
		"\"paths\":{\"description\":\"What the path begins with, of plain HTTP; no "
		"tunnels\",\"type\":\"array\","
		"\"minItems\":1,\"maxItems\":16,\"items\":{\"type\":\"string\",\"pattern\":\"^/[^%?#]*$\"}},"
		"\"addresses\":{\"description\":\"Addresses or ranges that are not public, which the name may have\","
		"\"type\":\"array\",\"maxItems\":16,\"items\":{\"type\":\"string\"}},"
		"\"secrets\":{\"description\":\"Headers that the proxy adds to requests, and code never sees\","
		"\"type\":\"array\",\"maxItems\":4,\"minItems\":1,\"items\":{\"type\":\"object\",\"properties\":{"
		"\"header\":{\"type\":\"string\"},\"value\":{\"description\":\"With {} where the secret goes\","
		"\"type\":\"string\"},\"environment\":{\"description\":\"A variable of codeboxd's environment\","
		"\"type\":\"string\"},\"file\":{\"type\":\"string\"},\"credential\":{\"description\":"
		"\"Of systemd's\",\"type\":\"string\"}},\"required\":[\"header\"],\"additionalProperties\":false}},"
		"\"plain\":{\"description\":\"The secrets may go by plain HTTP, too\",\"type\":\"boolean\"}},"
		"\"required\":[\"host\"],"
		"\"additionalProperties\":false}]}},"
		"\"connections\":{\"description\":\"At once\",\"type\":[\"integer\",\"string\"],\"minimum\":1,"
		"\"maximum\":1024},"
		"\"bytes\":{\"description\":\"Of the session, both ways; 0 for no limit\",\"type\":[\"integer\","
		"\"string\"],\"minimum\":0},"
		"\"time\":{\"description\":\"How long one connection may last\",\"type\":[\"integer\",\"string\"],"
		"\"minimum\":1}},\"required\":[\"allow\"],\"additionalProperties\":false}]}";

	return cJSON_Parse(text);
}
