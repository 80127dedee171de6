/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a program that hits a limit is told by the kernel what it could not do, not that somebody set a
 * limit, nor which. The error that ended a cell is compared with the texts that C libraries have for those refusals,
 * and the session's limit is named in a note. So is the network that is not there, for which what was printed counts,
 * too: pip is a program of its own. The text is the interpreter's word, so it can only ever bring forth one of these
 * notes.
 */
#include <string.h>

#include "session/internal.h"

uint64_t cbx_hints_inodes(const struct cbx_session_spec *spec)
{
	uint64_t n = (spec->disk_bytes >> 20) * CBX_INODES_PER_MIB;

	return n < 1024 ? 1024 : n;
}

/* What the C library, pip and others say then sounds as if trying again would help. */
static bool no_network(const char *text)
{
	return strstr(text, "Temporary failure in name resolution") || strstr(text, "Network is unreachable");
}

void cbx_hints_add(struct cbx_execution *x)
{
	const struct cbx_session *s = x->session;
	const char *name = x->error_name ? x->error_name : "", *value = x->error_value ? x->error_value : "";
	char size[32], count[32];

	if (strstr(value, "No space left on device")) {
		cbx_format_size(s->spec.disk_bytes, size);
		cbx_format_count(cbx_hints_inodes(&s->spec), count);
		cbx_buf_addf(&x->note,
			     "The session's disk is full: its limit is %s, in %s files and directories at most. Remove "
			     "what is not needed, or use a session with a larger disk. ",
			     size, count);
	} else if (strstr(value, "Too many open files")) {
		cbx_format_count(CBX_OPEN_FILES, count);
		cbx_buf_addf(&x->note, "A process of a session may have %s files open at once. ", count);
	} else if (strstr(value, "File too large")) {
		cbx_format_size(CBX_FILE_SIZE_MAX, size);
		cbx_buf_addf(&x->note, "A file of a session may have %s. ", size);
	} else if (strstr(value, "Resource temporarily unavailable") || strstr(value, "can't start new thread")) {
		cbx_buf_addf(&x->note, "The session's limit is %u processes and threads. ", s->spec.processes);
	} else if (strcmp(name, "MemoryError") == 0 || strstr(value, "Cannot allocate memory")) {
		cbx_format_size(s->spec.memory_bytes, size);
		cbx_buf_addf(&x->note,
			     "The session's memory limit is %s. Delete what is not needed, work in parts, or use a "
			     "session with more memory. ",
			     size);
	} else if (no_network(value) || no_network(cbx_buf_str(&x->output.head)) ||
		   no_network(cbx_buf_str(&x->output.tail))) {
		cbx_buf_adds(&x->note, "The session has no network, so downloads and pip install cannot work. Use what "
				       "is installed, and bring files in from outside. ");
	}
}
