/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_INSTALL_H
#define CBX_SESSION_INSTALL_H

/* One installation of packages, between packages.c, which has it, and resolver.c, which finds out what is needed. */
#include "packages/kind.h"
#include "packages/rules.h"
#include "packages/sums.h"
#include "command/command.h"
#include "session/internal.h"
#include "session/jobs.h"
#include "session/wheels.h"

TAILQ_HEAD(cbx_asks, cbx_ask);
TAILQ_HEAD(cbx_answerers, cbx_answerer);

struct cbx_install {
	TAILQ_ENTRY(cbx_install) entry;
	struct cbx_engine *engine;
	struct cbx_session *target;
	struct cbx_session *resolver; /* NULL: it has been closed, or has ended */
	struct cbx_via via; /* by which it was asked for, if `known` */
	bool known;
	struct cbx_principal principal;
	struct cbx_caller caller;
	struct cbx_op *op;
	struct cbx_requirements wanted; /* names of it alone: what was asked for now */
	cJSON *requirements;		/* all that the session is to have, as text */
	struct cbx_sums sums;		/* which files of packages are accepted */
	enum cbx_kind kind;		/* of all of them */
	cJSON *elsewhere;		/* {"python","machine"}: for that, and not to be installed here; NULL: here */
	bool newest;			/* of those that were asked for now: "-U" was among them */
	struct cbx_watch_op watch;
	struct cbx_input_op input;
	struct cbx_file_op file;
	struct cbx_answer_op stale;
	cJSON *warnings; /* texts, of codebox-packages; NULL: there are none */
	cJSON *imported; /* by the interpreter, in another version than it is installed in now; NULL: nothing */
	struct cbx_job job; /* the one that installs */
	bool installing;
	bool scripts;		       /* of packages of npm are to run, before it ends */
	struct cbx_command_op command; /* by which they do */
	struct cbx_buf said;	       /* what that prints */
	struct cbx_asks waiting;
	struct cbx_answerers busy, idle;
	size_t nbusy, asked;
	size_t waiting_bytes; /* of what was built, and waits */
	char built[27]; /* a name that nobody else knows, for what is built */
	struct cbx_buf line, feed, trace;
	size_t given; /* bytes of the feed that the resolver has been given, but may not have read */
	struct cbx_lock lock;
	cJSON *facts;	/* for packages of conda: what a sandbox of the session's image says of its Python */
	bool resolving; /* for these: the resolver is at work, or has been */
	cJSON *found; /* the resolver's answer */
	char *question; /* that it answers; NULL: nobody else will ask it */
	bool judged;
	char token[27];
	bool shown; /* the sandbox has been given it */
	char making[27]; /* the one that codebox-packages may have made meanwhile; "": none */
	struct event *work, *timer;
	bool over; /* by `failure`, or well */
	struct cbx_err failure;
};

/* What a session has installed of one kind. */
struct cbx_had {
	cJSON *requirements, *wheels; /* texts; what the resolver said of each */
	char token[27];		      /* of the directory that it uses; "": there is none */
};

struct cbx_packages {
	struct cbx_had had[CBX_KINDS];
	cJSON *tokens; /* of all its directories */
};

/* ---- wanted.c ---- */

/* The program of Python, or of Node, that uses such packages; NULL: the image has none. */
const char *cbx_wanted_program(const struct cbx_session *s, enum cbx_kind kind);
/* A list of names as packages/rules.h wants them, without hashes, which become those of *sums: where there is Node and
 * no Python, they are those of npm. *ret NULL: it is not a list. */
int cbx_wanted_spelled(const struct cbx_session *s, const cJSON *names, struct cbx_sums *sums, cJSON **ret,
		       struct cbx_err *err);
int cbx_wanted_check(const struct cbx_session *s, const cJSON *names, struct cbx_requirements *ret,
		     struct cbx_err *err);
/* They, and what was asked for earlier but for their names. */
cJSON *cbx_wanted_gather(const struct cbx_install *in, const cJSON *names);
bool cbx_wanted_has(const struct cbx_install *in, const char *name);
/* Whether the session has a wheel already. */
bool cbx_wanted_had(const struct cbx_packages *p, const struct cbx_wheel *w);
/* Whether what was found is what whoever asks accepts (sums.h); what the session has already is accepted. */
int cbx_wanted_sums(const struct cbx_install *in, struct cbx_err *err);

/* saved.c: what a resolver said of packages, without addresses. */
cJSON *cbx_wheels_said(const cJSON *packages);

/* resolved.c. What a resolver said to the same question lately: then it is `found`. */
bool cbx_resolved_find(struct cbx_install *in, const cJSON *question);
void cbx_resolved_keep(struct cbx_install *in);	       /* what was found, and judged */
void cbx_resolved_free(struct cbx_resolved *resolved); /* NULL-safe */

/* scripts.c. The scripts of its packages of npm run in the session, and then it ends. */
int cbx_install_scripts(struct cbx_install *in, struct cbx_err *err);
/* outcome.c: the answer; a line for who asked, and the session's log; those about what is there in another version than
 * before; and those about what was added, with what codebox-packages said of it, texts. */
cJSON *cbx_install_outcome(const struct cbx_install *in);
void cbx_install_warn(struct cbx_install *in, const char *text);
void cbx_install_warn_of_changed(struct cbx_install *in);
void cbx_install_warn_of_added(struct cbx_install *in, const cJSON *said);
/* packages.c. It ends soon, but not before the caller returns: with an error, or, NULL, well. */
void cbx_install_end(struct cbx_install *in, const struct cbx_err *err);

/* Whether anything of the index may be had, and can be; what the image has can always. */
int cbx_install_allowed(const struct cbx_session *session, struct cbx_err *err);

/* resolver.c. What it found is in `found`, and the `work` event is active, when it is through. */
cJSON *cbx_channels_json(const struct cbx_policy *policy); /* a list of them */
int cbx_resolver_begin(struct cbx_install *in, struct cbx_err *err);
void cbx_resolver_next(struct cbx_install *in);	 /* for packages of conda, when `facts` are there */
void cbx_resolver_go_on(struct cbx_install *in); /* it gets what has gathered for it, and what it asks for is begun */
void cbx_resolver_close(struct cbx_install *in);

#endif
