/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: output that does not fit in memory is written to a file of the session through init, one append
 * at a time. Reading the interpreter's pipes never waits for that: what comes while CBX_SPILL_PENDING bytes wait is
 * omitted from the file, and the file says where and how much. So a slow or lying init costs at most that much memory.
 * Up to the first place where something is missing, bytes stand in the file at the offset that they have in the output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "box/box.h"
#include "execution/output.h"
#include "execution/spill.h"

#define CHUNK 60000

struct cbx_spill {
	struct cbx_box *box;
	bool left; /* its execution has been freed */
	void (*idle)(void *arg); /* somebody waits until all is written; NULL: nobody */
	void *arg;
	char path[80], where[240];
	struct cbx_buf pending;
	bool begun, asked, full;
	bool stale;	/* what was asked belongs to the file before it was begun anew */
	bool broken;	/* something is missing before the end of the file */
	uint64_t sound; /* the number of bytes that stand, or will stand, at their own offset */
	uint64_t written;
	uint64_t taken; /* bytes accepted for the file */
	uint64_t gap;	/* bytes omitted since the last that was accepted */
	uint64_t missing;
	char failure[100];
};

static void push(struct cbx_spill *sp);

struct cbx_spill *cbx_spill_new(struct cbx_box *box, uint64_t number)
{
	struct cbx_spill *sp = cbx_xcalloc(1, sizeof(*sp));

	sp->box = box;
	snprintf(sp->path, sizeof(sp->path), "%s/.codebox/outputs/%llu.txt", CBX_INSIDE_WORKSPACE,
		 (unsigned long long)number);
	return sp;
}

void cbx_spill_free(struct cbx_spill *sp)
{
	if (!sp)
		return;
	sp->left = true;
	if (sp->asked)
		return; /* written() frees it */
	cbx_buf_release(&sp->pending);
	free(sp);
}

static void give_up(struct cbx_spill *sp, const char *why)
{
	snprintf(sp->failure, sizeof(sp->failure), "%s", why);
	sp->broken = true;
	if (sp->sound > sp->written)
		sp->sound = sp->written;
	sp->missing += sp->pending.len;
	cbx_buf_release(&sp->pending);
}

static void written(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		    const struct cbx_err *err)
{
	struct cbx_spill *sp = arg;

	sp->asked = false;
	if (sp->left) {
		cbx_spill_free(sp);
		return;
	}
	if (sp->stale)
		sp->stale = false;
	else if (err)
		give_up(sp, err->msg);
	else if (h->value < 0)
		give_up(sp, h->value > -4096 ? strerror((int)-h->value) : "a wrong answer");
	else if (h->value == 0 || (uint64_t)h->value > sp->pending.len)
		give_up(sp, "a wrong answer");
	else {
		cbx_buf_drop(&sp->pending, (size_t)h->value);
		sp->written += (uint64_t)h->value;
	}
	push(sp);
	if (sp->idle && !sp->asked && sp->pending.len == 0)
		sp->idle(sp->arg);
}

static void push(struct cbx_spill *sp)
{
	struct cbx_init_header h = { .type = CBX_INIT_WRITE, .arg = UINT64_MAX };
	size_t n = sp->pending.len < CHUNK ? sp->pending.len : CHUNK;
	struct cbx_err err;

	if (sp->asked || n == 0)
		return;
	if (!sp->begun) {
		h.arg = 0;
		h.value = CBX_INIT_WRITE_TRUNCATE;
	}
	if (cbx_init_ask(sp->box, &h, sp->path, strlen(sp->path) + 1, sp->pending.data, n, NULL, 0, false, written, sp,
			 &err) < 0) {
		/* Busy: the next call tries again. Closed: nobody will look. */
		return;
	}
	sp->begun = sp->asked = true;
}

void cbx_spill_add(struct cbx_spill *sp, const char *p, size_t n)
{
	size_t room = CBX_OUTPUT_FILE_MAX - sp->taken, take = n < room ? n : room;
	char count[32];

	if (sp->failure[0] || sp->full || sp->pending.len + n > CBX_SPILL_PENDING) {
		sp->missing += n;
		sp->gap += n;
		sp->broken = true;
		push(sp);
		return;
	}
	if (sp->gap) {
		cbx_format_count(sp->gap, count);
		cbx_buf_addf(&sp->pending, "\n[… %s bytes are missing here …]\n", count);
		sp->gap = 0;
	}
	cbx_buf_add(&sp->pending, p, take);
	sp->taken += take;
	if (!sp->broken)
		sp->sound += take;
	if (take < n) {
		sp->full = sp->broken = true;
		sp->missing += n - take;
		cbx_buf_addf(&sp->pending, "\n[… the rest is missing: only the first %zu MiB are kept …]\n",
			     CBX_OUTPUT_FILE_MAX >> 20);
	}
	push(sp);
}

void cbx_spill_restart(struct cbx_spill *sp)
{
	cbx_buf_release(&sp->pending);
	sp->begun = sp->full = sp->broken = false;
	sp->stale = sp->asked;
	sp->sound = sp->written = sp->taken = sp->gap = sp->missing = 0;
	sp->failure[0] = '\0';
}

void cbx_spill_extent(const struct cbx_spill *sp, struct cbx_output_extent *ret)
{
	ret->file = sp->path;
	ret->will_be = sp->sound;
	ret->in_file = sp->sound < sp->written ? sp->sound : sp->written;
}

/* A file that is not removed stays in the sandbox; no answer names it any more. */
void cbx_spill_remove(struct cbx_spill *sp)
{
	struct cbx_init_header h = { .type = CBX_INIT_REMOVE };
	struct cbx_err ignored;

	if (sp->begun)
		(void)cbx_init_ask(sp->box, &h, sp->path, strlen(sp->path) + 1, NULL, 0, NULL, 0, false, NULL, NULL,
				   &ignored);
}

bool cbx_spill_idle(struct cbx_spill *sp, void (*idle)(void *arg), void *arg)
{
	sp->idle = idle;
	sp->arg = arg;
	return !sp->asked && sp->pending.len == 0;
}

const char *cbx_spill_path(const struct cbx_spill *sp)
{
	return sp->path;
}

const char *cbx_spill_where(const struct cbx_spill *sp)
{
	struct cbx_spill *w = (struct cbx_spill *)sp; /* the text is only a cache of what the rest says */
	uint64_t missing = sp->missing + sp->pending.len;
	char count[32];

	cbx_format_count(missing, count);
	if (sp->failure[0])
		snprintf(w->where, sizeof(w->where), "the file %s could not be written in full: %s", sp->path,
			 sp->failure);
	else if (sp->full && sp->sound == CBX_OUTPUT_FILE_MAX)
		snprintf(w->where, sizeof(w->where), "the first %zu MiB of the output are in %s",
			 CBX_OUTPUT_FILE_MAX >> 20, sp->path);
	else if (missing)
		snprintf(w->where, sizeof(w->where), "all but %s bytes of the output are in %s", count, sp->path);
	else
		snprintf(w->where, sizeof(w->where), "the whole output is in %s", sp->path);
	return w->where;
}
