/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_INTERPRETER_PROTOCOL_H
#define CBX_INTERP_INTERPRETER_PROTOCOL_H

/*
 * Between codeboxd and an interpreter's driver (src/runtimes/): frames (base/frame.h) of JSON through two pipes, to the
 * driver on descriptor 3 of the interpreter and from it on descriptor 4. Pipes and not a socket: a socket belongs to
 * the network namespace that it was made in, the machine's, and shows and changes things there. The standard input is a
 * pipe, too, which the driver puts aside for the cells that have input, with /dev/null in its place. The standard
 * output and error are pipes, and what is written there, by whatever process or library, is the cell's output.
 *
 * To the driver:
 *   {"op":"start","environment":{"NAME":"value"},"wanted":bool}
 *                                                    to one that is a fork of a zygote, and before its "ready"; to be
 *                                                    added to the environment. wanted: somebody waits for the session
 *   {"op":"session","environment":{"NAME":"value"}}  once, before anything else: what only this session has, to be
 *                                                    added to the environment; interpreters may be made before sessions
 *   {"op":"run","id":N,"code":"…","silent":false}    run a cell. Cells come one at a time.
 *      "input":true     its standard input is the pipe that was descriptor 0 at the start; else /dev/null
 *      "asks":true      instead: who wants a line of the user asks for it ("ask"), and reads it from that pipe
 *      "argv":["…"]     sys.argv from now on
 *      "file":"NAME"    run a program: code is its bytes in base64. It is put into the file NAME of the workspace, and
 *                       run as the interpreter runs a file: argv[0] and messages name the file, and no value is shown
 *      "last":true      nothing comes after it: wait for the program's threads, and run its exit handlers
 *      "dialect":"NAME" the code is written in this dialect of the driver's language (runtimes/runtime.h)
 *      "rules":{…}      to Python: judge the code by them before it is run (policy/code.h has their names)
 *   {"op":"is_complete","id":N,"code":"…"}           only while no cell runs
 *   {"op":"complete","id":N,"code":"…","cursor":N}   completions; only while no cell runs; cursor in code points
 *   {"op":"inspect","id":N,"code":"…","cursor":N}    what is the name at the cursor; likewise
 *   {"op":"stale","id":N}                            to Python, after packages were installed; only while no cell runs
 *   {"op":"synced","id":N}                           to "sync": all that was sent and printed before it has been taken
 * From the driver:
 *   {"ev":"ready","language":"python","version":"3.11.2","kind":"ipython"|"plain"}        once, at start
 *   {"ev":"display","id":N,"data":{MIME: text or base64},"metadata":{}}     something shown on the way
 *   {"ev":"result","id":N,"count":N,"data":{…},"metadata":{}}               the value of the last expression
 *   {"ev":"error","id":N,"name":"ValueError","value":"…","traceback":"…"}   an exception; traceback is plain text
 *   {"ev":"clear","id":N,"wait":bool}                                       clear_output()
 *   {"ev":"judged","id":N,"refused":bool}     before anything else of a cell with rules; refused: only its error and
 *                                             "done" follow
 *   {"ev":"ask","id":N,"prompt":"…","password":bool}  a line is wanted, of a cell that asks; password: it is not to be
 *                                             seen. The next is sent when it has been read
 *   {"ev":"sync","id":N}                      is answered while a cell runs
 *   {"ev":"done","id":N,"status":"ok"|"error"|"interrupted"|"exit","count":N,"exit_code":N,"usage":{…},
 *    "workspace":"empty"}
 *                                                                            the cell has ended
 *   {"ev":"is_complete","id":N,"status":"complete"|"incomplete"|"invalid","indent":"    "}
 *   {"ev":"complete","id":N,"matches":["…"],"start":N,"end":N}
 *   {"ev":"inspect","id":N,"text":"…"}        what is known of the name at the cursor; "": nothing
 *   {"ev":"stale","id":N,"packages":[{"name":"…","version":"…"}]}           imported, and not in this version any more
 * "exit" is SystemExit: the cell asked to exit with exit_code; the interpreter stays alive. With "error", and without
 * an error frame, exit_code is what the code ended with. "usage" (may be omitted) is of the interpreter and its ended
 * children: {"cpu_us","read","written"} during the cell, and "peak", bytes of memory of the largest of them so far. It
 * is shown where no control group counts. "workspace", when it is there, says that no file is in it: then nobody looks
 * for those that changed. (A program that lies about that hides its own files from its own answer.)
 *
 * Binary MIME types (image/png, image/jpeg, application/pdf …) are base64 text. Before the driver sends a frame, all
 * that was printed before it is in the pipes (Python and C buffers flushed). codeboxd drains both pipes before it
 * handles a frame. For the order on the screen to be the order in the program, a driver waits, shortly, where a program
 * prints behind a frame, or switches between the two streams: for the answer to "sync", or, Python's, until nothing is
 * in those pipes.
 *
 * An interrupt is SIGINT, or what the manifest says, to the interpreter's process group. The driver turns it into
 * KeyboardInterrupt only while user code runs, so that an interrupt that comes late does no harm.
 *
 * A driver is started as:  <interpreter> <arguments> <CBX_INSIDE_RUNTIMES>/<language>/<driver>   with CODEBOX_FD=3,4.
 */

#endif
