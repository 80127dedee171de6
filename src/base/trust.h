/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_TRUST_H
#define CBX_BASE_TRUST_H

/* The file of the authorities that this machine trusts, in PEM: Debian's, Fedora's or openSUSE's. NULL: there is none
 * that can be read. */
const char *cbx_trust_of_machine(void);

#endif
