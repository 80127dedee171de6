/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLIENT_PROTOCOL_H
#define CBX_CLIENT_PROTOCOL_H

/*
 * The control socket, "control.sock" in the run-time directory: what the codebox command line speaks with codeboxd.
 * One JSON object a line, each way. A request is {"id":N,"method":"…","params":{…}}; its answer is
 * {"id":N,"result":{…}} or {"id":N,"error":{"kind":"session_not_found","message":"…"}}. Between them a run sends
 * events: {"event":"…", "request":N, …}. Only the same user (or root) may connect.
 *
 *   hello {}                                  -> cbx_engine_to_json(), and how codeboxd itself is confined
 *   session.create {spec members, "language"?, "file"?} -> session description, once it is ready
 *       Without "image", here and in run, it has one with the language, or with that of the file's name.
 *   session.list {}                           -> {"sessions":[…]}
 *   session.info {"session_id"}               -> session description
 *   session.close {"session_id"}              -> {}
 *   session.restart {"session_id"}            -> {"ended"}, cells that ran or waited
 *   session.bind {"session_id","detached"?}    -> {}   it ends with this connection; detached: not any more
 *   session.history {"session_id","execution_id"?: after this one} -> cbx_session_history()
 *   watch {"session_id","execution_id"}
 *       A cell that runs or waits, whoever asked for it. Events: {"event":"cell","request":N, members of
 *       cbx_execution_entry()}, what there is so far; then as of run, and as answer. Error: "ended".
 *       A client that disconnects leaves the cell alone; one that reads slowly learns how much it missed.
 *       "raw" and "input" as of run: "input" requests can bring what a cell with "input" reads.
 *   run {"session_id"?, "code", "timeout"?, spec members when no session_id}
 *       events: {"event":"start","request":N,"session_id","execution_id"}
 *               {"event":"output","request":N,"stream":"stdout"|"stderr","text":"…"}   UTF-8, no character is split
 *               {"event":"display","request":N,"data":{MIME:…},"metadata":{},"is_result":bool}
 *               {"event":"clear","request":N,"wait":bool}   what came before is void; wait: output follows at once
 *       -> cbx_execution_to_json(x, false)
 *       Without session_id a session is made for this connection's runs and closed with the connection. A session_id
 *       that does not exist is made when "create" is true.
 *       A client that disconnects while its run is going interrupts it, unless "detached" is true.
 *       "raw": true: all of the output comes, as bytes:
 *               {"event":"output","request":N,"stream":"stdout"|"stderr","bytes":M} and M bytes behind the newline
 *         A client that does not read slows its cell, as any slow reader of a pipe does; no file of the output is made.
 *       "input": true: the cell's standard input is what "input" requests bring; else it is /dev/null.
 *         The answer's "input_unread" is how many of their bytes were not read, if any.
 *       "asks": true: instead of "input"; what wants a line of the user, such as Python's input(), asks for it:
 *               {"event":"ask","request":N,"prompt":"…","password":bool}, which "input" answers.
 *       "argv": ["…"]: the program's arguments. "file": "NAME": run as a program, from /workspace/NAME; code is its
 *         bytes in base64. "last": true: nothing follows in this session, so that its end is waited for.
 *       "unlimited": true: without a time limit but that of the policy.
 *   input {"request","data": base64}           -> {} when the cell that this request runs has taken it; empty data is
 *                                              the end of its input. One at a time.
 *   interrupt {"session_id", "execution_id"?}  -> {}   (without execution_id: whatever runs)
 *   is_complete {"session_id","code"}          -> {"status","indent"}
 *   complete {"session_id","code","cursor"}    -> {"matches","start","end"}
 *   inspect {"session_id","code","cursor"}     -> {"found","text"}: what is known of the name at the cursor
 *   file.read {"session_id","path","offset"?,"length"?}  -> {"data": base64, "size", "eof"}
 *   file.write {"session_id","path","data": base64,"offset"? | "append"?,"truncate"?,"executable"?} -> {"written"}
 *   file.stat {"session_id","path"}            -> {"type":"file"|"directory"|"symlink"|"other","size","mode","mtime"}
 *   file.list {"session_id","path","skip"?}    -> {"entries":[{"name","type","size","mode","mtime"}],"more":bool}
 *   file.mkdir, file.remove {"session_id","path"} -> {}
 *   policy.reload {}                           -> {"policy","file","digest","sessions","mounts_need_restart"}: in force
 *                                              for sessions that are made from now on
 *   stop {}                                    -> {}   then the daemon ends, with all sessions
 *   command.start {"session_id"?, "argv":["…"], "directory"?, "variables"?:{NAME:VALUE}, "input"?, "terminal"?, "rows"?,
 *             "columns"?, "detached"?, "create"?, spec members as for run}
 *       events: {"event":"start","request":N,"session_id","execution_id","omitted"?}
 *               {"event":"output","request":N,"stream":"stdout"|"stderr","bytes":M} and M bytes behind the newline
 *       -> cbx_command_describe() at its end, or, "detached", when its program runs. A client that disconnects while it
 *       is attached hangs it up: no input, SIGHUP.
 *   command.attach {"session_id","execution_id","rows"?,"columns"?} -> likewise; what was kept comes first. A client that
 *                                              disconnects leaves it running.
 *   command.detach {"request"}                 -> {}; that request is answered with the command as it is
 *   command.resize {"session_id","execution_id","rows","columns"} -> {}
 *   command.kill {"session_id","execution_id","signal"?: number, SIGKILL} -> {}; its tree gets it
 *   command.list {"session_id"}                -> {"commands":[…]}
 *       "input" brings standard input, as that of a run.
 * `data` of file.read and file.write holds at most 48 KiB of bytes before encoding, that of input 192 KiB; a longer
 * "length" is cut.
 */

#define CBX_CONTROL_SOCKET "control.sock"
#define CBX_MCP_SOCKET "mcp.sock"
#define CBX_CONTROL_CHUNK 49152
#define CBX_CONTROL_INPUT (4 * CBX_CONTROL_CHUNK)

#endif
