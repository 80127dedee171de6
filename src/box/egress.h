/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_EGRESS_H
#define CBX_BOX_EGRESS_H

/*
 * A box's way out. A sandbox has no route, unless its plan has CBX_PLAN_OPEN; one whose plan has CBX_PLAN_PROXY has a
 * listener on its loopback, which is handed to a process of codebox-proxy (proxy/protocol.h) that serves it by the
 * rules of a "network" of a policy. To make use of it:
 *
 *	plan.flags |= CBX_PLAN_PROXY;            its programs learn CBX_INSIDE_PROXY from cbx_egress_variables
 *	cbx_box_begin(box, &plan, …);
 *	cbx_egress_serve(box, &rules, NULL, &err);  now or later: until then connections wait
 *
 * Where rules have secrets, the sandbox's programs are to trust an authority of its proxy's. Its certificates are a
 * file in the sandbox before the box is said to be ready, for which it must be served at once; cbx_egress_trust names
 * that file.
 *
 * Rules that are not a policy's are read by cbx_network_parse(), as {"allow": ["pypi.org", "files.pythonhosted.org"]}.
 */
#include "box/state.h"
#include "policy/network.h"

/* Start codebox-proxy, before codeboxd confines itself. cbx_egress_serve() reports that it could not be started. */
void cbx_egress_start(struct cbx_boxes *all);

/* Of a box that is begun: *ret is the sandbox's end of its door. */
int cbx_egress_open(struct cbx_box *box, int *ret, struct cbx_err *err);
/* For cbx_egress_serve(), one for each secret that the rules have, in their order: it, or why it is not known. */
void cbx_egress_add_secret(struct cbx_buf *secrets, bool known, const char *text);
/* Have it served. The box need not be ready. secrets: those of the rules; may be NULL if they have none. */
int cbx_egress_serve(struct cbx_box *box, const struct cbx_network *rules, const struct cbx_buf *secrets,
		     struct cbx_err *err);
void cbx_egress_shut(struct cbx_box *box); /* end its proxy; what was decided can still be asked for */
void cbx_egress_release(struct cbx_box *box);

/* {"state": "none", "starting", "up" or "failed", "why", "decisions": […], "unreported"}, the latest decision last. */
cJSON *cbx_egress_to_json(const struct cbx_box *box);

/* Of the machine's resolvers the first, for a plan with CBX_PLAN_OPEN. */
const char *cbx_egress_resolver(struct cbx_boxes *all);
#define CBX_EGRESS_CUT "pasta has ended, and the session's route with it; use another session"

/* What programs of the sandbox are to have in their environment: names and values, in pairs, NULL at the end. */
extern const char *const cbx_egress_variables[][2];
/* Likewise, where cbx_network_adds(). */
extern const char *const cbx_egress_trust[][2];

/* Its init is there: its user learns of that when its part of the proxy is, too. */
void cbx_egress_ready(struct cbx_box *box);

#endif
