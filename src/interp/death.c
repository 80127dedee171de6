/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of an interpreter's death: words for what init, the supervisor and the kernel have told. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/signals.h"
#include "base/str.h"
#include "box/state.h"
#include "interp/interp.h"

void cbx_interp_oom_text(enum cbx_oom why, uint64_t memory_bytes, char *out, size_t n)
{
	char limit[32];

	cbx_format_size(memory_bytes, limit);
	if (why == CBX_OOM_FILES)
		snprintf(out, n, "the session's processes had too many files open together");
	else if (why == CBX_OOM_TOGETHER)
		snprintf(out, n, "the machine, or the group of sessions as a whole, ran out of memory");
	else
		snprintf(out, n, "the session's memory limit of %s was exceeded", limit);
}

static void killed_for_memory(const struct cbx_interp *in, char *out, size_t n)
{
	uint64_t limit = in->box->limits.memory_bytes;
	char text[160], files[32], more[100] = "";

	cbx_interp_oom_text(in->oom_opened    ? CBX_OOM_FILES :
			    in->oom_outside ? CBX_OOM_TOGETHER :
						CBX_OOM_SESSION,
			    limit, text, sizeof(text));
	cbx_format_size(in->oom_files, files);
	if (!in->oom_opened && !in->oom_outside && in->oom_files > limit / 10)
		snprintf(more, sizeof(more), " (of which the session's files hold %s: delete what is not needed)",
			 files);
	snprintf(out, n, "it was killed because %s%s", text, more);
}

void cbx_interp_how(const struct cbx_interp *in, char *out, size_t n)
{
	if (in->oom)
		killed_for_memory(in, out, n);
	else if (in->fault[0])
		snprintf(out, n, "it was killed by codebox because %s", in->fault);
	else if (!in->status_known)
		snprintf(out, n, "it ended for an unknown reason");
	else if (WIFEXITED(in->status))
		snprintf(out, n, "it ended with exit code %d (os._exit or C code)", WEXITSTATUS(in->status));
	else if (WIFSIGNALED(in->status) && WTERMSIG(in->status) == SIGKILL)
		snprintf(out, n, "it was killed by signal 9 (SIGKILL): by its own code, or because memory ran out");
	else if (WIFSIGNALED(in->status))
		snprintf(out, n, "it was killed by signal %d (SIG%s, %s)", WTERMSIG(in->status),
			 cbx_signal_name(WTERMSIG(in->status)) ? cbx_signal_name(WTERMSIG(in->status)) : "?",
			 strsignal(WTERMSIG(in->status)));
	else
		snprintf(out, n, "it ended with status %d", in->status);
}
