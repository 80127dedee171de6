/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_KERNEL_H
#define CBX_CLI_KERNEL_H

/* Inside of codebox-kernel: kernel.c runs cells; what else is asked is answered in kernel-answers.c; kernel-session.c has
 * the session that both need. */
#include <sys/types.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/kernel-wire.h"

struct kernel {
	struct cbx_wire wire;
	struct cbx_cli_spec spec;
	const char *file, *language; /* -l; NULL: the image's own */
	struct cbx_client client;    /* fd -1: there is no daemon */
	char session[CBX_NAME_MAX + 1]; /* "": none yet */
	char own[64], version[64];   /* of that session: its language, and the version of its interpreter */
	struct cbx_buf text; /* of a stream, not sent yet */
	char stream[8];
	uint64_t count, run; /* cells; the request that runs, 0: none */
	uint64_t execution;  /* of that request; 0: it waits, perhaps for a cell of somebody else */
	cJSON *history;      /* the codes of the cells, the latest last; NULL: none */
	uint64_t first;	     /* the number of the first of them */
	pid_t parent;
	bool ended;
	bool abort; /* what is held back; it was asked for before a cell failed */
	struct cbx_wire_request *held;
	size_t nheld;
	bool interrupted; /* before there was an execution */
};

/* kernel-session.c */
/* A session that can be asked: found or made, if there is none yet. */
int cbx_kernel_begin(struct kernel *k, struct cbx_err *err);
void cbx_kernel_lose(struct kernel *k); /* codeboxd, and the session with it, unless that has a name */
/* New interpreters; the session waits for the kernel that follows this one. */
void cbx_kernel_hand_over(struct kernel *k);

/* kernel-answers.c */
void cbx_kernel_info(struct kernel *k, const struct cbx_wire_request *q);
void cbx_kernel_complete(struct kernel *k, const struct cbx_wire_request *q);
void cbx_kernel_is_complete(struct kernel *k, const struct cbx_wire_request *q);
void cbx_kernel_inspect(struct kernel *k, const struct cbx_wire_request *q);
void cbx_kernel_history(struct kernel *k, const struct cbx_wire_request *q);
void cbx_kernel_remember(struct kernel *k, const char *code); /* the cell k->count */
cJSON *cbx_kernel_ok(void);

#endif
