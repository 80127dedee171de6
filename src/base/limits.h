/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LIMITS_H
#define CBX_BASE_LIMITS_H

/*
 * Every numeric ceiling in one place. codebox-limits(7) is made from this file (man/limits.awk), so behind each value
 * is a comment of the form
 *
 *	owner: what it bounds; what happens when it is hit [file:function of a test that hits it, below tests/]
 *
 * and above each group one that gives its title. tests/packaging/limits.py checks that.
 */
#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

/* Client connections (daemon). */
#define CBX_MESSAGE_MAX MIB(24)          /* daemon: one line from a client; longer: error, connection goes on
					 * [daemon/floods.py:huge_and_deep_messages] */
#define CBX_JSON_VALUES_MAX (1 << 20)    /* base: values in one JSON text, members and elements each one; more: it is
					 * refused as no JSON, before memory is used for them
					 * [daemon/floods.py:huge_and_deep_messages] */
#define CBX_CODE_MAX MIB(1)              /* session: code of one cell; longer: error "code_too_long"
					 * [unit/test_mcp_tools.c:code_too_long] */
#define CBX_CLIENT_QUEUE_MAX MIB(64)     /* daemon: bytes waiting for a client that does not read; then: closed
					 * [daemon/floods.py:clients_that_never_read] */
#define CBX_CLIENT_PAUSE MIB(8)          /* daemon: likewise; more: no further request of it is read until it has
					 * read [daemon/floods.py:clients_that_never_read] */
#define CBX_CLIENTS_MAX 256              /* daemon: connections; more: refused
					 * [daemon/daemon.py:too_many_clients_are_told_so] */
#define CBX_CONTROL_REQUESTS_MAX 256     /* daemon: unanswered requests of one connection to the control socket; more:
					 * error "busy" [daemon/floods.py:requests_that_wait_for_a_sandbox] */
#define CBX_REPLY_MAX KIB(900)           /* mcp: one message to a client; longer: images dropped, text cut, said so
					 * [unit/test_mcp_resources.c:read_large] */

/* One MCP connection (mcp). */
#define CBX_ROOTS_WAIT_MS 3000           /* mcp: a client's answer to roots/list; then: sessions without its roots
					 * [daemon/times.py:a_client_that_does_not_tell_its_roots] */
#define CBX_ROOTS_MAX 64                 /* mcp: roots of a client that are looked at; more are left out */
#define CBX_CALLS_MAX 256                /* mcp: tool calls going on at once; more: tool error
					 * [unit/test_mcp_tools.c:many_calls] */
#define CBX_BATCH_MAX 64                 /* mcp: messages in one JSON-RPC batch; more: error
					 * [unit/test_mcp_rpc.c:batches] */
#define CBX_JOBS_MAX 64                  /* mcp: resource and completion requests going on at once; more: error
					 * [unit/test_mcp_resources.c:jobs] */
#define CBX_STREAMS_MAX 16               /* mcp: open subscriptions/listen requests; more: error
					 * [unit/test_mcp_news.c:listen_bad] */
#define CBX_SUBSCRIPTIONS_MAX 256        /* mcp: resources, or tasks, that one of them names; more: error
					 * [unit/test_mcp_news.c:listen_bad] */
#define CBX_STREAM_TASKS_MAX 32          /* mcp: tasks that one of them asks for; more are not agreed to
					 * [unit/test_mcp_tasks.c:many_in_one_stream] */
#define CBX_LIST_FILES_MAX 500           /* mcp: files of one session in resources/list; more are not listed
					 * [unit/test_mcp_resources.c:resources_pages] */
#define CBX_RPC_ID_MAX 1024              /* mcp: bytes of a request's id or progress token; longer: error
					 * [unit/test_mcp_rpc.c:long_ids] */
#define CBX_TEXT_CHARS 20000             /* mcp: characters of output in an answer; more: head and tail, said so
					 * [unit/test_mcp_tools.c:output_sizes] */
#define CBX_VALUE_CHARS 10000            /* mcp: characters of values shown, and of a traceback; more: head and tail,
					 * said so [unit/test_mcp_tools.c:output_sizes] */
#define CBX_PROGRESS_MIN_MS 250          /* mcp: between two progress messages of a call, at least
					 * [unit/test_mcp_tools.c:progress] */
#define CBX_PROGRESS_MAX_MS 5000         /* mcp: between two progress messages of a call, at most
					 * [daemon/times.py:a_long_run_is_told_of_and_not_waited_for] */

