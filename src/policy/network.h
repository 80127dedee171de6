/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_NETWORK_H
#define CBX_POLICY_NETWORK_H

/*
 * What a session may reach: the value of "network" in a policy, and its judgement of one destination. The policy's
 * parser and codebox-proxy read it by the same function, so both mean the same.
 *
 * A rule with methods or paths speaks of requests that can be read: it allows plain HTTP only, never a tunnel.
 * Addresses that are not public (cbx_ip_special()) are refused unless a rule names them.
 *
 * A rule with secrets is about requests to one host, to each of which codebox-proxy adds headers that code never sees.
 * So it reads what goes there by HTTPS, too; so methods and paths are known.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "policy/host.h"
#include "policy/secret.h"

enum cbx_net_kind {
	CBX_NET_ANY,     /* "*": every name, and every public address */
	CBX_NET_SUFFIX,  /* "*.example.org": all below it, not itself */
	CBX_NET_NAME,
	CBX_NET_ADDRESS, /* one, or a range: only for those who name an address */
};

struct cbx_net_secret {
	char *header;
	char *value; /* of the header; "{}" in it, once, is where the secret goes */
	struct cbx_secret_ref place;
};

struct cbx_net_rule {
	enum cbx_net_kind kind;
	char *host; /* as it is printed; a suffix with its "*" */
	struct cbx_ip_range range; /* ADDRESS */
	uint16_t *ports;
	size_t nports; /* at least one */
	char **methods, **paths; /* none: all */
	size_t nmethods, npaths;
	struct cbx_ip_range *addresses; /* not public, and allowed nevertheless when the name has them */
	size_t naddresses;
	struct cbx_net_secret *secrets;
	size_t nsecrets;
	bool plain; /* they may go by plain HTTP, too */
};

/* A zeroed struct is "none". */
struct cbx_network {
	bool allow; /* by the proxy: what the rules say */
	bool open;  /* all that is public, by a route; then nothing else here counts */
	struct cbx_net_rule *rules;
	size_t n;
	uint64_t connections; /* at once */
	uint64_t bytes;	      /* of the session, both ways; 0: no limit */
	uint64_t time_ms;     /* of one connection */
};

/* Read a value. On failure there is nothing to release, and *ret_bad (may be NULL) is the node that is wrong. Messages
 * begin with "network". */
int cbx_network_parse(const cJSON *v, struct cbx_network *ret, const cJSON **ret_bad, struct cbx_err *err);
void cbx_network_release(struct cbx_network *net);
/* "none", "open", or an object that cbx_network_parse() reads as the same. */
cJSON *cbx_network_to_json(const struct cbx_network *net);
cJSON *cbx_network_schema(void);
/* For people: "pypi.org, *.example.org:443"; nothing: "none"; all: "open". */
void cbx_network_print(const struct cbx_network *net, struct cbx_buf *out);
void cbx_network_copy(struct cbx_network *to, const struct cbx_network *from);
/* What both allow. */
void cbx_network_narrow(struct cbx_network *ret, const struct cbx_network *a, const struct cbx_network *b);

struct cbx_net_target {
	const struct cbx_host *host;
	uint16_t port;
	const char *method, *path; /* of a request that can be read; NULL: a tunnel */
	bool tls;		   /* the request came by HTTPS */
	bool overrides;		   /* its headers have another method or path, which the server may take instead */
};

/* Whether any rule has secrets. */
bool cbx_network_adds(const struct cbx_network *net);
/* What is sent to this host and port by TLS is to be read: a rule has secrets for it. */
bool cbx_network_opens(const struct cbx_network *net, const struct cbx_net_target *t);

/* Whether any rule is about this host and port, for a request that will be read later; before it is resolved. */
bool cbx_network_knows(const struct cbx_network *net, const struct cbx_net_target *t);
/* The first rule that allows the target, or NULL. ip: what it has been resolved to; NULL: not yet. */
const struct cbx_net_rule *cbx_network_allows(const struct cbx_network *net, const struct cbx_net_target *t,
					      const struct cbx_ip *ip);

/* network-secrets.c, for the files of this policy: the value of a rule's "secrets". */
struct cbx_net_bad { /* where a message about a value goes */
	const cJSON **node;
	struct cbx_err *err;
};
int cbx_net_secrets_parse(const struct cbx_net_bad *bad, const cJSON *list, struct cbx_net_rule *r);
void cbx_net_secrets_release(struct cbx_net_rule *r);
void cbx_net_secrets_copy(struct cbx_net_rule *to, const struct cbx_net_rule *from);
bool cbx_net_secrets_equal(const struct cbx_net_rule *a, const struct cbx_net_rule *b);
cJSON *cbx_net_secrets_to_json(const struct cbx_net_rule *r);

#endif
