/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_PIPES_H
#define CBX_INTERP_PIPES_H

/*
 * The pipes of an interpreter, and how what is printed through two of them keeps its place among the frames.
 */
#include "interp/interp.h"
#include "sandbox/interpreter-fds.h"

#define CBX_PIPE_WIDE KIB(256)

/* Make all of them: our ends into *in, the interpreter's into theirs, as its descriptors from 0 on. */
int cbx_pipes_make(struct cbx_interp *in, int theirs[CBX_INTERPRETER_FDS], struct cbx_err *err);
int cbx_pipes_watch(struct cbx_interp *in, struct cbx_err *err); /* what is printed is read from now on */
void cbx_pipes_close(struct cbx_interp *in);
void cbx_pipe_widen(int fd, bool *narrow, size_t got); /* after a read of so much */
/* Stop reading what is printed; false: continue, and whoever handles frames is to continue, too. False: nothing has
 * changed. */
bool cbx_pipes_stall(struct cbx_interp *in, bool on);
void cbx_pipes_narrow(struct cbx_interp *in); /* no cell runs */
void cbx_pipes_owe(struct cbx_interp *in); /* remember how much is in the pipes now */
/* Take what is owed, stdout first, but no more than *budget bytes. True when nothing is owed any more. */
bool cbx_pipes_pay(struct cbx_interp *in, size_t *budget);

#endif
