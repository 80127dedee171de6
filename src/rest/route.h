/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_REST_ROUTE_H
#define CBX_REST_ROUTE_H

/* Paths and queries: bytes in, names out. Nothing here knows a session. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "http/head.h"
#include "tenant/tenant.h"

struct cbx_rest_call;

struct cbx_rest_route {
	enum cbx_http_method method; /* GET: HEAD, too */
	const char *path; /* "{session_id}", "{request_id}", "{command_id}", "{connection}" are names, "{path}" is all
			     that follows */
	enum cbx_scope scope; /* 0: everybody may */
	/* 0: it answers, now or later. Negative: err says why not. */
	int (*call)(struct cbx_rest_call *call, struct cbx_err *err);
	const char *query; /* what it takes there: names with spaces between; NULL: nothing */
	bool has_body;	   /* JSON */
};

#define CBX_REST_PATH_MAX 4000

struct cbx_rest_target {
	char session_id[CBX_NAME_MAX + 1];
	char connection[CBX_NAME_MAX + 1];
	uint64_t execution_id; /* of "{request_id}", or "{command_id}" */
	char path[CBX_REST_PATH_MAX + 1];
};

/* The route, or NULL with *ret_allowed: methods that the path has, such as "GET, DELETE"; "": the path is none. */
const struct cbx_rest_route *cbx_rest_route_find(const struct cbx_rest_route *routes, enum cbx_http_method method,
						 const char *path, struct cbx_rest_target *ret, char ret_allowed[64]);
/* A path of files that leads nowhere but down: no empty part, ".", or ".."; "" is the workspace. */
bool cbx_rest_path_valid(const char *path);
/* The value of a name in a query, decoded as application/x-www-form-urlencoded, where "+" is a space; 0: it is not
 * there. Errors name it. */
int cbx_rest_query(const char *query, const char *name, char *out, size_t size, struct cbx_err *err);
/* Refuse names that are not in `known`, and one that is there twice. */
int cbx_rest_query_check(const char *query, const char *known, struct cbx_err *err);

/* Range: bytes=…, of a file of this size. 1: *from and *n; 0: all of it; -1: it cannot be satisfied. */
int cbx_rest_range(const char *header, uint64_t size, uint64_t *from, uint64_t *n);

#endif
