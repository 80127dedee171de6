/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_CONDA_H
#define CBX_PACKAGES_CONDA_H

/* What is conda's own of rules.h: how its packages are asked for, what a resolver says of one, and channels. */
#include "packages/condaversion.h"
#include "packages/rules.h"

/* Lower-case letters, digits, "_", "-" and ".". */
bool cbx_conda_name(const char *p, size_t n);
/* "conda:name>=1.2,<2"; not as a rule also "conda:name=1.2=build*" and "|". The name keeps its "conda:" and becomes
 * lower case. */
int cbx_conda_requirement(const char *text, bool rule, struct cbx_requirement *ret, struct cbx_err *err);

/* {"name":"conda:…","version","build","subdir","file","url","sha256"}: `via` and `size` are read by the caller. The
 * address ends in "/subdir/file". */
int cbx_conda_read(const cJSON *o, struct cbx_wheel *w, struct cbx_err *err);

#define CBX_CONDA_SITE	"https://conda.anaconda.org/" /* where channels are that have a name alone */
#define CBX_CHANNEL_MAX 300			      /* bytes of one's address */
/* The address of a channel, "conda-forge" or "https://host/path", ending in "/"; malloc'd. NULL: it is not one. */
char *cbx_conda_channel(const char *text);
/* What stands behind the channel in the address of its file; NULL: it is not of this channel. */
const char *cbx_conda_within(const char *channel, const char *url);
/* "noarch/repodata.json" or the like: the list of packages of a directory of a channel. */
bool cbx_conda_is_list(const char *path);

#endif
