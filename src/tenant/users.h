/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TENANT_USERS_H
#define CBX_TENANT_USERS_H

/* "users" of a tenant that is being read, and is in `all` already: no user is that of two tenants. */
#include "base/json.h"
#include "policy/source.h"
#include "tenant/tenant.h"

int cbx_users_parse(const struct cbx_source *source, const cJSON *list, const struct cbx_tenants *all,
		    struct cbx_tenant *t, struct cbx_err *err);

#endif
