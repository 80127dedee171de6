/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LIMITS_CLIENTS_H
#define CBX_BASE_LIMITS_CLIENTS_H

/* Ceilings of what clients ask, and of codeboxd itself. limits.h, which includes this file, says what the form is. */

/* Client connections (daemon). */
#define CBX_MESSAGE_MAX MIB(24)          /* daemon: one line from a client; longer: error, the connection stays
					 * [daemon/floods.py:huge_and_deep_messages] */
#define CBX_JSON_VALUES_MAX (1 << 20)    /* base: values in one JSON text, members and elements each one; more: it is
					 * refused as not JSON, before memory is used for them
					 * [daemon/floods.py:huge_and_deep_messages] */
#define CBX_CODE_MAX MIB(1)              /* session: code of one cell; longer: error "code_too_long"
					 * [unit/test_mcp_tools.c:code_too_long] */
#define CBX_NOTEBOOK_MAX MIB(64)	 /* cli: a notebook; larger: refused [cli/notebook.py:what_is_not_a_notebook] */
#define CBX_SEEN_MAX 100                 /* cli: sessions of which a prompt remembers what was seen; more: the one that was
					 * used longest ago is forgotten [cli/repl.py:back_to_a_session] */
#define CBX_PROMPT_HISTORY_MAX 2000      /* cli: cells that a prompt remembers; more: the oldest goes
					 * [cli/editing.py:the_history] */
#define CBX_PROMPT_HISTORY_BYTES MIB(4)  /* cli: bytes of their file; more: the next prompt keeps the last half of it
					 * [cli/editing.py:the_history] */
#define CBX_PROMPT_CELL_MAX KIB(64)      /* cli: bytes of such a cell; a longer one is not remembered
					 * [cli/editing.py:the_history] */
#define CBX_KERNEL_HISTORY_MAX 1000      /* cli: cells that a Jupyter kernel remembers; more: the oldest goes
					 * [cli/kernel.py:jupyters_client] */
#define CBX_CLIENT_QUEUE_MAX MIB(64)     /* daemon: bytes waiting for a client that does not read; then: closed
					 * [daemon/floods.py:clients_that_never_read] */
#define CBX_CLIENT_PAUSE MIB(8)          /* daemon: likewise; more: no further request of it is read until it has
					 * read [daemon/floods.py:clients_that_never_read] */
#define CBX_CLIENTS_MAX 256              /* daemon: connections; more: refused
					 * [daemon/daemon.py:too_many_clients_are_told_so] */
#define CBX_STREAM_QUEUE KIB(512)        /* daemon: output of a run that waits for a client that takes all of it; more: the
					 * session's pipes are not read until it has read
					 * [integration/programs.py:a_slow_reader] */
#define CBX_STREAM_RESUME KIB(128)       /* daemon: less than that: they are read again
					 * [integration/programs.py:a_slow_reader] */
#define CBX_CONTROL_REQUESTS_MAX 256     /* daemon: unanswered requests of one connection to the control socket; more:
					 * error "busy" [daemon/floods.py:requests_that_wait_for_a_sandbox] */
#define CBX_REPLY_MAX KIB(900)           /* mcp: one message to a client; longer: images dropped, text cut, said so
					 * [unit/test_mcp_resources.c:read_large] */

/* One MCP connection (mcp). */
#define CBX_ROOTS_WAIT_MS 3000           /* mcp: a client's answer to roots/list; then: sessions without its roots
					 * [daemon/times.py:a_client_that_does_not_tell_its_roots] */
#define CBX_ROOTS_MAX 64                 /* mcp: roots of a client that are looked at; more are ignored */
#define CBX_CALLS_MAX 256                /* mcp: tool calls at once; more: tool error
					 * [unit/test_mcp_tools.c:many_calls] */
#define CBX_CALLS_BYTES MIB(64)          /* mcp: bytes of these; more: tool error [integration/mcp.py:large_calls_at_once] */
#define CBX_BATCH_MAX 64                 /* mcp: messages in one JSON-RPC batch; more: error
					 * [unit/test_mcp_rpc.c:batches] */
#define CBX_JOBS_MAX 64                  /* mcp: resource and completion requests at once; more: error
					 * [unit/test_mcp_resources.c:jobs] */
