/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TENANT_TENANT_H
#define CBX_TENANT_TENANT_H

/*
 * Tenants: who may use a codeboxd that serves several, and how much. Two files lie side by side: tenants.json, which an
 * operator writes, has names, policies and quotas; tokens.json, which `codebox token` writes, has what they show.
 * Beside these, tokens can be accepted that somebody else issues (jwt.h). codebox-tenants(5) is the format of all.
 *
 * A tenant stays where it is as long as the process lives, though it is in the file no more (`gone`): connections and
 * sessions point to it. So there are as many as names were ever in the file.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rate.h"
#include "base/str.h"
#include "session/principal.h"
#include "tenant/jwt.h"
#include "tenant/scope.h"

/* ---- tokens ---- */

#define CBX_TOKEN_ID	 8
#define CBX_TOKEN_SECRET 52					   /* characters of 5 random bits: 260 */
#define CBX_TOKEN_TEXT	 (4 + CBX_TOKEN_ID + 1 + CBX_TOKEN_SECRET) /* "cbx_ID_SECRET" */

struct cbx_token {
	char id[CBX_TOKEN_ID + 1]; /* public: it is listed, and logged */
	char tenant[CBX_NAME_MAX + 1];
	char name[CBX_NAME_MAX + 1]; /* what its owner calls it; "": nothing */
	unsigned scopes;
	int64_t created, expires; /* seconds since 1970; expires 0: never */
	unsigned char digest[32]; /* SHA-256 of the whole text */
	struct cbx_tenant *of;	  /* set by cbx_tenants_load(); NULL: there is no such tenant */
};

struct cbx_tokens {
	struct cbx_token *all; /* by id */
	size_t n;
};

/* Errors: kind "invalid_tokens", beginning with "label:line:column: ". *ret is all zero then. */
int cbx_tokens_parse(const char *text, size_t len, const char *label, struct cbx_tokens *ret, struct cbx_err *err);
void cbx_tokens_print(const struct cbx_tokens *tokens, struct cbx_buf *out);
cJSON *cbx_token_json(const struct cbx_token *t); /* all but its digest */
void cbx_tokens_release(struct cbx_tokens *tokens);
/* One more; `like` has all but id and digest. Its text is shown once, and kept nowhere. Error: "too_many_tokens". */
int cbx_tokens_make(struct cbx_tokens *tokens, const struct cbx_token *like, char text[CBX_TOKEN_TEXT + 1],
		    struct cbx_err *err);
bool cbx_tokens_revoke(struct cbx_tokens *tokens, const char *id); /* false: there is none */
const struct cbx_token *cbx_tokens_by_id(const struct cbx_tokens *tokens, const char *id);
/* It begins as our tokens do. */
bool cbx_tokens_look_like(const char *text);
/* Whose text this is; NULL: nobody's, or it has expired. Takes as long for a wrong secret as for the right one. */
const struct cbx_token *cbx_tokens_check(const struct cbx_tokens *tokens, const char *text, int64_t now);

/* ---- tenants ---- */

struct cbx_tenant {
	TAILQ_ENTRY(cbx_tenant) entry;
	struct cbx_principal principal; /* its ceiling is owned here */
	struct cbx_rate requests, executions;
	uint64_t at_once_max; /* requests that are being answered */
	size_t at_once;
	size_t idle, buffered, unsent; /* its connections that wait for it; bytes of bodies, and of answers (http/room.c) */
	size_t held;		       /* bytes of bodies whose requests are being answered (likewise) */
	size_t transfers;	       /* likewise: archives on the way */
	size_t kept;		       /* bytes of events, for clients that come again (http/exchange.c) */
	uid_t *users; /* of this machine, who need no token on a unix socket */
	size_t nusers;
	bool gone; /* it is in the file no more: nobody gets in, and it has no sessions */
};

struct cbx_tenants {
	TAILQ_HEAD(, cbx_tenant) list;
	struct cbx_owned_images owned;
	struct cbx_tokens tokens;
	struct cbx_jwt_rules *jwt;	 /* NULL: no JWTs are accepted */
	const struct cbx_jwks_ops *jwks; /* who reads their keys; NULL: nobody, and none is accepted */
	struct cbx_jwks *keys;
	struct stat keys_at; /* their file, when it was read; all zero: it is not there */
};

void cbx_tenants_init(struct cbx_tenants *t);
void cbx_tenants_release(struct cbx_tenants *t);
/*
 * Read tenants.json at `path`, and tokens.json beside it, which may be missing. share_dir: where the shipped policies
 * are. Called again it changes what there is; an error changes nothing. Errors: kind "invalid_tenants" or
 * "invalid_tokens".
 */
int cbx_tenants_load(struct cbx_tenants *t, const char *path, const char *share_dir, struct cbx_err *err);
/* The text alone, without tokens; policies that are files are read. For cbx_tenants_load() and for trying it out. */
int cbx_tenants_parse(struct cbx_tenants *t, const char *text, size_t len, const char *label, const char *share_dir,
		      struct cbx_err *err);
/* The file of keys may be another one: 1: it was, and is in force; 0: it is the same. An error, which is reported once,
 * changes nothing. */
int cbx_tenants_refresh_keys(struct cbx_tenants *t, struct cbx_err *err);
struct cbx_tenant *cbx_tenants_by_user(const struct cbx_tenants *t, uid_t uid); /* NULL: nobody's */
struct cbx_tenant *cbx_tenants_find(const struct cbx_tenants *t, const char *name); /* NULL: none, or gone */
char *cbx_tokens_path(const char *tenants_path);				    /* malloc'd */

#endif
