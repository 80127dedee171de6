/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LIMITS_H
#define CBX_BASE_LIMITS_H

/*
 * Every numeric ceiling in one place. Each line: the value, then who enforces it and what happens when it is hit.
 */
#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

/* Client connections (daemon). */
#define CBX_MESSAGE_MAX MIB(24)          /* daemon: one line from a client; longer: error, connection goes on */
#define CBX_CODE_MAX MIB(1)              /* session: code of one cell; longer: error "code_too_long" */
#define CBX_CLIENT_QUEUE_MAX MIB(64)     /* daemon: bytes waiting for a client that does not read; then: closed */
#define CBX_CLIENTS_MAX 256              /* daemon: connections; more: refused */
#define CBX_REPLY_MAX KIB(900)           /* mcp: one message to a client; longer: images dropped, text cut, said so */

/* One MCP connection (mcp). */
#define CBX_CALLS_MAX 256                /* tool calls going on at once; more: tool error */
#define CBX_BATCH_MAX 64                 /* messages in one JSON-RPC batch; more: error */
#define CBX_JOBS_MAX 64                  /* resource and completion requests going on at once; more: error */
#define CBX_STREAMS_MAX 16               /* open subscriptions/listen requests; more: error */
#define CBX_SUBSCRIPTIONS_MAX 256        /* resources that one of them asks for; more: error */
#define CBX_LIST_FILES_MAX 500           /* files of one session in resources/list; more are not listed */
#define CBX_RPC_ID_MAX 1024              /* bytes of a request's id or progress token; longer: error */
#define CBX_TEXT_CHARS 20000             /* characters of output in an answer; more: head and tail, said so */
#define CBX_VALUE_CHARS 10000            /* characters of values shown, and of a traceback; likewise */
#define CBX_PROGRESS_MIN_MS 250          /* between two progress messages of a call at least ... */
#define CBX_PROGRESS_MAX_MS 5000         /* ... and at most */

/* The HTTP listener (http). */
#define CBX_HTTP_CONNECTIONS_MAX 128     /* connections; more wait in the kernel until one has ended */
#define CBX_HTTP_HEADERS_MAX KIB(16)     /* a request's headers; longer: status 400 */
#define CBX_HTTP_BODY_MAX MIB(8)         /* a request's body; longer: status 413 */
#define CBX_HTTP_STREAM_MAX MIB(4)       /* waiting for a client that does not read; then: cut off */
#define CBX_HTTP_WAITING_MAX KIB(64)     /* notifications kept for a session without a stream; more: dropped */
#define CBX_HTTP_SESSIONS_MAX 256        /* Mcp-Session-Ids; more: the longest idle one ends, or status 503 */
#define CBX_HTTP_SESSION_IDLE_S 3600     /* of a session without a request or stream; then: ended */
#define CBX_HTTP_IDLE_S 60               /* of a connection without a request, or that takes nothing; then: closed */
#define CBX_HTTP_STREAM_AFTER_MS 1000    /* without an answer: a stream of events is begun ... */
#define CBX_HTTP_KEEPALIVE_S 15          /* ... and a comment sent in it so often */

#define CBX_WAIT_MS 45000                /* run_code, get_execution: wait for a cell's end; then: status "running" */
#define CBX_READ_DEFAULT KIB(20)         /* read_file: bytes when no length is given */
#define CBX_READ_MAX KIB(192)            /* read_file: most bytes of one answer; more: the answer says where to go on */
#define CBX_LIST_MAX 500                 /* list_files: entries of one answer; likewise */
#define CBX_INLINE_IMAGE_MAX KIB(200)    /* an image file that a cell wrote, sent with its result; larger: a link */
#define CBX_INLINE_IMAGES_MAX 4          /* likewise, when a cell wrote no more than so many */

/* Sessions. */
#define CBX_SESSIONS_MAX 256             /* session: live at once; more: error "too_many_sessions" */
#define CBX_POOL_MAX 4                   /* session: made ahead of time at once (codeboxd --pool); more are not made */
#define CBX_POOL_LIMIT 64                /* daemon: most that --pool takes; more: error */
#define CBX_POOL_SHAPES_MAX 3            /* session: kinds of those; a fourth replaces the one used longest ago */
#define CBX_POOL_IDLE_S 180              /* session: without a request for their kind (--pool-idle); then they are given up */
#define CBX_POOL_FREE_MIN MIB(512)       /* session: memory available on the machine; with less none is made */
#define CBX_QUEUE_MAX 64                 /* session: executions waiting for one interpreter; more: "queue_full" */
#define CBX_FINISHED_MAX 16              /* session: ended executions kept for a later look; older are forgotten */
#define CBX_TOMBSTONES_MAX 1024          /* session: closed ids remembered, to answer "expired" and not "unknown" */
#define CBX_TIMEOUT_DEFAULT_MS 60000     /* session: a cell's time; then: SIGINT, after the grace period SIGKILL */
#define CBX_TIMEOUT_MAX_MS 3600000       /* session: most a request may ask for; more: error */
#define CBX_GRACE_MS 3000                /* session: from SIGINT to SIGKILL */
#define CBX_START_TIMEOUT_MS 30000       /* session: sandbox and interpreter must be ready by then; else: error */
#define CBX_TTL_DEFAULT_S (24 * 3600)    /* session: life; then: closed */
#define CBX_IDLE_DEFAULT_S 3600          /* session: since its last use; then: closed */
#define CBX_TTL_MAX_S (7 * 24 * 3600)

