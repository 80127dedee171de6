/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PULL_REGISTRY_H
#define CBX_PULL_REGISTRY_H

/* One repository of an OCI registry: transfers with what it wants for authentication. */
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct cbx_registry {
	char *host, *repository;
	bool plain, loopback;
	char *user, *password; /* or NULL */
	char *token;	       /* bearer, or NULL */
	bool basic;	       /* it wants user and password themselves */
};

/* What came of one transfer. */
struct cbx_reply {
	struct cbx_buf body;	  /* up to a limit */
	struct cbx_buf challenge; /* www-authenticate */
	char digest[80];	  /* docker-content-digest */
	uint64_t range_start;	  /* of content-range */
	bool ranged;
	bool elsewhere; /* it led from a registry on this machine to another machine */
	long status;
};

void cbx_registry_release(struct cbx_registry *r);
void cbx_reply_release(struct cbx_reply *r);
void cbx_reply_reset(struct cbx_reply *r);

/* "https://HOST/v2/REPOSITORY/KIND/REFERENCE"; owned by the caller. */
char *cbx_registry_url(const struct cbx_registry *r, const char *kind, const char *reference);
/* A transfer of that URL with everything set but where its body goes; reply gets the headers. */
CURL *cbx_registry_transfer(const struct cbx_registry *r, const char *url, struct cbx_reply *reply, char *error_text);
/* Answer a 401's challenge: get a token, or use the password. */
int cbx_registry_authenticate(struct cbx_registry *r, const char *challenge, struct cbx_err *err);
/* Get a small document, with authentication and retries. accept: a header, or NULL. */
int cbx_registry_get(struct cbx_registry *r, const char *url, const char *accept, struct cbx_reply *reply,
		     struct cbx_err *err);
/* Errors of an answer that is not one of success, with what the registry says. */
int cbx_registry_refused(const struct cbx_registry *r, const char *what, const struct cbx_reply *reply,
			 struct cbx_err *err);
int cbx_registry_broken(const struct cbx_registry *r, const char *what, CURLcode code, const struct cbx_reply *reply,
			const char *text, struct cbx_err *err);

/*
 * The value of a parameter of a challenge ("Bearer realm=\"…\",service=\"…\""): quoted or not, bounded, without control
 * characters. scheme: "Bearer" or "Basic". False: it has none.
 */
bool cbx_challenge_has(const char *challenge, const char *scheme);
bool cbx_challenge_value(const char *challenge, const char *name, char *out, size_t size);

#endif
