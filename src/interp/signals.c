/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an interpreter is a pid inside the sandbox that only init understands, so init sends the signals.
 * What breaks the protocol is killed; CBX_NEWS_WAIT_MS is what init gets to say why, where it seems to have ended by
 * itself.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/timer.h"
#include "box/box.h"
#include "interp/signals.h"

static void signalled(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		      const struct cbx_err *fault)
{
	struct cbx_interp *in = arg;

	in->signals--;
	if (fault)
		return;
	if (h->value < 0 && in->killed && !in->exited && in->state == CBX_INTERP_DYING) {
		/* No such process any more, and nobody has told of its end (yet). */
		in->exited = true;
		cbx_timer_set(in->timer, CBX_NEWS_WAIT_MS);
	}
	in->up->settled(in);
}

/* It may have been stopped while it was idle. */
void cbx_interp_thaw(struct cbx_interp *in)
{
	struct cbx_err err;

	if (cbx_group_thaw(in->box, &err) < 0)
		cbx_interp_fault(in, "it was stopped while it was idle, and cannot continue: %.200s", err.msg);
}

void cbx_interp_signal(struct cbx_interp *in, int sig)
{
	struct cbx_init_header h = { .type = CBX_INIT_SIGNAL, .arg = (uint64_t)in->pid, .value = sig };
	struct cbx_err err;

	if (in->pid <= 0 || in->exited)
		return;
	cbx_interp_thaw(in);
	in->signals++;
	if (cbx_init_ask(in->box, &h, NULL, 0, NULL, 0, NULL, 0, true, signalled, in, &err) < 0)
		in->signals--;
}

void cbx_interp_kill(struct cbx_interp *in)
{
	if (in->state == CBX_INTERP_NONE || in->killed || in->exited)
		return;
	in->killed = true;
	in->state = CBX_INTERP_DYING;
	cbx_timer_set(in->timer, CBX_KILL_WAIT_S * 1000);
	cbx_interp_signal(in, SIGKILL);
}

void cbx_interp_fault(struct cbx_interp *in, const char *fmt, ...)
{
	va_list ap;

	if (in->state == CBX_INTERP_NONE || in->fault[0])
		return;
	va_start(ap, fmt);
	vsnprintf(in->fault, sizeof(in->fault), fmt, ap);
	va_end(ap);
	cbx_interp_kill(in);
}

void cbx_interp_expect_end(struct cbx_interp *in)
{
	if (in->state == CBX_INTERP_STARTING || in->state == CBX_INTERP_READY) {
		in->state = CBX_INTERP_DYING;
		cbx_timer_set(in->timer, CBX_NEWS_WAIT_MS);
	}
}
