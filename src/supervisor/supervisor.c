/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/supervisor.h"

#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/syscalls.h"

void send_event(const struct cbx_event *e)
{
	if (cbx_send_fds(SOCK, e, sizeof(*e), NULL, 0) < 0)
		_exit(0); /* codeboxd has gone */
}

void send_about(enum cbx_event_type type, uint64_t number, const struct cbx_err *err)
{
	struct cbx_event e = { .type = type, .sandbox = number };

	if (err)
		e.err = *err;
	send_event(&e);
}

struct sandbox *find_sandbox(struct supervisor *s, uint64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].id == id)
			return &s->all[i];
	return NULL;
}

int set_up_goes_on(struct sandbox *b)
{
	struct cbx_err err;
	int r = cbx_sandbox_report(b->report, &b->handed, &err);

	if (r > 0)
		return 1;
	cbx_close_p(&b->report);
	if (r < 0) {
		b->failed = 1;
		cbx_pidfd_send_signal(b->pidfd, SIGKILL);
		send_about(CBX_EVENT_FAILED, b->id, &err);
	}
	return 0;
}
