/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/str.h"
#include "render/render.h"

/* Whether it says no more than what it is: <Figure size 640x480>, <pandas.io.formats.style.Styler at 0x7f…>. */
static bool only_a_name(const char *plain)
{
	size_t n = strlen(plain);

	if (n < 2 || plain[0] != '<' || plain[n - 1] != '>' || memchr(plain, '\n', n))
		return false;
	return cbx_starts_with(plain, "<Figure size ") || cbx_ends_with(plain, " object>") || strstr(plain, " at 0x");
}

bool cbx_render_markup(struct cbx_buf *out, const char *html, size_t *left, size_t max)
{
	size_t n = html ? strlen(html) : 0, look = n < *left ? n : *left;

	if (!n)
		return false;
	*left -= look;
	cbx_render_html(out, html, look, max);
	return out->len > 0;
}

const char *cbx_render_text(const cJSON *data, bool shown, size_t *left, size_t max, struct cbx_buf *made)
{
	const char *plain = cbx_json_text(data, "text/plain"), *html = cbx_json_text(data, "text/html"),
		   *other = cbx_json_text(data, "text/markdown");
	const cJSON *json = cbx_json_member(data, "application/json");

	if (other)
		return other;
	if (plain && !only_a_name(plain))
		return plain;
	if ((other = cbx_json_text(data, "text/latex")))
		return other;
	if (shown)
		return NULL;
	if (cbx_render_markup(made, html, left, max))
		return cbx_buf_str(made);
	if (cJSON_IsString(json) || (cJSON_IsRaw(json) && strchr("{[", json->valuestring[0])))
		return json->valuestring;
	return html ? NULL : plain;
}
