/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROXY_SECRETS_H
#define CBX_PROXY_SECRETS_H

/* The secrets that the rules of a session name, and what hides them in answers. */
#include "base/limits.h"
#include "policy/network.h"
#include "proxy/head.h"

struct secret {
	const struct cbx_net_rule *rule; /* that it is of */
	struct cbx_added added;		 /* the line is owned */
	char *value;			 /* owned */
	char *why;			 /* it is missing: why, for people; owned */
};

struct secrets {
	struct secret *all;
	size_t n;
	size_t longest; /* bytes of one */
};

/* All that the rules name, as proxy/protocol.h says. One that is not known, or of no use, is kept with its reason.
 * False: it is not what was to be sent. */
bool secrets_take(const struct cbx_network *net, const char *p, size_t n, struct secrets *ret);

/* What is added to a request that this rule allows: how many, at most CBX_NETWORK_SECRETS_MAX. *ret_why: the first that
 * is missing, or NULL. */
size_t secrets_added(const struct secrets *all, const struct cbx_net_rule *rule, struct cbx_added *ret,
		     const char **ret_why);

/*
 * An answer may show what the request had. Every secret in n bytes is overwritten with stars; returns how many bytes
 * can be passed on: those behind may be the beginning of one, and are to be given again with more behind them. end: no
 * more comes.
 */
size_t secrets_hide(const struct secrets *all, char *p, size_t n, bool end);

#endif