#define CBX_STREAMS_MAX 16               /* mcp: open subscriptions/listen requests; more: error
					 * [unit/test_mcp_news.c:listen_bad] */
#define CBX_SUBSCRIPTIONS_MAX 256        /* mcp: resources, or tasks, that one of them names; more: error
					 * [unit/test_mcp_news.c:listen_bad] */
#define CBX_SUBSCRIPTIONS_TENANT 1024    /* mcp: likewise of a tenant [http/over_http.py:subscriptions_of_a_tenant] */
#define CBX_STREAM_TASKS_MAX 32          /* mcp: tasks that one of them asks for; more are not agreed to
					 * [unit/test_mcp_tasks.c:many_in_one_stream] */
#define CBX_SESSIONS_PAGE 100            /* mcp: sessions of one page of list_sessions and codebox://sessions; more: on the
					 * next [unit/test_mcp_resources.c:many_sessions] */
#define CBX_LIST_FILES_MAX 500           /* mcp: files of one session in resources/list; more are not listed
					 * [unit/test_mcp_resources.c:resources_pages] */
#define CBX_RPC_ID_MAX 1024              /* mcp: bytes of a request's id or progress token; longer: error
					 * [unit/test_mcp_rpc.c:long_ids] */
#define CBX_TEXT_CHARS 20000             /* mcp: characters of output in an answer; more: head and tail, said so
					 * [unit/test_mcp_tools.c:output_sizes] */
#define CBX_VALUE_CHARS 10000            /* mcp: characters of values shown, and of a traceback; more: head and tail,
					 * said so [unit/test_mcp_tools.c:output_sizes] */
#define CBX_BUNDLES_MAX KIB(64)          /* mcp: HTML, JSON and other texts of what a cell showed, in structured
					 * content; what does not fit is named with its size
					 * [unit/test_mcp_display.c:bundles] */
#define CBX_HTML_MAX MIB(2)              /* mcp: HTML that is looked at for one answer; more: said so
					 * [unit/test_mcp_display.c:much_html] */
#define CBX_PROGRESS_MIN_MS 250          /* mcp: between two progress messages of a call, at least
					 * [unit/test_mcp_tools.c:progress] */
#define CBX_PROGRESS_MAX_MS 5000         /* mcp: between two progress messages of a call, at most
					 * [daemon/times.py:a_long_run_is_told_of_and_not_waited_for] */

/* Tenants (tenant). */
#define CBX_TENANTS_MAX 4096             /* tenant: in one file; more: the file is refused
					 * [http/tenants.py:files_with_faults] */
#define CBX_TENANT_IMAGES_MAX 64         /* tenant: images that are a tenant's own; more: the file is refused
					  * [http/tenants.py:own_images] */
#define CBX_TENANT_USERS_MAX 64          /* tenant: users of the machine that are one tenant; more: the file is refused
					 * [http/tenants.py:files_with_faults] */
#define CBX_TOKENS_MAX 20000             /* tenant: in one file; more: refused, and codebox token makes none
					 * [http/tenants.py:files_with_faults] */
#define CBX_TENANTS_FILE_MAX MIB(16)     /* tenant: of tenants.json, and of tokens.json; longer: refused
					 * [http/tenants.py:files_with_faults] */
#define CBX_JWT_MAX KIB(8)               /* tenant: a JSON Web Token; longer: status 401 [http/jwts.py:malformed] */
#define CBX_JWT_VALUES_MAX 512           /* tenant: values in its header, and in its claims; more: likewise
					 * [http/jwts.py:malformed] */
#define CBX_JWT_LEEWAY_MAX_S 300         /* tenant: by which times of tokens may be wrong; more: the file is refused
					 * [http/jwts.py:files_with_faults] */
#define CBX_JWT_AUDIENCES_MAX 16         /* tenant: of jwt.audience; more: likewise [http/jwts.py:files_with_faults] */
#define CBX_JWKS_FILE_MAX KIB(256)       /* tenant: the file with an issuer's keys; longer: refused
					 * [http/jwts.py:files_with_faults] */
#define CBX_JWKS_KEYS_MAX 64             /* tenant: its keys; more: refused [http/jwts.py:files_with_faults] */
#define CBX_JWKS_LOOK_S 5                /* tenant: between two looks at whether it is another file */

