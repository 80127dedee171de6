/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTML that a sandbox made, as any bytes, in a buffer of just its size; the first byte chooses how much may come out. What
 * does is valid UTF-8 without control characters, within its bound but for the end of a row, and each row of a table is
 * one line.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fuzz.h"
#include "render/render.h"

#define ROW_MAX (65 * 1010) /* what a row of the widest table may add behind the bound */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	size_t max;
	char *html;

	if (size == 0)
		return 0;
	max = data[0] * 64u;
	html = malloc(size);
	must(html);
	memcpy(html, data + 1, size - 1);
	cbx_buf_adds(&out, "before|");
	cbx_render_html(&out, html, size - 1, max);
	free(html);
	must(strncmp(out.data, "before|", 7) == 0 && out.len == strlen(out.data));
	must(out.len <= 7 + max + ROW_MAX);
	must(cbx_utf8_valid(out.data, out.len));
	for (const char *p = out.data; *p; p++)
		must((unsigned char)*p >= ' ' ? *p != 0x7f : *p == '\n');
	return 0;
}
