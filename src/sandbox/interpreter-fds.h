/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_INTERPRETER_FDS_H
#define CBX_SANDBOX_INTERPRETER_FDS_H

/* The descriptors that an interpreter is born with: standard input, output and error, frames to it (3), and frames from
 * it (4). For the zygote's shared object, too, so it includes nothing. */
#define CBX_INTERPRETER_FDS 5

#endif
