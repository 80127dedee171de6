/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_CONTROL_PROTOCOL_H
#define CBX_DAEMON_CONTROL_PROTOCOL_H

/*
 * The control socket, "control.sock" in the run-time directory: what the codebox command line speaks with codeboxd.
 * One JSON object a line, each way. A request is {"id":N,"method":"…","params":{…}}; its answer is
 * {"id":N,"result":{…}} or {"id":N,"error":{"kind":"session_not_found","message":"…"}}. Between them a run sends
 * events: {"event":"…", "request":N, …}. Only the same user (or root) may connect.
 *
 *   hello {}                                  -> cbx_engine_to_json(), and how codeboxd itself is confined
 *   session.create {spec members}             -> session description, once it is ready
 *   session.list {}                           -> {"sessions":[…]}
 *   session.info {"session_id"}               -> session description
 *   session.close {"session_id"}              -> {}
 *   run {"session_id"?, "code", "timeout"?, spec members when no session_id}
 *       events: {"event":"start","request":N,"session_id","execution_id"}
 *               {"event":"output","request":N,"stream":"stdout"|"stderr","text":"…"}   UTF-8, no character is split
 *               {"event":"display","request":N,"data":{MIME:…},"metadata":{},"is_result":bool}
 *       -> cbx_execution_to_json(x, false)
 *       Without session_id a session is made for this connection's runs and closed with the connection. A session_id
 *       that does not exist is made when "create" is true.
 *       A client that disconnects while its run is going interrupts it.
 *   interrupt {"session_id", "execution_id"?}  -> {}   (without execution_id: whatever runs)
 *   is_complete {"session_id","code"}          -> {"status","indent"}
 *   complete {"session_id","code","cursor"}    -> {"matches","start","end"}
 *   file.read {"session_id","path","offset"?,"length"?}  -> {"data": base64, "size", "eof"}
 *   file.write {"session_id","path","data": base64,"offset"? | "append"?,"truncate"?,"executable"?} -> {"written"}
 *   file.stat {"session_id","path"}            -> {"type":"file"|"directory"|"symlink"|"other","size","mode","mtime"}
 *   file.list {"session_id","path","skip"?}    -> {"entries":[{"name","type","size","mode","mtime"}],"more":bool}
 *   file.mkdir, file.remove {"session_id","path"} -> {}
 *   stop {}                                    -> {}   then the daemon ends, with all sessions
 * `data` of file.read and file.write holds at most 48 KiB of bytes before encoding; a longer "length" is cut.
 */

#define CBX_CONTROL_SOCKET "control.sock"
#define CBX_MCP_SOCKET "mcp.sock"
#define CBX_CONTROL_CHUNK 49152

#endif
