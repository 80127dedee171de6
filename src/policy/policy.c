/* SPDX-License-Identifier: Apache-2.0 */
/* A policy without a file, and what it says to a request. */
#include "policy/policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

bool cbx_policy_settle(const struct cbx_policy *p, enum cbx_key key, bool given, uint64_t wanted, uint64_t *ret)
{
	const struct cbx_policy_value *v = &p->values[key];

	*ret = given ? cbx_key_lower(key, wanted, v->ceiling) : v->standard;
	return given && *ret != wanted;
}

bool cbx_policy_image_allowed(const struct cbx_policy *p, const char *image)
{
	bool found = !p->images;
	size_t n = strlen(image);

	if (cbx_ends_with(image, CBX_UNFINISHED)) /* no finished image has such a name */
		n -= strlen(CBX_UNFINISHED);
	for (size_t i = 0; !found && i < p->nimages; i++)
		found = strncmp(p->images[i], image, n) == 0 && !p->images[i][n];
	return found;
}

void cbx_policy_origin(const struct cbx_policy *p, struct cbx_origin from, struct cbx_buf *out)
{
	cbx_buf_adds(out, p->files[from.file]);
	if (from.file)
		cbx_buf_addf(out, ":%u", from.line);
}

struct cbx_policy *cbx_policy_new(const char *name)
{
	struct cbx_policy *p = cbx_xcalloc(1, sizeof(*p));

	p->refs = 1;
	p->name = cbx_xstrdup(name);
	p->files = cbx_xcalloc(1, sizeof(*p->files));
	p->files[p->nfiles++] = cbx_xstrdup("built-in");
	for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
		p->values[k].ceiling = cbx_keys[k].part ? cbx_key_part(k, cbx_keys[k].part) : cbx_keys[k].ceiling;
		p->values[k].standard = cbx_keys[k].server_only && cbx_keys[k].part ?
						p->values[k].ceiling :
						cbx_key_lower(k, cbx_keys[k].standard, p->values[k].ceiling);
	}
	cbx_policy_digest(p, p->digest);
	return p;
}

void cbx_policy_add_advisories(struct cbx_policy *p, const char *path)
{
	for (size_t i = 0; i < p->nadvisories; i++)
		if (strcmp(p->advisories[i], path) == 0)
			return;
	p->advisories = cbx_xrealloc(p->advisories, (p->nadvisories + 1) * sizeof(*p->advisories));
	p->advisories[p->nadvisories++] = cbx_xstrdup(path);
}

bool cbx_policy_has_channel(const struct cbx_policy *p, const char *address)
{
	for (size_t i = 0; i < p->nchannels; i++)
		if (strcmp(p->channels[i], address) == 0)
			return true;
	return false;
}

void cbx_policy_add_channel(struct cbx_policy *p, const char *address)
{
	if (cbx_policy_has_channel(p, address))
		return;
	p->channels = cbx_xrealloc(p->channels, (p->nchannels + 1) * sizeof(*p->channels));
	p->channels[p->nchannels++] = cbx_xstrdup(address);
}

void cbx_policy_clear_channels(struct cbx_policy *p)
{
	for (size_t i = 0; i < p->nchannels; i++)
		free(p->channels[i]);
	free(take_ptr(&p->channels));
	p->nchannels = 0;
}

void cbx_policy_clear_advisories(struct cbx_policy *p)
{
	for (size_t i = 0; i < p->nadvisories; i++)
		free(p->advisories[i]);
	free(take_ptr(&p->advisories));
	p->nadvisories = 0;
}
