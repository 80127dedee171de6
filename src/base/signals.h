/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_SIGNALS_H
#define CBX_BASE_SIGNALS_H

/* "KILL" for SIGKILL, as kill(1) lists them; NULL for real-time signals and what is not one. musl has no such list. */
const char *cbx_signal_name(int sig);
/* "INT" and "SIGINT" are SIGINT; 0: there is none of that name. */
int cbx_signal_by_name(const char *name);

#endif
