/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_INIT_TERMINAL_H
#define CBX_SANDBOX_INIT_TERMINAL_H

/* Of codebox-init, in a process of its own: copy between a terminal and two pipes. Ends when the terminal does, or when
 * nobody takes what it shows. */
_Noreturn void cbx_init_relay(int master, int typed, int shown);

#endif