/* The HTTP listener (http). */
#define CBX_HTTP_CONNECTIONS_MAX 128     /* http: connections; more wait in the kernel until one has ended
					 * [http/listener.py:many_connections] */
#define CBX_HTTP_HEADERS_MAX KIB(16)     /* http: a request's headers; longer: status 400
					 * [http/listener.py:malformed_requests] */
#define CBX_HTTP_BODY_MAX MIB(8)         /* http: a request's body; longer: status 413
					 * [http/listener.py:bodies_too_large] */
#define CBX_HTTP_STREAM_MAX MIB(4)       /* http: waiting for a client that does not read; then: cut off
					 * [http/listener.py:clients_that_do_not_read] */
#define CBX_HTTP_WAITING_MAX KIB(64)     /* http: notifications kept for a session without a stream; more: dropped */
#define CBX_HTTP_SESSIONS_MAX 256        /* http: Mcp-Session-Ids; more: the longest idle one ends, or status 503
					 * [http/listener.py:many_sessions] */
#define CBX_HTTP_SESSION_IDLE_S 3600     /* http: of a session without a request or stream; then: ended
					 * [daemon/times.py:connections_and_sessions_that_are_left] */
#define CBX_HTTP_IDLE_S 60               /* http: of a connection without a request, or that takes nothing; then:
					 * closed [daemon/times.py:connections_and_sessions_that_are_left] */
#define CBX_HTTP_STREAM_AFTER_MS 1000    /* http: without an answer; then a stream of events is begun
					 * [daemon/times.py:streams_of_events] */
#define CBX_HTTP_KEEPALIVE_S 15          /* http: between two comments that keep a stream of events open
					 * [daemon/times.py:streams_of_events] */

/* MCP tools (mcp). */
#define CBX_WAIT_MS 45000                /* mcp: run_code and get_execution wait for a cell's end; then: status
					 * "running" [daemon/times.py:a_long_run_is_told_of_and_not_waited_for] */
#define CBX_READ_DEFAULT KIB(20)         /* mcp: read_file, bytes when no length is given
					 * [unit/test_mcp_files.c:files] */
#define CBX_READ_MAX KIB(192)            /* mcp: read_file, most bytes of one answer; more: the answer says where to
					 * go on [unit/test_mcp_files.c:files] */
#define CBX_LIST_MAX 500                 /* mcp: list_files, entries of one answer, as far as their lines are no longer
					 * than CBX_TEXT_CHARS; more: the answer says where to go on
					 * [unit/test_mcp_files.c:long_names] */
#define CBX_INLINE_IMAGE_MAX KIB(200)    /* mcp: an image file that a cell wrote, sent with its result; larger: a
					 * link [unit/test_mcp_files.c:artifacts] */
#define CBX_INLINE_IMAGES_MAX 4          /* mcp: image files of a cell sent with its result; more: all are links
					 * [unit/test_mcp_files.c:artifacts] */

/* Sessions. */
#define CBX_SESSIONS_MAX 256             /* session: live at once, unless a policy says otherwise; more: error
					 * "too_many_sessions"
					 * [daemon/floods.py:a_thousand_creates] */
#define CBX_SESSIONS_LIMIT 4096          /* policy: most that "sessions" in a policy may say; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_POOL_MAX 4                   /* session: made ahead of time at once (codeboxd --pool); more are not made
					 * [integration/pool.py:many_at_once] */
#define CBX_POOL_LIMIT 64                /* daemon: most that --pool takes; more: error
					 * [integration/pool.py:what_the_options_accept] */
#define CBX_POOL_SHAPES_MAX 3            /* session: kinds of those; a fourth replaces the one used longest ago
					 * [integration/ceilings.py:more_kinds_of_sessions_than_are_made_ahead] */
#define CBX_POOL_IDLE_S 180              /* session: without a request for their kind (--pool-idle); then they are
					 * given up [integration/pool.py:entries_go_when_nobody_asks] */
#define CBX_POOL_FREE_MIN MIB(512)       /* session: memory available on the machine; with less none is made
					 * [integration/pool.py:it_knows_how_much_memory_there_is] */
#define CBX_QUEUE_MAX 64                 /* session: executions waiting for one interpreter; more: "queue_full"
					 * [daemon/floods.py:a_full_queue] */
