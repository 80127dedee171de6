/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SQL_WORDS_H
#define CBX_SQL_WORDS_H

/* What the judge knows by name. */
#include <stdbool.h>
#include <stddef.h>

#include "sql/judge.h"

struct cbx_sql_word {
	const char *text;   /* folded to lower case; as it is in a statement, up to 200 bytes are passed */
	bool quoted;	    /* a name in quotes */
	bool member;	    /* behind a period */
	char next;	    /* the first character behind it and behind white space and comments; 0: none */
	const char *before; /* the word before, when nothing but white space and comments is between; else "" */
};

/* The name of the rule that refuses it, or NULL. */
const char *cbx_sql_word_refused(enum cbx_dialect dialect, const struct cbx_sql_word *w);

#endif
