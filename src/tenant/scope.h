/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TENANT_SCOPE_H
#define CBX_TENANT_SCOPE_H

#include "base/err.h"

/* What a token is good for; a request needs one of these. */
enum cbx_scope {
	CBX_SCOPE_READ = 1,    /* look at sessions, executions and files */
	CBX_SCOPE_RUN = 2,     /* everything else */
	CBX_SCOPE_METRICS = 4, /* what codeboxd counts, of all tenants */
};
#define CBX_SCOPES_USUAL (CBX_SCOPE_READ | CBX_SCOPE_RUN) /* of a token that is made without */
#define CBX_SCOPES_ALL	 (CBX_SCOPES_USUAL | CBX_SCOPE_METRICS)

/* "read", "run", "metrics" or several with commas between; -EINVAL with an error that says so. */
int cbx_scopes_parse(const char *text, unsigned *ret, struct cbx_err *err);
const char *cbx_scopes_name(unsigned scopes);

#endif
