/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_RECALL_H
#define CBX_CLI_RECALL_H

/* Cells that were typed at a prompt, each as a whole, and the file that keeps them. */
#include <stddef.h>

struct cbx_recall {
	char **cells; /* the oldest first */
	size_t n;
	char *file; /* NULL: none */
};

/* file: NULL, or one that need not exist. */
void cbx_recall_open(struct cbx_recall *h, const char *file);
/* Also into the file, at once; not one that was the last before, nor one that is too long. */
void cbx_recall_add(struct cbx_recall *h, const char *cell);
void cbx_recall_release(struct cbx_recall *h);

#endif