#define CBX_WATCHERS_MAX 32              /* session: calls that wait for the end of one execution; more: error
					 * "too_many_watchers" [daemon/floods.py:too_many_wait_for_one_cell] */
#define CBX_QUERIES_MAX 16               /* session: questions about code, such as completions, that one interpreter has
					 * not answered; more: error "busy"
					 * [daemon/hostile.py:an_interpreter_that_does_not_read_is_not_asked_without_end] */
#define CBX_FINISHED_MAX 16              /* session: ended executions kept for a later look; older are forgotten
					 * [daemon/floods.py:finished_executions_are_forgotten] */
#define CBX_ENDED_MEMORY_MAX MIB(16)     /* session: output and displays of those of one session; more: the oldest are
					 * forgotten, but not the last
					 * [daemon/floods.py:finished_executions_are_forgotten] */
#define CBX_HOLDS_MAX 16                 /* session: executions kept for a client that comes back (MCP tasks); more:
					 * not promised, the answer is "running" [unit/test_mcp_tasks.c:too_many] */
#define CBX_HOLD_MS 600000               /* session: for that client, after the end; then they go as others do */
#define CBX_TOMBSTONES_MAX 1024          /* session: closed ids remembered, to answer "expired" and not "unknown"
					 * [daemon/daemon.py:sessions_are_made_listed_and_remembered] */
#define CBX_TIMEOUT_DEFAULT_MS 60000     /* session: a cell's time; then: SIGINT, after the grace period SIGKILL
					 * [unit/test_session_spec.c:values] */
#define CBX_TIMEOUT_MAX_MS 3600000       /* session: most a request may ask for; more: error
					 * [unit/test_session_spec.c:refusals] */
#define CBX_GRACE_MS 3000                /* session: from SIGINT to SIGKILL
					 * [integration/cells.py:timeout_of_code_that_ignores_interrupts] */
#define CBX_START_TIMEOUT_MS 30000       /* session: sandbox and interpreter must be ready by then; else: error
					 * [daemon/times.py:a_sandbox_that_does_not_come_up] */
#define CBX_TTL_DEFAULT_S (24 * 3600)    /* session: life; then: closed [unit/test_policy.c:values_and_origins] */
#define CBX_IDLE_DEFAULT_S 3600          /* session: since its last use; then: closed
					 * [daemon/daemon.py:sessions_end_by_themselves] */
#define CBX_TTL_MAX_S (7 * 24 * 3600)    /* session: most a request may ask for; more: error
					 * [unit/test_session_spec.c:refusals] */

/* Output of one execution (session). */
#define CBX_OUTPUT_HEAD KIB(64)          /* session: kept from the start of the output
					 * [unit/test_output.c:a_flood_keeps_head_and_tail] */
#define CBX_OUTPUT_TAIL KIB(64)          /* session: kept from its end; between them: "N bytes omitted"
					 * [unit/test_output.c:a_flood_keeps_head_and_tail] */
#define CBX_OUTPUT_FILE_MAX MIB(16)      /* session: whole output kept in a file of the session up to this; then it
					 * ends [daemon/daemon.py:an_endless_flood_is_bounded_and_can_be_stopped] */
#define CBX_SPILL_PENDING MIB(1)         /* session: output that waits to be written to that file; more: left out of it,
					 * and the file says where and how much
					 * [daemon/floods.py:output_that_waits_for_a_sandbox] */
#define CBX_OUTPUT_RUSH MIB(128)         /* session: of one execution, read as fast as it comes; more: at most some 50 MB
					 * a second [daemon/floods.py:a_cell_that_prints_on_and_on] */
#define CBX_OUTPUT_TOTAL_MAX MIB(64)     /* session: kept output and displays of all ended executions; more: the
					 * oldest lose theirs, said so
					 * [daemon/floods.py:kept_output_over_all_sessions] */
#define CBX_DISPLAYS_MAX 64              /* session: MIME bundles of one execution; more are counted and dropped
					 * [daemon/hostile.py:displays_are_checked_and_bounded] */
#define CBX_DISPLAY_BYTES_MAX MIB(16)    /* session: bytes of the MIME bundles of one execution; more are counted and
					 * dropped [daemon/hostile.py:displays_are_checked_and_bounded] */

#define CBX_SCAN_ENTRIES 20000           /* init: files and directories that are looked at for changes; what comes after
					 * them is not, and that is said
					 * [integration/ceilings.py:more_files_than_are_looked_at] */
