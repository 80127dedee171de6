/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LIMITS_SANDBOXES_H
#define CBX_BASE_LIMITS_SANDBOXES_H

/* Ceilings of sandboxes, which the kernel and the supervisor enforce. limits.h, which includes this file, says what the
 * form is. */

/* A sandbox's resources: defaults, and the most that a request may ask for. */
#define CBX_MEMORY_DEFAULT GIB(2)        /* policy: a session's memory by default
					 * [unit/test_session_spec.c:values] */
#define CBX_MEMORY_MIN ((uint64_t)64 << 20) /* policy: least a request may ask for; less: error
					 * [unit/test_base.c:plans] */
#define CBX_MEMORY_MAX GIB(64)           /* policy: most a request may ask for; more: error
					 * [unit/test_base.c:plans] */
#define CBX_MEMORY_TOGETHER_MAX GIB(65536) /* policy: most that "memory_together" may say; more: error
					 * [unit/test_policy.c:parts_of_the_machine] */
#define CBX_DISK_DEFAULT GIB(1)          /* sandbox: a session's files by default (a tmpfs); then
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
#define CBX_PROCESSES_CEILING 1024       /* policy: most that a session gets, unless a policy says otherwise
					 * [integration/policy.py:what_is_shipped_follows_the_machine] */
#define CBX_PROCESSES_SLACK 16           /* cgroup: RLIMIT_NPROC, and the bound for init and all, are this much higher
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
#define CBX_OPEN_FILES_MAX 4096          /* sandbox: likewise, as far as a program may raise it
					 * [integration/sandbox.py:limits_are_set] */
#define CBX_LOCKED_MEMORY KIB(64)        /* sandbox: locked memory of a process (RLIMIT_MEMLOCK); then mlock fails with
					 * ENOMEM [integration/sandbox.py:limits_are_set] */
#define CBX_MESSAGE_QUEUES KIB(200)      /* sandbox: of a session's POSIX message queues (RLIMIT_MSGQUEUE), two of the
					 * usual size; then mq_open fails with EMFILE
					 * [integration/sandbox.py:limits_are_set] */
#define CBX_TERMINALS 16                 /* sandbox: pseudo-terminals (devpts); then opening one fails with ENOSPC
					 * [integration/terminals.py:their_number_is_bounded] */
#define CBX_INIT_STARTED 256             /* init: processes that it has started for codeboxd, interpreters and commands; more:
					 * an error [integration/commands.py:two_hundred_at_once] */
#define CBX_FILE_SIZE_MAX GIB(16)        /* sandbox: size of a file (RLIMIT_FSIZE); then writing fails with EFBIG
					 * [integration/sandbox.py:limits_are_set] */
#define CBX_STACK_MAX MIB(64)            /* sandbox: stack of a process (RLIMIT_STACK, hard; soft is 8 MiB); then it
					 * dies of SIGSEGV [integration/sandbox.py:limits_are_set] */

#define CBX_WATCH_MS 250                 /* supervisor: between two looks at what sandboxes use
					 * [bombs/bombs.py:memory] */
#define CBX_WATCH_PAGES_MS 2000          /* supervisor: shared memory is counted again after this time at the latest,
					 * where it matters and there are no control groups [bombs/bombs.py:shared] */
#define CBX_WATCH_MIN_MS 5               /* supervisor: between two looks at a sandbox whose memory grows fast, at least
					 * [bombs/memory.py:many_that_come_again] */
#define CBX_WATCH_IDLE_MS 4000           /* supervisor: between two looks at a sandbox in which nothing runs, at most,
					 * while the machine's memory does not shrink [bombs/memory.py:nothing_runs] */
#define CBX_WATCH_FREE_MS 100            /* supervisor: between two looks at how much memory the machine has left
					 * [bombs/memory.py:what_was_left_to_sleep] */
#define CBX_WATCH_REST_MS 500            /* supervisor: likewise, while no session runs anything; all that are to be
					 * looked at then are at the same time [bombs/memory.py:nothing_runs] */
#define CBX_WATCH_FREE_MIN MIB(64)       /* supervisor: less of it, or by a 64th of all; then every sandbox is looked at
					 * at once [bombs/memory.py:what_was_left_to_sleep] */
#define CBX_WATCH_VAGUE_MIN MIB(1)       /* supervisor: of what a sandbox may use and was not counted; less is not worth a
					 * count where all together may use too much
					 * [integration/zygote.py:what_many_share_counts_once] */
#define CBX_WATCH_COUNT_MS 50            /* supervisor: for counting a sandbox's shared memory at once; then it is the
					 * next one's turn [bombs/memory.py:mappings_that_churn] */
#define CBX_WATCH_COST_MS 500            /* supervisor: of a processor, for counting a sandbox's shared memory; the rest
					 * of its processes then counts as if they shared nothing
					 * [bombs/memory.py:mappings_that_churn] */
#define CBX_WATCH_SETTLE_MS 100          /* supervisor: likewise, while all together may use too much and others wait
					 * [integration/zygote.py:what_many_share_counts_once] */
#define CBX_WATCH_ROUNDS 8               /* supervisor: times that a count continues because processes have come, or begins
					 * again because some have ended; then what these had counts as the others'
					 * [bombs/memory.py:one_that_is_never_there_when_it_is_counted] */
#define CBX_WATCH_HANG_MS 3000           /* supervisor: for one such turn; then it is given up, and the sandbox's
					 * processes count as if they shared nothing for CBX_WATCH_PLAIN_MS */
#define CBX_WATCH_PLAIN_MS 10000         /* supervisor: until it is tried again */
#define CBX_WATCH_STRIKES 3              /* supervisor: times that processes were killed for memory, each within
					 * CBX_WATCH_STRIKE_MS; then all of the session are but init
					 * [bombs/memory.py:many_that_come_again] */
#define CBX_WATCH_STRIKE_MS 2000         /* supervisor: between two such times [bombs/memory.py:many_that_come_again] */
#define CBX_SOCKETS_FREE 64              /* supervisor: sockets of a session whose memory is not counted
					 * [bombs/memory.py:sockets] */
#define CBX_SOCKET_BYTES KIB(256)        /* supervisor: what a socket counts with that cannot be looked at
					 * [bombs/memory.py:sockets] */
#define CBX_OPEN_FILES_ALL 65536         /* supervisor: open files of all processes of a session without a control
					 * group; as many as its memory has CBX_OPEN_FILE_BYTES, if that is less; then
					 * the process with most is killed [bombs/memory.py:descriptors] */
#define CBX_OPEN_FILE_BYTES KIB(16)      /* supervisor: four times what the kernel keeps for one, a pipe's end */
#define CBX_LANE_STAY_MS 1000            /* supervisor: a session that computed counts as one that does for this time
					 * [bombs/lanes.py:they_are_one_again_when_the_computing_is_over] */
#define CBX_LANE_KEEP_MS 10000           /* supervisor: a session that was used has its lane kept free for this time
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
#define CBX_HOST_NAMES_MS 3000           /* supervisor: a process that looks for what mounts are really called, and
					  * codeboxd waiting for it; it is killed, and the mount refused: a file system
					  * does not answer [integration/mounts.py:a_file_system_that_does_not_answer] */
#define CBX_HOST_NAMES_MAX 8             /* supervisor: such processes that the kernel has not let go of; no more are
					  * made, and mounts are refused likewise */
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

#endif
