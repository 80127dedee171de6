/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_SERVERS_H
#define CBX_POLICY_SERVERS_H

/* Servers that a request may name, in a policy: "HOST" or "*.DOMAIN", each with ":PORT" or not. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "policy/host.h"

struct cbx_servers {
	char **names; /* as they are printed */
	size_t n;
};

/* Read a list, which replaces what was there. On failure *ret_bad is the node that is wrong, and messages begin with
 * its key. */
int cbx_servers_parse(const cJSON *v, struct cbx_servers *s, const cJSON **ret_bad, struct cbx_err *err);
void cbx_servers_release(struct cbx_servers *s);
/* Those that both name, into an empty one. */
void cbx_servers_narrow(struct cbx_servers *ret, const struct cbx_servers *a, const struct cbx_servers *b);
/* Where one is named without a port, it is the usual one. */
bool cbx_servers_allow(const struct cbx_servers *s, const struct cbx_host *host, uint16_t port, uint16_t usual);
void cbx_servers_to_json(const struct cbx_servers *s, cJSON *group, const char *key); /* adds them, if there are some */

#endif
