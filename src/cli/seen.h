/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_SEEN_H
#define CBX_CLI_SEEN_H

/* Up to which cell the prompts of this user have shown what a session did: one file, of the latest sessions. */
#include <stdbool.h>
#include <stdint.h>

/* created: when the session was made, since another one may have its name later. False: nothing is known. */
bool cbx_seen_get(const char *file, const char *session, const char *created, uint64_t *ret);
void cbx_seen_put(const char *file, const char *session, const char *created, uint64_t cell);

#endif
