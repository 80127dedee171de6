/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SQL_JOB_H
#define CBX_SQL_JOB_H

/*
 * Between codeboxd and codebox-sql. codeboxd sends one byte and a stream socket for each query, writes the job into it,
 * an object of JSON, and shuts that direction down:
 *
 *   {"connection":{"type","server"?,"port"?,"database","user"?,"tls","ca"?},"password"?,"query","parameters":[…],
 *    "inline_rows","inline_bytes","rows","bytes","timeout_ms","delivery":"inline"|"auto"|"file","null"?,"kinds"?}
 *
 * With "schema":true it has no query, and the tables of the database are the answer. With "kinds":true a file is for a
 * program, not for people: its columns have a "kind" ("int64", "uint64", "double", "decimal P S", "bool", "date",
 * "timestamp", "binary" in hexadecimal digits, or "string"), and it has no line of their names.
 *
 * What comes back are frames (base/frame.h), each of which begins with one of these bytes. Closing the socket cancels
 * the query.
 */
enum {
	CBX_SQL_RESULT = 'r', /* {"columns":[{"name","type"}],"rows":[[…]],"row_count","more"?}: all there is, or the
				schema: {"type","tables":[{"schema"?,"name","type","columns"?:[{"name","type",
				"nullable"}],"primary_key"?:[…],"foreign_keys"?:[{"columns":[…],"schema"?,"table",
				"references":[…]}]}],"truncated"?,"note"?}. Last */
	CBX_SQL_FILE = 'f',   /* {"columns":[{"name","type","kind"?}]}: the rows come as a file */
	CBX_SQL_DATA = 'd',   /* bytes of it */
	CBX_SQL_END = 'e',    /* {"row_count"} of a file, or {"kind","message"}. Last */
};

#define CBX_SQL_PIECE 57344 /* bytes of one DATA frame: one message to the sandbox, with the longest path */

#endif
