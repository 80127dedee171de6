/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_UI_H
#define CBX_HTTP_UI_H

/* The page at /ui: files that are part of this program, the same for everybody. */
#include <stdbool.h>

struct cbx_http_conn;

bool cbx_http_ui_is(const char *path); /* of the page */
/* token: whoever uses the REST interface has to show one. */
void cbx_http_ui_request(struct cbx_http_conn *c, bool token);

#endif
