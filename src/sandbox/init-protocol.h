/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_INIT_PROTOCOL_H
#define CBX_SANDBOX_INIT_PROTOCOL_H

/*
 * Between codeboxd and a sandbox's init: datagrams on a SOCK_SEQPACKET socket (init's descriptor 3), each at most
 * CBX_INIT_MESSAGE_MAX bytes: this header, then `len` bytes. Host byte order; both ends are the same machine.
 *
 * codeboxd asks, init answers with the same `id` and `type`. Requests are carried out one after another. Only codeboxd
 * sends descriptors. Init is inside the sandbox: to codeboxd all that it says is hostile, and a wrong answer can only
 * ever be about its own sandbox. File access is done by init, as the session's user and inside the session's
 * namespaces, so no path of a session is ever resolved outside of it: there is nothing to escape from.
 *
 * Init ends, and the whole sandbox with it, when this socket is closed.
 */
#include <stdint.h>
#include <string.h>

enum cbx_init_type {
	CBX_INIT_READY = 1, /* init -> codeboxd, once, id 0, no payload: the sandbox is complete */

	/*
	 * Start a process in a session (setsid) of its own, in the workspace. Payload: the argument strings, an empty
	 * string, the environment strings; each with its NUL.
	 * Descriptors: stdin, stdout, stderr, and optionally one more that becomes descriptor 3.
	 * arg: 0. Answer: value = pid inside, or -errno (the exec's own errno is reported: exec failed: no process).
	 */
	CBX_INIT_SPAWN = 2,

	/* init -> codeboxd, id 0: a started process ended. arg = pid, value = wait status. */
	CBX_INIT_EXITED = 3,

	/* Send signal `value` to process `arg` and its process group (also to other members of its session when value
	 * is SIGKILL). Answer: value = 0 or -errno. */
	CBX_INIT_SIGNAL = 4,

	/*
	 * Files. Payload: path (relative to the workspace unless it starts with '/'), a NUL, then data where said.
	 * Only regular files are read or written; anything else is -EINVAL (a directory: -EISDIR), without a wait.
	 * READ: arg = offset, value = most bytes wanted. Answer: value = bytes that follow (0: end of file); arg =
	 *   size.
	 * WRITE: arg = offset, or UINT64_MAX to append; value bits: see below; data follows the path. Answer: value =
	 *   bytes written. Missing parent directories are made. With CBX_INIT_WRITE_TRUNCATE the file is emptied first.
	 * STAT: answer: payload = struct cbx_init_stat.
	 * LIST: arg = number of entries to skip. Answer: payload = struct cbx_init_entry's, each followed by its name
	 *   and a NUL, padded to 8 bytes, as many as fit; value = how many, arg = 1 when there are more.
	 * MKDIR, REMOVE (a file, or a whole directory tree): answer: value = 0 or -errno.
	 */
	CBX_INIT_READ = 5,
	CBX_INIT_WRITE = 6,
	CBX_INIT_STAT = 7,
	CBX_INIT_LIST = 8,
	CBX_INIT_MKDIR = 9,
	CBX_INIT_REMOVE = 10,

	/*
	 * Regular files below a directory (the payload's path) whose ctime is at or after arg, ns since the epoch as an
	 * int64_t, or that lie in a directory that was renamed since; no link is followed, no other file system
	 * entered, and .codebox in the directory itself is left out. value = how many to skip. Answer: payload as of
	 * LIST, with paths below the directory for names; value = how many follow, arg = how many there are in all,
	 * with CBX_INIT_SCAN_CUT when the tree was too large to look at all of it.
	 */
	CBX_INIT_SCAN = 11,
};

#define CBX_INIT_WRITE_TRUNCATE 1
#define CBX_INIT_WRITE_EXECUTABLE 2
#define CBX_INIT_SCAN_CUT (1ull << 63)

struct cbx_init_header {
	uint32_t type;
	uint32_t id;
	int64_t value; /* answers: result or -errno */
	uint64_t arg;
	uint32_t len;  /* bytes behind the header */
	uint32_t zero;
};

struct cbx_init_stat {
	uint32_t mode; /* as in stat(2), with the file type */
	uint32_t zero;
	uint64_t size;
	int64_t mtime_ns; /* since the epoch */
};

struct cbx_init_entry {
	struct cbx_init_stat st;
	uint32_t name_len; /* without the NUL */
	uint32_t entry_len; /* bytes from this entry to the next */
};

#define CBX_INIT_WORDS_MAX 256 /* arguments, and environment strings, of one process */

/* Split "a\0b\0" at *p into words, up to an empty one or the end; -1 when the last is not closed. */
static inline int cbx_init_split(char **p, const char *end, char **words)
{
	int n = 0;

	while (*p < end && **p) {
		char *nul = memchr(*p, '\0', (size_t)(end - *p));

		if (!nul || n == CBX_INIT_WORDS_MAX - 1)
			return -1;
		words[n++] = *p;
		*p = nul + 1;
	}
	*p += *p < end; /* the empty string between arguments and environment */
	words[n] = NULL;
	return n;
}

#endif
