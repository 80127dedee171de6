/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_ARTIFACTS_H
#define CBX_SESSION_ARTIFACTS_H

/*
 * Artifacts: files that cells made, kept after their session, as long as the policy says, by codebox-store. An execution
 * ends when those of its files are kept; each then has "artifact_id", and where codeboxd has an address that others
 * reach, or the policy an object store, "link" and "link_expires" (ISO 8601); or "not_kept", which says why. What could
 * not be copied to the store has "not_uploaded", likewise.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/op.h"
#include "session/principal.h"

struct cbx_session;

/* Of about and err one is NULL. */
struct cbx_artifact_op {
	struct cbx_op op;
	void (*done)(struct cbx_artifact_op *op, const cJSON *about, const void *p, size_t n, const struct cbx_err *err);
};

/* about: {"artifacts":[{"artifact_id","session_id","path","size","mime_type","created","expires","object"?}],"bytes"}, those
 * of the caller's tenant, the oldest first; times in seconds since 1970. */
int cbx_artifact_list(struct cbx_caller *caller, struct cbx_artifact_op *op, struct cbx_err *err);
int cbx_artifact_remove(struct cbx_caller *caller, const char *id, struct cbx_artifact_op *op, struct cbx_err *err);
/* Up to n bytes (CBX_ARTIFACT_PIECE) from an offset on, and what is known of it. linked: whoever holds its link asks. */
int cbx_artifact_read(struct cbx_caller *caller, bool linked, const char *id, uint64_t offset, size_t n,
		      struct cbx_artifact_op *op, struct cbx_err *err);

/* ---- links ---- */

#define CBX_LINK_HEADER "X-Blob-SAS-Expiry-Hours" /* of a request: links to the files of its cell are good for less */

/* What becomes of the files that cells of a session make. */
struct cbx_artifact_terms {
	bool kept;
	uint64_t link_s;    /* that a link is good for at most */
	const char *bucket; /* of the object store that they are copied to; borrowed. NULL: none */
};
void cbx_artifact_terms(const struct cbx_session *session, struct cbx_artifact_terms *ret);

/* Headers by which a request names the object store that the files of its cell go to, where the policy lets it. */
#define CBX_STORE_STRING    "X-Blob-Connection-String"
#define CBX_STORE_CONTAINER "X-Blob-Container-Name"
/* What they say, {"store","secret"}; either may be NULL. Errors name the header. */
int cbx_artifact_store(const struct cbx_session *session, const char *string, const char *container, cJSON **ret,
		       struct cbx_err *err);

/* Where links lead, without "/" at the end; NULL: there are none. */
void cbx_artifact_links_at(struct cbx_engine *engine, const char *base);
/* Append the link of an artifact of which this is known, for this number of seconds, or as long as the policy and the
 * artifact's own end allow; *ret: the end. One that was copied to an object store has a link to there, to the policy's
 * or this one, of cbx_artifact_store(). false: there are none. */
bool cbx_artifact_link(const struct cbx_caller *caller, const cJSON *about, const cJSON *store, uint64_t seconds,
		       struct cbx_buf *out, uint64_t *ret);
/* What cbx_artifact_list() has answered, with "link" and "link_expires" (in seconds, too) of each, as far as there are links
 * and CBX_ARTIFACT_LINKS_MAX allows. */
cJSON *cbx_artifact_list_linked(const struct cbx_caller *caller, const cJSON *about);
/* Whether a link is one of ours, and still good. Errors: "link_expired", "wrong_signature". */
int cbx_artifact_check_link(const struct cbx_engine *engine, const char *id, const char *expires, const char *signature,
			    struct cbx_err *err);

#endif
