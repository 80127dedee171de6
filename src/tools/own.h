/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TOOLS_OWN_H
#define CBX_TOOLS_OWN_H

/* Who calls the tools, and the session of its calls that name none. */
#include "session/principal.h"
#include "session/session.h"

struct cbx_own {
	cJSON *params;		      /* the spec borrows from it */
	struct cbx_session_spec spec; /* id "": a session that ends with the client */
	struct cbx_err fault;	      /* code 0: none */
};

struct cbx_tool_client {
	struct cbx_caller caller; /* engine NULL: no tool needs one */
	struct event_base *base;
	const cJSON *roots;			/* mounts, as of cbx_session_spec; NULL: none */
	/* A header of the HTTP request whose message is carried out now. NULL: there is no such request. */
	const char *(*header)(void *arg, const char *name);
	void *header_arg;
	char default_session[CBX_NAME_MAX + 1]; /* "": none yet */
	struct cbx_own *own;			/* what was said of it; NULL: nothing */
	bool restarted;	     /* the client has used a codeboxd before this one, which has ended ... */
	bool restart_untold; /* ... and no answer has said so yet */
	bool default_used;   /* a cell has run in it, so there is something to lose */
};

/* NULL: the request has no such header. For the time of a tool's call() only. */
static inline const char *cbx_client_header(const struct cbx_tool_client *client, const char *name)
{
	return client->header ? client->header(client->header_arg, name) : NULL;
}

/* What its own session is to be: the members of session.h's cbx_session_spec_parse(). Takes params. What is wrong with
 * them (`problem`: already known; code 0: nothing) is the answer to each call. */
void cbx_own_set(struct cbx_tool_client *client, cJSON *params, const struct cbx_err *problem);
/* Closes it where it belongs to the client. */
void cbx_own_drop(struct cbx_tool_client *client);
/* Why no call can be carried out; NULL: nothing is wrong. */
const struct cbx_err *cbx_own_fault(const struct cbx_tool_client *client);
/* It has a name, which is default_session: it may or may not exist, and others may use it. */
bool cbx_own_named(const struct cbx_tool_client *client);
/* What calls without session_id use, as a sentence for a model. own: calls have one of the client's. */
const char *cbx_own_sentence(const struct cbx_tool_client *client, bool own);
/* What it is made with. */
void cbx_own_spec(const struct cbx_tool_client *client, struct cbx_session_spec *spec);
/* The policy that was said holds for whatever session this client makes. */
void cbx_own_policy(const struct cbx_tool_client *client, struct cbx_session_spec *spec);
uint64_t cbx_own_timeout(const struct cbx_tool_client *client); /* of its cells, in ms; 0: none was given */
/* Where nothing names mounts: those that the client's roots make. */
void cbx_own_roots(const struct cbx_tool_client *client, struct cbx_session_spec *spec);
/* default_session, when it is as it was said to be. Errors: as cbx_session_find() and cbx_session_same(). */
int cbx_own_find(struct cbx_tool_client *client, struct cbx_session **ret, struct cbx_err *err);
/* It, made when there is none. *ret_notice, malloc'd: an earlier one has ended. */
int cbx_own_get(struct cbx_tool_client *client, bool takes_roots, struct cbx_session **ret, char **ret_notice,
		struct cbx_err *err);

/* Ids of the sessions that lists show (those of other connections are nobody's business) and that come after one in the
 * order of ids (NULL: all), sorted. */
struct cbx_own_ids {
	char **v;
	size_t n;
};
struct cbx_own_ids cbx_own_list(const struct cbx_tool_client *client, bool own, const char *after);
void cbx_own_ids_release(struct cbx_own_ids *ids);
#define _cleanup_ids_ __attribute__((cleanup(cbx_own_ids_release)))

#endif
