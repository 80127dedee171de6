/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_PRINCIPAL_H
#define CBX_SESSION_PRINCIPAL_H

/*
 * Who asks. A session belongs to the tenant that made it, and ids are the tenant's own: to everybody else a session is
 * not there, and another one may have the same id. The user who runs the engine is the tenant "local".
 */
#include <stdint.h>

#include "base/op.h"
#include "base/rate.h"
#include "base/str.h"

struct cbx_engine;
struct cbx_policy;

/* Images that are some tenants' own, by name and then tenant. */
struct cbx_owned_images {
	struct cbx_owned_image {
		char name[CBX_NAME_MAX + 1], tenant[CBX_NAME_MAX + 1];
	} *all;
	size_t n;
};

struct cbx_principal {
	char tenant[CBX_NAME_MAX + 1];
	struct cbx_policy *ceiling; /* narrows what the engine's policy allows; borrowed. NULL: nothing more */
	uint64_t sessions_max;	    /* of this tenant, at a time; 0: as many as the engine's policy allows to all */
	uint64_t memory_max, disk_max; /* what the limits of its sessions may add up to; 0: no such bound */
	uint64_t cpus_max;	       /* likewise, in thousandths of a processor: no session has more */
	uint32_t cpu_weight;	       /* its share of processor time, beside those of others; 0: as everybody's */
	struct cbx_rate *executions;   /* NULL: as often as it likes. Outlives its sessions */
	const struct cbx_owned_images *owned; /* those of others are not there for it. NULL: all are */
};

/* The user who runs the engine, for whom its policy is enough. */
#define CBX_PRINCIPAL_LOCAL { .tenant = "local" }

#define CBX_VIA_TOKEN 56

/* By which way a request came; for those who observe (happened.h). */
struct cbx_via {
	const char *door; /* "rest", "mcp", "control" */
	char token[CBX_VIA_TOKEN]; /* the public id of the token that was shown, or "jwt:" and its subject; "": none */
	char trace[56];	  /* W3C trace context, "00-…": what the request said of itself; "": nothing */
};

/* One who calls the engine: each connection is one. Its operations are cancelled before it goes. */
struct cbx_caller {
	struct cbx_engine *engine;
	const struct cbx_principal *principal; /* outlives the caller */
	const struct cbx_via *via;	       /* of its latest request; NULL: not known */
	struct cbx_ops ops;
};

#endif
