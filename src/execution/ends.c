/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an execution ends in one of four ways: the driver says "done"; the interpreter dies; the session
 * is closed; or the cell never runs. Every end has a message for whoever wrote the code: what happened, what was lost,
 * what to do. All of them come to cbx_execution_end().
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "box/box.h"
#include "execution/internal.h"

/* ---- errors that a limit explains ----
 *
 * The kernel tells a program that hits a limit what it could not do, not that somebody set a limit, nor which. The
 * error that ended a cell is compared with the texts that C libraries have for those refusals, and the session's limit
 * is named in a note. So is the network that is not there, for which what was printed counts, too: pip is a program of
 * its own. The text is the interpreter's word, so it can only ever bring forth one of these notes.
 */

/* What the C library, pip and others say then sounds as if trying again would help. */
static bool no_network(const char *text)
{
	return strstr(text, "Temporary failure in name resolution") || strstr(text, "Network is unreachable") ||
	       strstr(text, "Could not resolve host"); /* curl, git */
}

static void add_hint(struct cbx_execution *x)
{
	const struct cbx_cgroup_limits *limits = &x->cells->box->limits;
	const char *name = x->error_name ? x->error_name : "", *value = x->error_value ? x->error_value : "";
	char size[32], count[32];

	if (strstr(value, "No space left on device")) {
		cbx_format_size(limits->disk_bytes, size);
		cbx_format_count(cbx_box_inodes(limits->disk_bytes), count);
		cbx_buf_addf(&x->note,
			     "The session's disk is full: its limit is %s, in %s files and directories at most. Remove "
			     "what is not needed, or use a session with a larger disk. ",
			     size, count);
	} else if (strstr(value, "Too many open files")) {
		cbx_format_count(CBX_OPEN_FILES, count);
		cbx_buf_addf(&x->note,
			     "A process of a session may have %s files open at once, or %u where it raises its limit "
			     "(resource.setrlimit). ",
			     count, CBX_OPEN_FILES_MAX);
	} else if (strstr(value, "File too large")) {
		cbx_format_size(CBX_FILE_SIZE_MAX, size);
		cbx_buf_addf(&x->note, "A file of a session may have %s. ", size);
	} else if (strstr(value, "Resource temporarily unavailable") || strstr(value, "can't start new thread")) {
		cbx_buf_addf(&x->note, "The session's limit is %u processes and threads. ", limits->processes);
	} else if (strcmp(name, "MemoryError") == 0 || strstr(value, "Cannot allocate memory")) {
		cbx_format_size(limits->memory_bytes, size);
		cbx_buf_addf(&x->note, "The session's memory limit is %s. " CBX_SAYS_LESS_MEMORY, size);
	} else if (no_network(value) || no_network(cbx_buf_str(&x->output.head)) ||
		   no_network(cbx_buf_str(&x->output.tail))) {
		if (x->cells->box->egress.decisions)
			cbx_buf_adds(&x->note, "The session reaches hosts by its proxy alone (the variables http_proxy and "
					       "https_proxy), and only those that its policy allows. ");
		else
			cbx_buf_addf(&x->note, "The session has no network, so downloads cannot work. Bring files in from "
				     "outside, and %s. ", x->cells->terms.installs ? "get packages by %pip install NAME"
								     : "use the packages that are installed");
	} else if (strcmp(name, "ModuleNotFoundError") == 0 && x->cells->terms.installs) {
		cbx_buf_adds(&x->note, "%pip install NAME gets a package that is not there. ");
	}
}

/* ---- ends ---- */

static void seconds(uint64_t ms, char out[32])
{
	snprintf(out, 32, "%g s", (double)ms / 1000);
}

/* The driver has control again, so state is kept, whatever the status. */
static enum cbx_status stopped(struct cbx_execution *x, bool interrupted)
{
	char limit[32], most_text[32];

	if (x->stopping != CBX_TIMEOUT) {
		cbx_buf_adds(&x->message, "The cell was interrupted on request." CBX_SAYS_KEPT);
		return CBX_CANCELLED;
	}
	seconds(x->cells->terms.timeout_max_ms, most_text);
	seconds(x->timeout_ms, limit);
	cbx_buf_addf(&x->message,
		     "The cell was interrupted at its time limit of %s%s." CBX_SAYS_KEPT
		     " To let it run longer, run it again with a timeout (run_code: timeout, codebox run: --timeout; at most "
		     "%s here), or split the work into smaller cells.",
		     limit, interrupted ? "" : ", and ended in its own way", most_text);
	return CBX_TIMEOUT;
}

