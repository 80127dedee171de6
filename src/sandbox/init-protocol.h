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

#include "sandbox/interpreter-fds.h"

enum cbx_init_type {
	CBX_INIT_READY = 1, /* init -> codeboxd, once, id 0, no payload: the sandbox is complete */

	/*
	 * Start a process in a session (setsid) of its own. Payload: the argument strings, an empty string, the
	 * environment strings; each with its NUL; then, behind another empty string, its directory, the workspace if
	 * omitted. A program without a '/' is looked for in the PATH of its environment.
	 * Descriptors: those that become its 0, 1, 2 and so on; 3 at least, CBX_INTERPRETER_FDS at most.
	 * value: enum cbx_init_spawn; arg: 0, or the size of its terminal; and from bit CBX_INIT_WORDS on how many of
	 * the strings are arguments, where some of them may be empty: then no empty string is behind them.
	 * Answer: value = pid inside, or -errno (no process), and arg = enum cbx_init_step, what failed.
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
	 * RENAME: data is the new path, with its NUL; nothing is replaced. Answer: value = 0 or -errno.
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
	 * entered, and .codebox in the directory itself is omitted. value = how many to skip. Answer: payload as of
	 * LIST, with paths below the directory for names; value = how many follow, arg = how many there are in all,
	 * with CBX_INIT_SCAN_CUT when the tree was too large to look at all of it.
	 */
	CBX_INIT_SCAN = 11,
	CBX_INIT_RENAME = 12,

	/* Have process `arg`, which was held, execute its program. Answer: as of SPAWN, with 0 for the pid. */
	CBX_INIT_GO = 13,
	/* The terminal of process `arg` is of size `value` now. Answer: value = 0 or -errno. */
	CBX_INIT_RESIZE = 14,
	/* Send signal `value` to process `arg`, to its descendants, and to the members of its session. Answer: value =
	 * 0 or -errno. */
	CBX_INIT_KILL = 15,

	/*
	 * init -> codeboxd, id 0: a process of the session asks for something (init-ask.c). arg = number of the
	 * question, which counts from 1; the payload is its text, up to CBX_ASK_MAX bytes, and not looked at by init.
	 * Without a payload: who asked question arg has gone. The next one comes when codeboxd has answered this one,
	 * in both cases.
	 */
	CBX_INIT_ASKED = 16,
	/* Answer question arg: the payload goes to who asked. Answer: value = 0 or -errno. */
	CBX_INIT_TELL = 17,

	/* Files, too. READLINK: answer: payload = where the link leads, without a NUL; value = its length. */
	CBX_INIT_READLINK = 18,
	/*
	 * Put an entry of an archive into a directory (the path). Data: its path in there, and a second text, each with
	 * its NUL; arg: its time, as mtime_ns. value: type and mode, as in stat(2), without set-user-ID and
	 * set-group-ID: S_IFREG: the text is the name of a file beside its place, which becomes it; S_IFLNK: where it
	 * leads; S_IFDIR: ""; 0: nothing is put there. CBX_INIT_PLACE_NAME: the text is the path of a file that gets
	 * another name. The directories above it are made, and none of them may be a link. What is there is replaced,
	 * but for directories. Answer: value = 0 or -errno.
	 */
	CBX_INIT_PLACE = 19,
};

#define CBX_INIT_DOOR "codebox" /* where processes ask: an abstract name (unix(7)), for a SOCK_SEQPACKET socket */
#define CBX_INIT_DOOR_PORT 3127 /* and, where CBX_INSIDE_MODULES is, on 127.0.0.1 for Node, which has no such sockets  \
				 */

enum cbx_init_spawn {
	/* It waits, before its program is executed, for GO: until it is under its limits. */
	CBX_INIT_SPAWN_HELD = 1,
	/* Its 0, 1 and 2, and its controlling terminal, are a pseudo-terminal of the sandbox's own. The descriptors are
	 * two pipes: to read what is typed from, and to write to what it shows. A process of init's copies between them
	 * and the terminal, so that no end of a terminal ever leaves the sandbox: whoever holds one can have others
	 * that hold it wait. */
	CBX_INIT_SPAWN_TERMINAL = 2,
	/* Its directory need not be there: then it starts in the workspace. */
	CBX_INIT_SPAWN_ANYWHERE = 4,
};

enum cbx_init_step {
	CBX_INIT_STEP_EXEC,
	CBX_INIT_STEP_DIRECTORY,
	CBX_INIT_STEP_TERMINAL,
	CBX_INIT_STEP_PROCESS, /* there can be no more of them */
};

#define CBX_INIT_WORDS 32
#define CBX_INIT_SIZE(rows, columns) ((uint64_t)(rows) << 16 | (columns)) /* of a terminal */

#define CBX_INIT_WRITE_TRUNCATE 1
#define CBX_INIT_WRITE_EXECUTABLE 2
#define CBX_INIT_SCAN_CUT (1ull << 63)
#define CBX_INIT_PLACE_NAME	  (1 << 20)

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

#define CBX_INIT_SOCKET 3 /* of init: to codeboxd */
#define CBX_INIT_WORDS_MAX 4096 /* arguments, and environment strings, of one process */

/* Split "a\0b\0" at *p into words: `count` of them, or, if that is 0, up to an empty one or the end, which is passed.
 * -1 when the last is not closed, or there are fewer. */
static inline int cbx_init_split_some(char **p, const char *end, uint64_t count, char **words)
{
	int n = 0;

	while (*p < end && (count ? (uint64_t)n < count : **p != '\0')) {
		char *nul = memchr(*p, '\0', (size_t)(end - *p));

		if (!nul || n == CBX_INIT_WORDS_MAX - 1)
			return -1;
		words[n++] = *p;
		*p = nul + 1;
	}
	if (!count)
		*p += *p < end;
	words[n] = NULL;
	return count && (uint64_t)n < count ? -1 : n;
}

static inline int cbx_init_split(char **p, const char *end, char **words)
{
	return cbx_init_split_some(p, end, 0, words);
}

#endif
