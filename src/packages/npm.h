/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_NPM_H
#define CBX_PACKAGES_NPM_H

/* What is npm's own of rules.h: how its packages are asked for, and what a resolver says of one. */
#include "packages/rules.h"
#include "packages/semver.h"

/* "npm:@scope/name@^1.2 || 3"; a tag ("@next") where it is not a rule. The name keeps its "npm:", and what is said of
 * versions its "@". */
int cbx_npm_requirement(const char *text, bool rule, struct cbx_requirement *ret, struct cbx_err *err);
/* Whether all of "@^1.2,@<1.5" hold. any_pre: semver.h. */
bool cbx_npm_holds(const char *specifiers, const char *version, bool any_pre);

/* {"name":"npm:…","version","place":"node_modules/…","url","sha512"}: where `via` and `size` are read by the caller. A
 * place is made of "node_modules" and names in turn. */
int cbx_npm_read(const cJSON *o, struct cbx_wheel *w, struct cbx_err *err);

#endif
