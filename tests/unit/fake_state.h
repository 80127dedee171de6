/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TESTS_FAKE_STATE_H
#define CBX_TESTS_FAKE_STATE_H

/* What the files of the fake engine share. */
#include "fake_engine.h"

#include <sys/queue.h>

#include "base/limits.h"

TAILQ_HEAD(fake_listeners, cbx_engine_listener);

struct cbx_execution {
	TAILQ_ENTRY(cbx_execution) entry;
	struct cbx_session *session;
	uint64_t id;
	enum cbx_status status;
	char *code;
	struct cbx_op *watch[CBX_WATCHERS_MAX];
	struct event *ev;
	struct cbx_buf out, err, both;
	char *result, *message;
	bool raised, killed_by_close, told; /* told: its end was */
	char key[CBX_HOLD_KEY + 1];
	cJSON *displays, *files;
};

struct cbx_session {
	TAILQ_ENTRY(cbx_session) entry;
	struct cbx_engine *engine;
	struct cbx_session_spec spec;
	char tenant[CBX_NAME_MAX + 1];
	char *closed; /* why; NULL: alive */
	bool fails;   /* its set-up will */
	uint64_t executions;
	struct cbx_op *op;
	struct event *ready;
	TAILQ_HEAD(, cbx_execution) list;
	struct fake_files *files;
};

struct cbx_engine {
	struct event_base *base;
	TAILQ_HEAD(, cbx_session) sessions;
	struct fake_listeners listeners;
	bool fail_setup;
	struct cbx_err trouble;
	size_t made, interrupts;
};

/* fake_cells.c */
void fake_execution_free(struct cbx_execution *x);
void fake_wake(struct cbx_execution *x); /* it continues from the event loop */
/* fake_files.c */
struct fake_files *fake_files_new(void);
void fake_files_free(struct fake_files *f);

#endif
