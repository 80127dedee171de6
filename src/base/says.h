/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_SAYS_H
#define CBX_BASE_SAYS_H

/* What an execution's message says of the session after it. Whoever ends the session with the cell leaves it out:
 * codebox run does. */
#define CBX_SAYS_KEPT	 " Variables and files are kept."
#define CBX_SAYS_GOES_ON " The interpreter keeps running, and its variables are kept."
#define CBX_SAYS_LOST \
	" All its variables, imports and functions are lost; the files of the session are kept. A fresh interpreter runs " \
	"the next cell: import and define again what it needs."

/* How a message says an exit status, behind all else that is noted of the cell. codebox run leaves that out: its own
 * status says it. */
#define CBX_SAYS_ASKED "The code asked to exit with status "
#define CBX_SAYS_ENDED "The code ended with exit status "

#endif