#define CBX_SCAN_PATH 1024               /* init: longest path that is looked at for changes; what is deeper is not, and
					 * that is said [integration/ceilings.py:more_files_than_are_looked_at] */
#define CBX_SCAN_QUEUE KIB(256)          /* init: paths of directories that wait to be looked at; those that do not fit
					 * are not, and that is said
					 * [integration/ceilings.py:more_files_than_are_looked_at] */
#define CBX_CHANGES_MAX 200              /* session: changed files listed; more are counted
					 * [integration/ceilings.py:more_changed_files_than_are_listed] */
#define CBX_REMOVE_ENTRIES 4000000       /* init: files and directories that one request removes; more, as of a session
					 * that makes them as fast: error */
#define CBX_REMOVE_DEPTH 64              /* init: directories within directories that are removed where no directory may
					 * change its parent, as under Landlock's first version; deeper: error
					 * [unit/test_init.c:trees_are_removed_under_landlock] */

/* What comes from an interpreter or init, all of it hostile (session). */
#define CBX_FRAME_MAX MIB(12)            /* session: one frame; longer: the interpreter is killed
					 * [daemon/hostile.py:frames_that_break_the_protocol_end_the_interpreter] */
#define CBX_FRAME_VALUES_MAX 65536       /* session: JSON values in one frame; more: the interpreter is killed
					 * [daemon/hostile.py:frames_that_break_the_protocol_end_the_interpreter] */
#define CBX_FRAMES_PER_CELL_MAX MIB(256) /* session: frames of one cell, which carry results and displays; more: the
					 * interpreter is killed [daemon/hostile.py:a_cell_that_displays_on_and_on] */
#define CBX_INIT_MESSAGE_MAX KIB(64)     /* session: one datagram to or from init, header included; longer: the
					 * session ends [daemon/hostile.py:lies_of_init_end_the_session_alone] */
#define CBX_INIT_REQUESTS 256            /* session: requests about files of one session that its init has not answered;
					 * more: error "busy" [daemon/floods.py:requests_that_wait_for_a_sandbox] */
#define CBX_INIT_BACKLOG MIB(4)          /* session: bytes of those that it has not even taken; more: error "busy"
					 * [daemon/floods.py:requests_that_wait_for_a_sandbox] */

/* A sandbox's resources: defaults, and the most that a request may ask for. */
#define CBX_MEMORY_DEFAULT GIB(2)        /* policy: a session's memory where nothing else is said
					 * [unit/test_session_spec.c:values] */
#define CBX_MEMORY_MIN ((uint64_t)64 << 20) /* policy: least a request may ask for; less: error
					 * [unit/test_base.c:plans] */
#define CBX_MEMORY_MAX GIB(64)           /* policy: most a request may ask for; more: error
					 * [unit/test_base.c:plans] */
#define CBX_DISK_DEFAULT GIB(1)          /* sandbox: a session's files where nothing else is said (a tmpfs); then
					 * writes fail with ENOSPC [integration/sandbox.py:disk_limit_holds] */
#define CBX_DISK_MIN ((uint64_t)1 << 20) /* policy: least a request may ask for; less: error
					 * [unit/test_base.c:plans] */
#define CBX_DISK_MAX GIB(64)             /* policy: most a request may ask for; more: error
					 * [unit/test_base.c:plans] */
#define CBX_INODES_PER_MIB 64            /* sandbox: tmpfs inodes per MiB of disk; then making files fails with
					 * ENOSPC [bombs/bombs.py:inodes] */
#define CBX_PROCESSES_DEFAULT 256        /* sandbox: processes and threads (RLIMIT_NPROC within the user namespace);
					 * then fork fails with EAGAIN [bombs/bombs.py:forks] */
#define CBX_PROCESSES_MAX 4096           /* policy: most a request may ask for; more: error
					 * [unit/test_base.c:plans] */
#define CBX_PROCESSES_SLACK 16           /* cgroup: RLIMIT_NPROC, and the bound for init and all, are so much higher
					 * with a control group; so the group's own count is what is hit and named
					 * [unit/test_cgroup.c:limits_are_written] */
#define CBX_INIT_MEMORY MIB(16)          /* cgroup: of a session's group beyond its memory and disk, for its init
					 * [unit/test_cgroup.c:limits_are_written] */