#define CBX_NODE_MAX 16                  /* daemon: characters of --node; more: codeboxd does not start
					 * [http/nodes.py:names] */

/* The HTTP listener (http). */
#define CBX_HTTP_LISTENERS_MAX 8         /* http: addresses, and as many sockets that are passed; more: codeboxd does not
					 * start [http/addresses.py:listeners] */
#define CBX_HTTP_CONNECTIONS_MAX 8192    /* http: connections, or half of the open files that codeboxd may have; for one
					 * more, the one that has waited longest for its client ends
					 * [http/crowds.py:many_streams] */
#define CBX_HTTP_STRANGERS_PART 8        /* http: this part of them, of which no request has passed the gate; for one
					 * more, the one that has waited longest ends
					 * [http/crowds.py:half_open_and_slow] */
#define CBX_HTTP_ADDRESS_MAX 512         /* http: connections of one address (of IPv6 its first 64 bits) where others can
					 * reach us; for one more, likewise one of it ends, or it is closed
					 * [http/crowds.py:one_address] */
#define CBX_HTTP_ADDRESS_STRANGERS 64    /* http: likewise, of which no request has passed the gate; for one more, one of
					 * them ends [http/crowds.py:one_address] */
#define CBX_HTTP_RATE_DEFAULT 50000      /* http: requests a second of all clients together (--http-rate); more: status 429
					 * [http/tenants.py:rate_of_all] */
#define CBX_HTTP_RATE_MAX 1000000        /* http: most that --http-rate may say; more: error
					 * [http/tenants.py:rate_of_all] */
#define CBX_HTTP_FAILED_PER_S 10         /* http: tokens a second of one address, where others can reach us, that are not
					 * valid; more: status 429 on its new connections, whatever they show
					 * [http/tenants.py:tokens_that_are_not_valid] */
#define CBX_HTTP_FAILING_MAX 256         /* http: addresses of which that is known; for one more, the one that has failed
					 * longest ago is forgotten */
#define CBX_HTTP_TENANT_IDLE 256         /* http: connections of a tenant that wait for it; for one more, the one that has
					 * waited longest ends [http/crowds.py:one_tenant] */
#define CBX_HTTP_PEM_MAX KIB(64)         /* http: a file with certificates or a key; longer: refused
					 * [http/tls.py:files] */
#define CBX_HTTP_KEY_CHANGES_MAX 64      /* http: KeyUpdates of TLS that a client sends on a connection; more: it ends
					 * [http/tls.py:handshakes_again] */
#define CBX_HTTP_HEADERS_MAX KIB(16)     /* http: a request's headers; longer: status 400
					 * [http/listener.py:malformed_requests] */
#define CBX_HTTP_FIELDS_MAX 100          /* http: their number; more: status 400
					 * [http/listener.py:malformed_requests] */
#define CBX_HTTP_HEAD_S 10               /* http: until a request's headers are complete, and until a new connection says
					 * something; then: status 408, or closed
					 * [daemon/times.py:requests_that_do_not_end] */
#define CBX_HTTP_BODY_S 120              /* http: until its body is complete; then: status 408
					 * [daemon/times.py:requests_that_do_not_end] */
#define CBX_HTTP_BODIES_MAX MIB(64)      /* http: bodies that are not complete; more: the oldest connection that sends
					 * one ends [http/listener.py:many_bodies] */
#define CBX_HTTP_BODIES_TENANT MIB(48)   /* http: likewise of one tenant [http/crowds.py:bodies_of_one_tenant] */
#define CBX_HTTP_INPUT_MAX KIB(64)       /* http: bytes of a connection that were not looked at; more: they wait in the
					 * kernel [http/crowds.py:answers_not_taken] */
#define CBX_HTTP_HELD_MAX MIB(256)       /* http: bodies of more than that, whose requests are being answered; more: status
					 * 429 */
#define CBX_HTTP_HELD_TENANT MIB(64)     /* http: likewise of one tenant [http/crowds.py:bodies_that_wait] */
#define CBX_HTTP_UNTAKEN_MAX KIB(64)     /* http: answers that a client has not taken; more: its next request waits
					 * [http/crowds.py:answers_not_taken] */
