/* SPDX-License-Identifier: Apache-2.0 */
/* What comes out of the cleaner obeys nobody: for a model, for one line, and for a terminal, in one piece or byte by
 * byte. */
#include <string.h>

#include "base/clean.h"
#include "fuzz.h"

/* Whether text has no control but these, and, for a terminal, colours. */
static void check(const char *s, size_t n, const char *spaces, bool colours)
{
	while (n) {
		uint32_t code;
		size_t k = *s && strchr(spaces, *s) ? 0 : cbx_clean_unsafe(s, n, &code);

		if (k && colours && code == 0x1b) {
			k = 2 + strspn(s + 2, "0123456789;:");
			must(n > k && s[1] == '[' && s[k] == 'm');
		} else {
			must(!k);
		}
		s++;
		n--;
		while (n && ((unsigned char)*s & 0xc0) == 0x80) {
			s++;
			n--;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_buf line = { 0 }, model = { 0 }, whole = { 0 }, pieces = { 0 };
	struct cbx_cleaner a = { 0 }, b = { 0 };
	char *text = malloc(size + 1);

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	cbx_escape(&line, text);
	check(cbx_buf_str(&line), line.len, "", false);
	cbx_clean(&model, text);
	check(cbx_buf_str(&model), model.len, "\t\n\r", false);
	must(cbx_is_clean(cbx_buf_str(&model)));
	if (cbx_is_clean(text))
		must(strcmp(text, cbx_buf_str(&model)) == 0);
	cbx_cleaner_feed(&a, &whole, text, size);
	cbx_cleaner_end(&a, &whole);
	check(cbx_buf_str(&whole), whole.len, "\t\n\r\b", true);
	for (size_t i = 0; i < size; i++)
		cbx_cleaner_feed(&b, &pieces, text + i, 1);
	cbx_cleaner_end(&b, &pieces);
	must(whole.len == pieces.len && memcmp(cbx_buf_str(&whole), cbx_buf_str(&pieces), whole.len) == 0);
	cbx_buf_release(&line);
	cbx_buf_release(&model);
	cbx_buf_release(&whole);
	cbx_buf_release(&pieces);
	free(text);
	return 0;
}