#define CBX_INOTIFY_INSTANCES 16         /* sandbox: inotify instances (user.max_inotify_instances); then EMFILE
					 * [integration/sandbox.py:inotify_of_the_machine_is_not_used_up] */
#define CBX_INOTIFY_WATCHES 8192         /* sandbox: inotify watches (user.max_inotify_watches); then ENOSPC
					 * [integration/sandbox.py:inotify_of_the_machine_is_not_used_up] */
#define CBX_OPEN_FILES 1024              /* sandbox: open files of a process (RLIMIT_NOFILE); then open fails with
					 * EMFILE [bombs/bombs.py:descriptors] */
#define CBX_FILE_SIZE_MAX GIB(16)        /* sandbox: size of a file (RLIMIT_FSIZE); then writing fails with EFBIG
					 * [integration/sandbox.py:limits_are_set] */
#define CBX_STACK_MAX MIB(64)            /* sandbox: stack of a process (RLIMIT_STACK, hard; soft is 8 MiB); then it
					 * dies of SIGSEGV [integration/sandbox.py:limits_are_set] */

#define CBX_WATCH_MS 250                 /* supervisor: between two looks at what sandboxes use
					 * [bombs/bombs.py:memory] */
#define CBX_WATCH_PAGES_MS 2000          /* supervisor: shared memory is counted again after so long at the latest,
					 * where that matters and there are no control groups [bombs/bombs.py:shared] */
#define CBX_WATCH_COUNT_MS 100           /* supervisor: of a processor, for counting a sandbox's shared memory at once;
					 * then it goes on at the next look [unit/test_watch.c:long_counts_go_on] */
#define CBX_LANE_STAY_MS 1000            /* supervisor: a session that computed counts as one that does for so long
					 * [bombs/lanes.py:they_are_one_again_when_the_computing_is_over] */
#define CBX_LANE_KEEP_MS 10000           /* supervisor: a session that was used has its lane kept free for so long
					 * [unit/test_lanes.c:nobody_is_waited_for] */
#define CBX_WATCH_AT_ONCE 64             /* supervisor: sandboxes looked at each time, in turn */

/* Control groups (cgroup). */
#define CBX_CPUS_MILLI_MIN 10            /* policy: thousandths of a processor that may be asked for; less: error
					 * [unit/test_session_spec.c:refusals] */
#define CBX_CPUS_MILLI_MAX 1024000       /* policy: thousandths of a processor that may be asked for; more: error
					 * [unit/test_session_spec.c:refusals] */
#define CBX_CPU_WEIGHT_DEFAULT 100       /* policy: a session's share of processors that others want too
					 * [unit/test_session_spec.c:values] */
#define CBX_CPU_WEIGHT_MAX 10000         /* policy: the largest share; more: error
					 * [unit/test_session_spec.c:refusals] */
#define CBX_IO_MIN KIB(64)               /* policy: bytes a second that may be asked for; less: error
					 * [unit/test_session_spec.c:refusals] */
#define CBX_IO_MAX GIB(1024)             /* policy: bytes a second that may be asked for; more: error
					 * [unit/test_session_spec.c:refusals] */
#define CBX_IO_OPERATIONS_MIN 10         /* policy: operations a second that may be asked for; less: error
					 * [unit/test_session_spec.c:refusals] */
#define CBX_IO_OPERATIONS_MAX 1000000000 /* policy: operations a second that may be asked for; more: error
					 * [unit/test_session_spec.c:refusals] */
#define CBX_IO_DISKS 10                  /* session: disks of one session, of its image and of each mount: enough */
#define CBX_IO_DISKS_KNOWN 4096          /* cgroup: disks and partitions of the machine; of others a session's use is
					 * not limited, and the answer says so */
#define CBX_FREEZE_IDLE_S 60             /* cgroup: of a session without a cell; then its processes are stopped,
					 * unless they are at work by themselves
					 * [guest/limits.py:an_idle_session_is_stopped_and_goes_on] */
#define CBX_FREEZE_LOOK_MS 5000          /* cgroup: between two looks whether they are
					 * [guest/limits.py:what_is_at_work_is_not_stopped] */
#define CBX_RECLAIM_MAX MIB(256)         /* cgroup: file pages that a stopped session is asked to give back at
					 * once [guest/limits.py:a_stopped_session_gives_file_pages_back] */
