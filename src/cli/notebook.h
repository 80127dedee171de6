/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_NOTEBOOK_H
#define CBX_CLI_NOTEBOOK_H

/* A Jupyter notebook (nbformat 4): its cells are run one after another, and their outputs take the place of the old. */
#include "cli/cell.h"
#include "cli/cli.h"

struct cbx_notebook {
	const char *file;   /* where it is */
	const char *output; /* where it goes; NULL: nowhere, and outputs are shown */
	bool allow_errors;  /* continue after a cell that failed */
	const char *language; /* -l; NULL: what the notebook says that it is written in, else the image's own */
	const struct cbx_cli_spec *spec;
	cJSON *root; /* owned */
};

/* By its name. */
bool cbx_notebook_is(const char *file);
int cbx_notebook_read(struct cbx_notebook *nb, struct cbx_err *err);
/* Run all code cells, and write the notebook, also after a cell that failed. The exit status of that, or 0. */
int cbx_notebook_run(struct cbx_notebook *nb, struct cbx_cell *cell, struct cbx_err *err);
void cbx_notebook_release(struct cbx_notebook *nb);

#endif