/* Output of one execution (session). */
#define CBX_OUTPUT_HEAD KIB(64)          /* kept from the start of the output */
#define CBX_OUTPUT_TAIL KIB(64)          /* kept from its end; between them: "N bytes omitted" */
#define CBX_OUTPUT_FILE_MAX MIB(16)      /* whole output kept in a file of the session up to this; then it ends */
#define CBX_DISPLAYS_MAX 64              /* MIME bundles of one execution; more are counted and dropped */
#define CBX_DISPLAY_BYTES_MAX MIB(16)    /* their bytes altogether; likewise */

#define CBX_CHANGES_MAX 200              /* changed files listed; more are counted */

/* What comes from an interpreter (hostile). */
#define CBX_FRAME_MAX MIB(12)            /* one frame; longer: the interpreter is killed */
#define CBX_INIT_MESSAGE_MAX KIB(64)     /* one datagram to or from init, header included */

/* A sandbox's resources: defaults, and the most that a request may ask for. */
#define CBX_MEMORY_DEFAULT GIB(2)
#define CBX_MEMORY_MIN ((uint64_t)64 << 20)
#define CBX_MEMORY_MAX GIB(64)
#define CBX_DISK_DEFAULT GIB(1)          /* tmpfs: writes fail with ENOSPC */
#define CBX_DISK_MIN ((uint64_t)1 << 20)
#define CBX_DISK_MAX GIB(64)
#define CBX_INODES_PER_MIB 64            /* tmpfs inodes per MiB of disk: creation fails with ENOSPC */
#define CBX_PROCESSES_DEFAULT 256        /* RLIMIT_NPROC within the user namespace: fork fails with EAGAIN */
#define CBX_PROCESSES_MAX 4096
#define CBX_PROCESSES_SLACK 16           /* with a control group: RLIMIT_NPROC, and the bound for init and all, are so much
					  * higher, so that the group's own count is what is hit and named */
#define CBX_INIT_MEMORY MIB(16)          /* cgroup: of a session's group beyond its memory and disk, for its init */
#define CBX_CPUS_MILLI_MIN 10            /* thousandths of a processor; cgroup: the session's processes wait */
#define CBX_CPUS_MILLI_MAX 1024000
#define CBX_OPEN_FILES 1024              /* RLIMIT_NOFILE */
#define CBX_FILE_SIZE_MAX GIB(16)        /* RLIMIT_FSIZE */
#define CBX_STACK_MAX MIB(64)            /* RLIMIT_STACK, hard; soft is 8 MiB */

/* Control groups (cgroup). */
#define CBX_CGROUP_SELF_MAX KIB(16)      /* /proc/self/cgroup; longer: no control groups, said so */
#define CBX_CGROUP_MOUNTS_MAX MIB(1)     /* /proc/self/mountinfo; likewise */
#define CBX_FREEZE_IDLE_S 60             /* cgroup: of a session without a cell; then its processes are stopped, if ... */
#define CBX_FREEZE_LOOK_MS 5000          /* ... they were not at work by themselves in between; looked at so often */
#define CBX_RECLAIM_MAX MIB(256)         /* file pages that a stopped session is asked to give back */
#define CBX_CGROUP_RETRY_MS 10           /* between two tries to remove a session's group whose processes are ending ... */
#define CBX_CGROUP_TRIES 500             /* ... and so many; then it is left for the next start, and logged */
#define CBX_CGROUP_CLEAN_TRIES 50        /* likewise for each group that a predecessor left, at the start */

/* Policies (policy). */
#define CBX_POLICY_FILE_MAX KIB(64)      /* one file; larger: error */
#define CBX_POLICY_INCLUDES_MAX 8        /* files that one file includes; more: error */
#define CBX_POLICY_LIST_MAX 64           /* images, or allowed directories, in a list; more: error */
#define CBX_VARIABLES_MAX 64             /* environment variables of a policy, and of a request; more: error */
#define CBX_ENVIRONMENT_MAX KIB(16)      /* their names and values together; more: error */

/* The daemon's life. */
#define CBX_DAEMON_IDLE_S 300            /* without sessions and clients; then it ends */
#define CBX_SUPERVISOR_WAIT_S 10         /* for the supervisor's first word; then clients are served without it */
#define CBX_LOG_FILE_MAX MIB(4)          /* log file; then renamed to .1, one kept */

#endif