#define CBX_CGROUP_SELF_MAX KIB(16)      /* cgroup: /proc/self/cgroup; longer: no control groups, said so
					 * [unit/test_cgroup.c:a_path_that_is_too_long_is_refused] */
#define CBX_CGROUP_MOUNTS_MAX MIB(1)     /* cgroup: /proc/self/mountinfo; longer: no control groups, said so */
#define CBX_CGROUP_SETTLE_MS 5000        /* cgroup: for what was killed for memory to be gone; then a new interpreter is
					 * started all the same
					 * [guest/limits.py:memory_is_limited_for_all_processes_together] */
#define CBX_CGROUP_RETRY_MS 10           /* cgroup: between two tries to remove a session's group whose processes are
					 * ending ... [guest/limits.py:a_closed_session_leaves_no_group] */
#define CBX_CGROUP_TRIES 500             /* cgroup: tries to remove a session's group; then it is left for the next
					 * start, and logged [unit/test_cgroup.c:groups_are_removed] */
#define CBX_CGROUP_CLEAN_TRIES 50        /* cgroup: tries for each group that a predecessor left, at the start; then
					 * it stays [guest/limits.py:a_killed_daemon_leaves_nothing] */

/* Policies (policy). */
#define CBX_POLICY_FILE_MAX KIB(64)      /* policy: bytes of one policy file; larger: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_POLICY_INCLUDES_MAX 8        /* policy: files that one file includes; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_POLICY_LIST_MAX 64           /* policy: images, or allowed directories, in a list; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_VARIABLES_MAX 64             /* policy: environment variables of a policy, and of a request; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_ENVIRONMENT_MAX KIB(16)      /* policy: names and values of a policy's environment variables together;
					 * more: error [unit/test_policy.c:every_fault] */

/* Zygotes: interpreters with their libraries loaded, one for each image that is in use. */
#define CBX_ZYGOTES_MAX 4                /* session: at once (codeboxd --zygotes); more: the one unused for
					 * longest ends
					 * [integration/zygote_hostile.py:one_more_than_there_may_be_takes_anothers_place] */
#define CBX_ZYGOTES_LIMIT 16             /* daemon: most that --zygotes takes; more: error
					 * [integration/pool.py:what_the_options_accept] */
#define CBX_ZYGOTE_MEMORY_MAX GIB(1)     /* supervisor: its memory (RLIMIT_DATA, soft); a preload that needs more
					 * fails [integration/zygote_hostile.py:what_a_zygote_can_use] */
#define CBX_ZYGOTE_DISK MIB(64)          /* supervisor: its /tmp and home; full: ENOSPC while it loads
					 * [integration/zygote_hostile.py:what_a_zygote_can_use] */
#define CBX_ZYGOTE_START_MS 60000        /* supervisor: must be ready by then; else: killed, counts as a failure
					 * [integration/zygote_hostile.py:one_that_never_gets_ready_is_killed] */
#define CBX_ZYGOTE_ENTER_MS 3000         /* supervisor: to place an interpreter; then: killed, and that is exec'd
					 * [integration/zygote_hostile.py:one_that_does_not_answer_is_not_waited_for] */
#define CBX_ZYGOTE_IDLE_S 900            /* session: without a new session of its image; then: ended
					 * [integration/zygote_hostile.py:one_that_nobody_wants_ends] */
#define CBX_ZYGOTE_FAILURES 3            /* session: one after another; then: off for the image until codeboxd ends
					 * [integration/zygote_hostile.py:garbage] */
#define CBX_PRELOAD_MAX 64               /* session: modules in an image's "preload"; more: the image is damaged
					 * [unit/test_image_store.c:damaged_manifests] */

/* The daemon's life (daemon). */
#define CBX_DAEMON_IDLE_S 300            /* daemon: without sessions and clients; then it ends
					 * [daemon/daemon.py:it_ends_when_nobody_uses_it] */
#define CBX_DAEMON_OPEN_FILES 16384      /* daemon: its open files (RLIMIT_NOFILE, soft), some 10 a session and one a
					 * client; as far as the hard limit allows it
					 * [daemon/confined.py:codeboxd] */
#define CBX_SUPERVISOR_WAIT_S 10         /* daemon: for the supervisor's first word; then clients are served without
					 * it [daemon/times.py:a_supervisor_that_says_nothing] */
#define CBX_LOG_FILE_MAX MIB(4)          /* daemon: log file; then renamed to .1, one kept
					 * [cli/start.py:log_rotation] */

#endif
