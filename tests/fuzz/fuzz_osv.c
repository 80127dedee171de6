/* SPDX-License-Identifier: Apache-2.0 */
/* Advisories: whatever a file holds, what is found is about a package of the lock, and can be shown. */
#include <string.h>

#include "base/str.h"
#include "fuzz.h"
#include "packages/osv.h"
#include "packages/similar.h"

static struct cbx_wheel wheels[] = { { .name = "some-name", .version = "1.5" }, { .name = "a", .version = "2.0rc1" } };

static void found(void *arg, const struct cbx_osv_hit *hit)
{
	must(hit->wheel == &wheels[0] || hit->wheel == &wheels[1]);
	must(hit->id[0] && strlen(hit->id) < sizeof(hit->id) && cbx_plain(hit->id));
	must(hit->range[0] && strlen(hit->range) < sizeof(hit->range));
	must(cbx_plain(hit->range) && cbx_plain(hit->summary));
	must(cbx_utf8_valid(hit->summary, strlen(hit->summary)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct cbx_lock lock = { wheels, 2 };
	struct cbx_err err = { 0 };
	char *text = malloc(size + 1);
	size_t n = 0;

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	must(cbx_osv_search(text, size, &lock, found, NULL, &err) >= 0 || (err.code && err.msg[0]));
	(void)cbx_similar_find(text, "some-name", &n);
	must(n <= size);
	(void)cbx_names_similar(text, "some-name");
	(void)cbx_names_similar("some-name", text);
	free(text);
	return 0;
}
