/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transcript.h"

#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"
#include "render/render.h"

#define LOOK_MAX  MIB(4)   /* bytes of HTML that are looked at */
#define SHOWN_MAX KIB(256) /* that become of them, about */

char *cbx_transcript_source(const cJSON *cell)
{
	const char *file = cbx_json_text(cell, "file"), *code = cbx_json_str(cell, "code");
	_cleanup_buf_ struct cbx_buf bytes = { 0 }, name = { 0 };

	if (!file)
		return cbx_xstrdup(code);
	if (cbx_base64_decode(&bytes, code, strlen(code)) >= 0 && cbx_utf8_valid(cbx_buf_str(&bytes), bytes.len) &&
	    !(bytes.len && memchr(bytes.data, '\0', bytes.len)))
		return cbx_xstrdup(cbx_buf_str(&bytes));
	cbx_escape(&name, file);
	return cbx_xasprintf("# %s is not a text, and is not shown", cbx_buf_str(&name));
}

char *cbx_transcript_marked(const cJSON *cell, const char *source, const char *own)
{
	const char *language = cbx_json_str(cell, "language");

	if (!language[0] || strcmp(language, own) == 0)
		return cbx_xstrdup(source);
	return cbx_xasprintf("%%%%%s\n%s", language, source);
}

void cbx_transcript_prompt(struct cbx_buf *out, const cJSON *cell, const char *source)
{
	const cJSON *count = cbx_json_member(cell, "execution_count");
	char prompt[40], number[24] = " ";

	if (count)
		snprintf(number, sizeof(number), "%.0f", count->valuedouble);
	snprintf(prompt, sizeof(prompt), "In [%s]: ", number);
	for (size_t line = 0; !line || *source; line++) {
		size_t n = strcspn(source, "\n");
		_cleanup_free_ char *one = cbx_xasprintf("%.*s", (int)n, source);

		if (line)
			cbx_buf_addf(out, "%*s", (int)strlen(prompt), "...: ");
		else
			cbx_buf_adds(out, prompt);
		cbx_clean(out, one);
		cbx_buf_addc(out, '\n');
		source += n + (source[n] == '\n');
	}
}

const char *cbx_display_text(const cJSON *data, struct cbx_buf *made)
{
	size_t left = LOOK_MAX;
	const char *text = cbx_render_text(data, false, &left, SHOWN_MAX, made);

	return text ? text : cbx_json_str(data, "text/plain");
}
