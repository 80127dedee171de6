/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy says to a request. */
#include "policy/policy.h"

#include <string.h>

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
