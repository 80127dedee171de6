/* SPDX-License-Identifier: Apache-2.0 */
/* What happens in the engine and at the doors is counted here, and kept in the audit log. */
#include "observe/audit.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "observe/metrics.h"

/* A request that names the trace it is part of is found in the log by that. */
static void log_trace(const struct cbx_happened *h)
{
	struct cbx_log_subject subject = { h->tenant, h->session_id, h->via->trace };
	static const char *const asked[CBX_HAPPENINGS] = {
		[CBX_HAPPENED_MADE] = "a session", [CBX_HAPPENED_CELL] = "a cell", [CBX_HAPPENED_COMMAND] = "a command"
	};

	if (h->what == CBX_HAPPENED_DENIED)
		cbx_log_about(CBX_LOG_INFO, &subject, "trace %.32s: refused: %s", h->via->trace + 3, h->why);
	else if (asked[h->what])
		cbx_log_about(CBX_LOG_INFO, &subject, "trace %.32s: %s of %s, number %llu", h->via->trace + 3,
			      asked[h->what], h->session_id, (unsigned long long)h->id);
}

static void happened(void *arg, const struct cbx_happened *h)
{
	struct cbx_daemon *d = arg;

	cbx_metrics_count(d->metrics, h);
	if (h->via && h->via->trace[0])
		log_trace(h);
	if (!d->audit)
		return;
	cbx_audit_write(d->audit, h);
	if (cbx_audit_lost(d->audit) == 1)
		cbx_error("the audit log cannot be written; what is lost is counted in its next line");
}

void cbx_daemon_observe(struct cbx_daemon *d)
{
	d->metrics = cbx_metrics_new();
	d->observer = (struct cbx_observer){ .happened = happened, .arg = d };
}

/* The log is another place for the end of the chain: who changes the file would have to change that, too. */
static void tell_head(const struct cbx_daemon *d)
{
	char head[CBX_AUDIT_HEAD];

	cbx_audit_head(d->audit, head);
	cbx_info("audit log %s: %s", d->audit_path, head);
}

int cbx_daemon_open_audit(struct cbx_daemon *d, struct cbx_err *err)
{
	int r = d->audit_path ? cbx_audit_open(d->audit_path, d->audit_code, &d->audit, err) : 0;

	if (d->audit)
		tell_head(d);
	return r;
}

void cbx_daemon_reopen_audit(struct cbx_daemon *d)
{
	struct cbx_err err;

	if (!d->audit)
		return;
	tell_head(d);
	if (cbx_audit_reopen(d->audit, &err) < 0)
		cbx_error("%s; the old file stays in use", err.msg);
}

void cbx_daemon_unobserve(struct cbx_daemon *d)
{
	if (d->audit) {
		cbx_audit_stop(d->audit);
		tell_head(d);
	}
	cbx_audit_close(d->audit);
	cbx_metrics_free(d->metrics);
}
