/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_TRANSFER_H
#define CBX_BASE_TRANSFER_H

/* What programs that fetch and upload by libcurl have in common. */
#include <curl/curl.h>
#include <stdbool.h>

#define CBX_TRANSFER_ELSEWHERE "it leads to another machine, and without encryption only this one is spoken to"

struct cbx_transfer {
	const char *url;
	long connect_s, stall_s;
	const char *certificates; /* NULL: the system's */
	bool *elsewhere;  /* if set: this machine alone is connected to, without a proxy; true: it was not this one */
	char *error_text; /* of CURL_ERROR_SIZE */
};

void cbx_transfer_set_up(CURL *easy, const struct cbx_transfer *t);
/* How it ended may be otherwise the next time. */
bool cbx_transfer_passing(CURLcode code, long status);
/* Whether a line of n bytes is a header of this name, and its value, within the line, without white space around it. */
bool cbx_transfer_header(const char *line, size_t n, const char *name, const char **ret, size_t *ret_n);

#endif
