/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of an audit log, and what a request says of its trace. What a chain takes, it takes again; a byte more and
 * it does not, but for the last line. */
#include <string.h>

#include "fuzz.h"
#include "http/head.h"
#include "observe/chain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct cbx_chain one = { 0 }, two = { 0 };
	struct cbx_err err = { 0 };
	bool open = false;

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (cbx_chain_read_all(&one, text, size, false, &open, &err) < 0)
		must(err.code && strcmp(err.kind, "chain_broken") == 0);
	else
		must(cbx_chain_read_all(&two, text, size, false, &open, &err) >= 0 && one.seq == two.seq &&
		     one.lines == two.lines && one.torn == two.torn);
	if (cbx_http_trace_valid(text))
		must(strlen(text) >= 55 && text[2] == '-' && text[35] == '-' && text[52] == '-');
	free(text);
	return 0;
}