/* What the interpreter says of its own use; the kernel's word, where there is one, comes at the end. */
static void set_usage(struct cbx_execution *x, const struct cbx_frame_usage *u)
{
	if (!u->known)
		return;
	x->usage = (struct cbx_cell_usage){ .source = "interpreter",
					    .cpu_us = u->cpu_us,
					    .peak = u->peak,
					    .peak_of = "process",
					    .has_io = true,
					    .io_read = u->io_read,
					    .io_written = u->io_written };
}

void cbx_end_done(struct cbx_execution *x, const struct cbx_frame *f)
{
	enum cbx_status status = f->status == CBX_DONE_OK ? CBX_OK : CBX_ERROR;

	if (f->has_count) {
		x->has_count = true;
		x->count = f->count;
	}
	x->has_exit_code = f->has_exit_code;
	x->exit_code = f->exit_code;
	x->no_files = f->no_files;
	set_usage(x, &f->usage);
	if (x->phase != CBX_PHASE_RUN) {
		status = stopped(x, f->status == CBX_DONE_INTERRUPTED);
	} else if (f->status == CBX_DONE_EXIT) {
		cbx_buf_addf(&x->message, CBX_SAYS_ASKED "%lld." CBX_SAYS_GOES_ON,
			     (long long)x->exit_code);
		status = x->exit_code == 0 ? CBX_OK : CBX_ERROR;
	} else {
		if (f->status == CBX_DONE_ERROR && f->has_exit_code && !x->error_name)
			cbx_buf_addf(&x->message, CBX_SAYS_ENDED "%lld.", (long long)x->exit_code);
		add_hint(x);
	}
	cbx_execution_end(x, status);
}

void cbx_end_died(struct cbx_execution *x, const char *how)
{
	const struct cbx_interp *in = &x->seat->interp;
	bool killed = x->phase == CBX_PHASE_KILLED;
	char limit[32], grace[32];

	x->state_kept = false;
	seconds(x->timeout_ms, limit);
	seconds(CBX_GRACE_MS, grace);
	if (x->as_program && in->status_known && !killed) {
		x->has_exit_code = true; /* as a shell has it */
		x->exit_code = WIFEXITED(in->status) ? WEXITSTATUS(in->status) : 128 + WTERMSIG(in->status);
	}
	if (x->stopping == CBX_TIMEOUT && killed)
		cbx_buf_addf(&x->message,
			     "The cell kept running for %s after it was interrupted at its time limit of %s, so its "
			     "interpreter was killed." CBX_SAYS_LOST,
			     grace, limit);
	else if (x->stopping == CBX_CANCELLED && killed)
		cbx_buf_addf(&x->message,
			     "The cell kept running for %s after it was interrupted on request, so its interpreter was "
			     "killed." CBX_SAYS_LOST,
			     grace);
	else if (in->restart)
		cbx_buf_adds(&x->message, "The session's interpreter was restarted on request while the cell ran."
					  CBX_SAYS_LOST);
	else
		cbx_buf_addf(&x->message, "The interpreter died: %s." CBX_SAYS_LOST, how);
	if (in->oom && !in->oom_outside && !in->oom_opened)
		cbx_buf_adds(&x->message, " " CBX_SAYS_LESS_MEMORY);
	if (in->restart)
		x->stopping = CBX_KILLED;
	cbx_execution_end(x, x->stopping == CBX_TIMEOUT || x->stopping == CBX_CANCELLED ? x->stopping : CBX_KILLED);
}

void cbx_end_closed(struct cbx_execution *x, const char *why)
{
	if (x->status == CBX_QUEUED && x->cells->failed)
		cbx_buf_adds(&x->message, why); /* there never was a session: that says what to do */
	else if (x->status == CBX_QUEUED)
		cbx_buf_addf(&x->message, "The cell did not run: the session was closed: %s. Create a new session.",
			     why);
	else if (!x->finishing)
		cbx_buf_addf(&x->message,
			     "The session was closed while the cell ran: %s. Its variables and files are gone; create a "
			     "new session.",
			     why);
	cbx_execution_end(x, CBX_KILLED);
}

void cbx_end_unrun(struct cbx_execution *x, enum cbx_status status, const char *why)
{
	if (why)
		cbx_buf_addf(&x->message, "The cell did not run: %s", why);
	else
		cbx_buf_adds(&x->message, "The cell was cancelled before it ran.");
	cbx_execution_end(x, status);
}
