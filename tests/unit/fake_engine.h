/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TESTS_FAKE_ENGINE_H
#define CBX_TESTS_FAKE_ENGINE_H

/*
 * The functions of session/session.h in memory, for tests of the protocols above it. Code is a list of commands, one a
 * line, carried out by a toy:
 *
 *   print TEXT     TEXT and a newline to stdout       error TEXT   the same to stderr
 *   raw TEXT       TEXT with C escapes, no newline    value TEXT   the value of the last expression
 *   fill N C       N times the character C            show MIME N  a display of N bytes; PNG data where MIME says so
 *   show-two N M   one display: PNG of N bytes, JPEG of M
 *   show-text MIME TEXT                               raise        an exception
 *   page N TEXT    HTML: N spaces and TEXT
 *   wait           run until interrupted              die          the interpreter is killed
 *   time           the time is up, state is kept
 *   write PATH TEXT  a file that the cell changes     png PATH N     the same with N bytes of an image
 */
#include "session/session.h"

extern const struct cbx_principal fake_principal;
struct cbx_engine *fake_engine_new(struct event_base *base);
void fake_engine_free(struct cbx_engine *e);
/* From now on no sandbox can be made. */
void fake_engine_break(struct cbx_engine *e);
/* Set-up of sessions fails after session_create has returned. */
void fake_engine_fail_setup(struct cbx_engine *e, bool on);
/* The session ends by itself. */
void fake_session_expire(struct cbx_engine *e, const char *id);
/* Cells that are running. */
size_t fake_engine_running(const struct cbx_engine *e);
/* Interrupts that were asked for so far. */
size_t fake_engine_interrupts(const struct cbx_engine *e);
#define FAKE_DISK 1000000 /* bytes that a file can have when it is written */

/* Put a file into a session. */
void fake_session_put(struct cbx_engine *e, const char *id, const char *path, const void *data, size_t n);

#endif