#define CBX_HTTP_UNSENT_MAX MIB(128)     /* http: answers that clients have not taken; more: who has taken least is cut off
					 * [http/crowds.py:answers_not_taken] */
#define CBX_HTTP_UNSENT_TENANT MIB(64)   /* http: likewise of one tenant [http/crowds.py:answers_not_taken] */
#define CBX_HTTP_EXPIRY_S 60             /* http: at most, until it is looked again whether the token of an answer that
					 * lasts has expired; then: cut off */
#define CBX_HTTP_LINGER_S 10             /* http: that a connection which is to end is read, so that a client that still
					 * sends gets the answer; then: closed
					 * [http/listener.py:bodies_too_large] */
#define CBX_HTTP_BODY_MAX CBX_MESSAGE_MAX /* http: a request's body; longer: status 413
					 * [http/listener.py:bodies_too_large] */
#define CBX_HTTP_PIECES_MAX GIB(64)      /* http: a body that is taken in pieces, of which one is in memory; longer:
					 * status 413 [http/tar.py:bodies] */
#define CBX_HTTP_PIECE KIB(60)           /* http: bytes of such a piece, at least, unless it is the last; each has the time
					 * of a body [http/tar.py:bodies] */
#define CBX_HTTP_TRANSFERS_MAX 128       /* http: archives on the way, in and out, each of which takes some 700 KiB; more:
					 * status 429 [http/tar.py:many_at_once] */
#define CBX_HTTP_TRANSFERS_TENANT 32     /* http: likewise of one tenant [http/tar.py:many_at_once] */
#define CBX_HTTP_STREAM_MAX MIB(4)       /* http: waiting for a client that does not read; then: cut off
					 * [http/over_http.py:clients_that_do_not_read] */
#define CBX_HTTP_WAITING_MAX KIB(64)     /* http: notifications kept for a session without a stream; more: dropped */
#define CBX_HTTP_KEPT_SESSION MIB(4)     /* http: events kept of an Mcp-Session-Id, for who comes again; more: those of
					 * the stream are forgotten */
#define CBX_HTTP_KEPT_TENANT MIB(16)     /* http: likewise of a tenant [http/tenants.py:what_is_kept_for_who_comes_again] */
#define CBX_HTTP_KEPT_ALL MIB(64)        /* http: likewise of all */
#define CBX_HTTP_KEPT_STREAMS 8          /* http: streams of an Mcp-Session-Id that are kept without a client; more: the
					 * oldest ends [http/resume.py:bounds] */
#define CBX_HTTP_KEPT_S 60               /* http: of a stream after its answer; then: forgotten */
#define CBX_HTTP_SESSIONS_MAX 256        /* http: Mcp-Session-Ids of a tenant, the local user being one; more: its
					 * longest idle one ends, or status 503 [http/over_http.py:many_sessions] */
#define CBX_HTTP_SESSIONS_ALL 8192       /* http: of all tenants; more: likewise */
#define CBX_HTTP_SESSION_IDLE_S 3600     /* http: of a session without a request or stream; then: ended
					 * [daemon/times.py:connections_and_sessions_that_are_left] */
#define CBX_HTTP_IDLE_S 60               /* http: of a connection without a request, or that takes nothing; then:
					 * closed [daemon/times.py:connections_and_sessions_that_are_left] */
#define CBX_HTTP_STREAM_AFTER_MS 1000    /* http: without an answer; then a stream of events is begun
					 * [daemon/times.py:streams_of_events] */
#define CBX_HTTP_KEEPALIVE_S 15          /* http: between two comments that keep a stream of events open
					 * [daemon/times.py:streams_of_events] */

/* The REST interface (rest). */
#define CBX_REST_CODE_CHARS 100000       /* rest: characters of code; more: status 400 [http/rest.py:executions] */
#define CBX_REST_WAIT_MS 60000           /* rest: that a request may wait for an execution's end; more: status 400
					 * [http/rest.py:waiting] */
#define CBX_REST_UNSENT_MAX MIB(1)       /* rest: of a stream, waiting for a client that does not read; more is omitted,
					 * and the stream says so [http/rest.py:slow_readers] */
