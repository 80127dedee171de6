/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_LANGUAGES_H
#define CBX_CLI_LANGUAGES_H

/* What notebooks say of the languages that codebox brings. */
struct cbx_language {
	const char *name, *title, *mime, *extension;
	const char *lexer; /* of Pygments */
	const char *mode;  /* of CodeMirror, as JSON */
};

/* NULL: it is another one. */
const struct cbx_language *cbx_language_of(const char *name);
/* The n-th of those that are an image's own, the one that is first where an image has several first; NULL: no more. */
const char *cbx_language_own(unsigned n);

#endif
