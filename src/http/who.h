/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_WHO_H
#define CBX_HTTP_WHO_H

/* From whom a request is: what the gate has found out. It counts for its tenant until it is released. */
#include <stddef.h>
#include <string.h>

#include "tenant/tenant.h"

struct cbx_http_who {
	const struct cbx_principal *principal; /* NULL: nobody; it may have what everybody may */
	struct cbx_tenant *tenant;	       /* NULL: the user who runs codeboxd */
	unsigned scopes;		       /* enum cbx_scope */
	char token[CBX_VIA_TOKEN];	       /* what was shown: the token's id, or "jwt:" and its subject */
	int64_t expires;		       /* seconds since 1970; 0: never */
	bool jwt, user; /* user: it is known by the user who connected, "uid:" and its number */
	uid_t uid;
	unsigned char voucher[32]; /* of a JWT: with which keys and rules it was good */
};

static inline void cbx_http_who_release(struct cbx_http_who *who)
{
	if (who->tenant)
		who->tenant->at_once--;
	memset(who, 0, sizeof(*who));
}

#endif