#define CBX_REST_INPUT_MAX MIB(1)        /* rest: of a command's input, in one request; more: status 413
					 * [http/commands.py:refusals] */
#define CBX_REST_PARTS_MAX 256           /* rest: files of a multipart/form-data body; more: status 400
					 * [http/rest_files.py:forms_with_files] */
#define CBX_REST_TAR_ENTRIES 1000000     /* rest: entries of an archive that is unpacked; more: status 413 */
#define CBX_REST_TAR_BYTES GIB(64)       /* rest: bytes of its files; more: status 413 [http/tar.py:hostile_archives] */
#define CBX_REST_TAR_HEADER KIB(64)      /* rest: one of its extended headers, of which an entry has few; longer: status 400
					 * [http/tar.py:hostile_archives] */
#define CBX_REST_TAR_PADDING MIB(1)      /* rest: behind the end of it; more: status 400 [http/tar.py:hostile_archives] */
#define CBX_REST_TAR_PAGES 8             /* rest: directories, from the one that is packed upwards, whose entries are in
					 * memory; more: they are read again [http/tar.py:deep_and_wide] */
#define CBX_REST_PART_LINE_MAX 4096      /* rest: bytes of a line of a part's headers; more: status 400
					 * [http/rest_files.py:forms_with_files] */
#define CBX_REST_PART_LINES_MAX 16       /* rest: such lines; more: status 400 [http/rest_files.py:forms_with_files] */

/* What is counted for /metrics (metrics). */
#define CBX_METRICS_TENANTS_MAX 1024     /* metrics: tenants with series of their own; more: are counted as "(others)"
					 * [unit/test_metrics.c:many_tenants] */
#define CBX_METRICS_KINDS_MAX 64         /* metrics: kinds of errors with series of their own; more: likewise
					 * [unit/test_metrics.c:many_kinds] */

/* The audit log (audit). */
#define CBX_AUDIT_LINE_MAX MIB(9)        /* audit: a line: the longest code, with all of its characters escaped; twice
					 * this is read of a file's end [unit/test_audit.c:long_lines] */
#define CBX_AUDIT_FEW 20                 /* audit: lines a second about requests without a token, about hosts, and about
					 * requests beyond the rate of a tenant; more are counted, and not written
					 * [unit/test_audit.c:floods] */

/* MCP tools (mcp). */
#define CBX_WAIT_MS 45000                /* mcp: run_code and get_execution wait for a cell's end; then: status
					 * "running" [daemon/times.py:a_long_run_is_told_of_and_not_waited_for] */
#define CBX_READ_DEFAULT KIB(20)         /* mcp: read_file, bytes without a length [unit/test_mcp_files.c:files] */
#define CBX_READ_MAX KIB(192)            /* mcp: read_file, most bytes of one answer; more: the answer says where to
					 * continue [unit/test_mcp_files.c:files] */
#define CBX_LIST_MAX 500                 /* mcp: list_files, entries of one answer, as far as their lines are no longer
					 * than CBX_TEXT_CHARS; more: the answer says where to continue
					 * [unit/test_mcp_files.c:long_names] */
#define CBX_INLINE_IMAGE_MAX KIB(200)    /* mcp: an image file that a cell wrote, sent with its result; larger: a
					 * link [unit/test_mcp_files.c:artifacts] */
#define CBX_INLINE_IMAGES_MAX 4          /* mcp: image files of a cell sent with its result; more: all are links
					 * [unit/test_mcp_files.c:artifacts] */

/* The daemon's life (daemon). */
#define CBX_DAEMON_IDLE_S 300            /* daemon: without sessions and clients; then it ends
					 * [daemon/daemon.py:it_ends_when_nobody_uses_it] */
#define CBX_DAEMON_OPEN_FILES 16384      /* daemon: its open files (RLIMIT_NOFILE, soft), some 10 a session and one a
					 * client; as far as the hard limit allows it
					 * [daemon/confined.py:codeboxd] */
#define CBX_SUPERVISOR_WAIT_S 10         /* daemon: for the supervisor's first word; then clients are served without
					 * it [daemon/times.py:a_supervisor_that_says_nothing] */
#define CBX_LOG_FILE_MAX MIB(4)          /* daemon: log file; then it becomes .1 [cli/start.py:log_rotation] */

#endif
