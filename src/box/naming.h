/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_NAMING_H
#define CBX_BOX_NAMING_H

/*
 * What paths of the machine are really called, found by a process that the supervisor forks for it. codeboxd opens none
 * of them itself, and does not wait either: `done` is called from the event loop when all is known that will be, after
 * CBX_HOST_NAMES_MS at most.
 */
#include "box/state.h"
#include "sandbox/hostnames.h"

struct cbx_naming {
	void (*done)(struct cbx_naming *naming); /* it may free it */
	void *arg;
	char **paths;
	struct cbx_host_name *names; /* of each; error ETIMEDOUT and no name: nothing has answered */
	size_t n, known;
	int sock;
	struct event *in, *end;
	uint64_t until_ms;
	bool begun, over; /* over: no more answers come */
};

struct cbx_naming *cbx_naming_new(void);
void cbx_naming_add(struct cbx_naming *naming, const char *path); /* before it begins */
/* Once. `done` is never called from inside. */
int cbx_naming_begin(struct cbx_naming *naming, struct cbx_boxes *all, void (*done)(struct cbx_naming *naming),
		     void *arg, struct cbx_err *err);
/* Of what was not asked, nothing is known: it is, next. */
void cbx_naming_get(struct cbx_naming *naming, const char *path, struct cbx_host_name *ret);
/* True: something is to be asked still, and `done` will be called again. */
bool cbx_naming_more(struct cbx_naming *naming);
void cbx_naming_free(struct cbx_naming *naming); /* NULL-safe; also before `done`, which is not called then */

#endif
