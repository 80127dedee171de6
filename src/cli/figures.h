/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_FIGURES_H
#define CBX_CLI_FIGURES_H

/*
 * What code displays, for a terminal: text is written, images are shown where the terminal can, and else are saved as figure-1.png, figure-2.svg … in a directory
 * or, without one, only mentioned. An existing file is never overwritten: the next free number is taken.
 */
#include <cjson/cJSON.h>

#include "base/err.h"
#include "cli/images.h"
#include "cli/term.h"

struct cbx_figures {
	const char *dir; /* borrowed; NULL: images are only mentioned */
	int dirfd;	 /* -1 until the first image; the directory is made then */
	unsigned next;
	bool failed; /* an image could not be saved */
	bool spare;  /* images that a terminal has shown need not be saved */
	struct cbx_images images;
};

void cbx_figures_init(struct cbx_figures *f, const char *dir);
void cbx_figures_release(struct cbx_figures *f);

/*
 * Show one bundle {MIME: …}. Text goes to `out`; "figure: …" lines go to `notes`. A file that cannot be written is an
 * error, after the text was shown.
 */
int cbx_figures_show(struct cbx_figures *f, const cJSON *data, bool is_result, struct cbx_term *out,
		     struct cbx_term *notes, struct cbx_err *err);

#endif
