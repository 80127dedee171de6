/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LIMITS_SESSIONS_H
#define CBX_BASE_LIMITS_SESSIONS_H

/* Ceilings of sessions: what runs in them and what comes out, and of policies. limits.h, which includes this file,
 * says what the form is. */

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
#define CBX_INSPECT_MAX KIB(32)          /* session: what is said of a name; more: the rest is omitted
					 * [cli/kernel.py:jupyters_client] */
#define CBX_QUERIES_MAX 16               /* session: questions about code, such as completions, that one interpreter has
					 * not answered; more: error "busy"
					 * [daemon/hostile.py:an_interpreter_that_does_not_read_is_not_asked_without_end] */
#define CBX_FINISHED_MAX 16              /* session: ended executions kept for a later look, where no policy says
					 * otherwise; older are forgotten
					 * [daemon/floods.py:finished_executions_are_forgotten] */
#define CBX_ENDED_MEMORY_MAX MIB(16)     /* session: output and displays of those of one session, likewise; more: the
					 * oldest are forgotten, but not the last
					 * [daemon/floods.py:finished_executions_are_forgotten] */
#define CBX_RESULTS_MAX MIB(64)          /* policy: most that "results" may say; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_RESULTS_COUNT_MAX 1000       /* policy: most that "results_count" may say; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_HISTORY_DEFAULT MIB(8)       /* session: code, output and displays of cells before the last ones, kept for an
					 * export, where no policy says otherwise; more: the oldest are forgotten, and
					 * the export says so [integration/export.py:bounds] */
#define CBX_HISTORY_MAX MIB(64)          /* policy: most that "history" may say; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_HISTORY_PAGE MIB(2)          /* session: of those, in one answer; more: in the next, but a cell is in one
					 * [integration/export.py:pages] */
#define CBX_SESSION_LOG_MAX 64           /* session: events that are remembered; more: the oldest are forgotten
					 * [http/rest.py:the_log_of_a_session_is_bounded] */
#define CBX_SAMPLES_MAX 64               /* session: looked at for one list of what all use now; more: in turn */
#define CBX_IMAGES_LOOK_MS 1000          /* session: between two looks at the image store for lists of it; sooner: what
					  * was there then [http/tenants.py:own_images] */
#define CBX_SAMPLE_MS 1000               /* session: between two looks at one session; sooner: what was seen then */
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

#define CBX_COMMANDS_MAX 200             /* session: commands that run in one session; more: error "too_many_commands"
					 * [integration/commands.py:two_hundred_at_once] */
#define CBX_COMMANDS_TOGETHER 2048       /* session: likewise in all sessions */
#define CBX_COMMANDS_ENDED 16            /* session: commands that have ended, kept for a later look; older are forgotten
					 * [integration/commands.py:ended_commands_are_forgotten] */
#define CBX_COMMAND_UNREAD KIB(256)      /* session: of a command's output, kept until its client has confirmed it; then:
					 * the program waits, or the oldest is forgotten, as its client wanted
					 * [http/commands.py:output_that_nobody_reads] */
#define CBX_COMMAND_UNREAD_MOST KIB(768) /* session: likewise once its program has ended, with what was in its pipes;
					 * more: the oldest is forgotten */
#define CBX_COMMAND_FILES KIB(64)        /* session: of what is said of files that a command has changed; more of them are
					 * counted [integration/commands.py:files_that_it_changes] */
#define CBX_COMMANDS_UNREAD 16           /* session: commands in one session whose output is kept so; more: the oldest that
					 * has ended loses it, or error "too_many_commands" [http/commands.py:bounds] */
#define CBX_COMMANDS_UNREAD_TENANT 64    /* session: likewise of a tenant; more: the error */
#define CBX_COMMANDS_UNREAD_ALL 512      /* session: likewise of all */
#define CBX_COMMAND_UNREAD_S 600         /* session: from a command's end until what nobody has confirmed is forgotten */
#define CBX_COMMAND_HEAD KIB(16)         /* session: kept from the start of what a command printed while nobody was
					 * attached [integration/commands.py:what_was_kept] */
#define CBX_COMMAND_TAIL KIB(48)         /* session: likewise from its end; between them: omitted, and their number is
					 * shown [integration/commands.py:what_was_kept] */

/* Output of one execution (session). */
#define CBX_OUTPUT_HEAD KIB(64)          /* session: kept from the start of the output
					 * [unit/test_output.c:a_flood_keeps_head_and_tail] */
#define CBX_OUTPUT_TAIL KIB(64)          /* session: kept from its end; between them: "N bytes omitted"
					 * [unit/test_output.c:a_flood_keeps_head_and_tail] */
#define CBX_OUTPUT_FILE_MAX MIB(16)      /* session: whole output kept in a file of the session up to this; then it
					 * ends [daemon/daemon.py:an_endless_flood_is_bounded_and_can_be_stopped] */
#define CBX_SPILL_PENDING MIB(1)         /* session: output that waits to be written to that file; more: omitted, and the
					 * file says where and how much
					 * [daemon/floods.py:output_that_waits_for_a_sandbox] */
#define CBX_OUTPUT_RUSH MIB(128)         /* session: of one execution, read as fast as it comes; more: at most some 50 MB
					 * a second [daemon/floods.py:a_cell_that_prints_on_and_on] */
#define CBX_OUTPUT_TOTAL_MAX MIB(64)     /* session: kept output and displays of all ended executions; more: the
					 * oldest of the tenant that has most lose theirs, said so
					 * [daemon/floods.py:kept_output_over_all_sessions] */
#define CBX_DISPLAYS_MAX 64              /* session: MIME bundles of one execution; more are counted and dropped
					 * [daemon/hostile.py:displays_are_checked_and_bounded] */
#define CBX_DISPLAY_BYTES_MAX MIB(16)    /* session: bytes of the MIME bundles of one execution; more are counted and
					 * dropped [daemon/hostile.py:displays_are_checked_and_bounded] */

#define CBX_SCAN_ENTRIES 20000           /* init: files and directories that are looked at for changes; what comes after
					 * them is not, and the answer says so
					 * [integration/ceilings.py:more_files_than_are_looked_at] */
#define CBX_SCAN_PATH 1024               /* init: longest path that is looked at for changes; what is deeper is not, and
					 * the answer says so [integration/ceilings.py:more_files_than_are_looked_at] */
#define CBX_SCAN_QUEUE KIB(256)          /* init: paths of directories that wait to be looked at; those that do not fit
					 * are not, and the answer says so
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

/* Policies (policy). */
#define CBX_POLICY_FILE_MAX KIB(64)      /* policy: bytes of one policy file; larger: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_POLICY_INCLUDES_MAX 8        /* policy: files that one file includes; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_POLICY_LIST_MAX 64           /* policy: images, allowed directories, or words for code in a list; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_VARIABLES_MAX 64             /* policy: environment variables of a policy, and of a request; more: error
					 * [unit/test_policy.c:every_fault] */
#define CBX_ENVIRONMENT_MAX KIB(16)      /* policy: names and values of a policy's environment variables together;
					 * more: error [unit/test_policy.c:every_fault] */

/* Packages that are installed (session, packages). */
#define CBX_POLICY_PACKAGES_MAX 512      /* policy: rules in a list of packages; more: error
					 * [unit/test_packages.c:too_many_rules] */
#define CBX_INSTALL_SIZE_MIN MIB(1)      /* policy: least that "install_size" may say; less: error
					 * [unit/test_packages.c:policies] */
#define CBX_INSTALL_SIZE_MAX GIB(64)     /* policy: most that "install_size" may say; more: error
					 * [unit/test_packages.c:policies] */
#define CBX_INSTALL_SIZE_DEFAULT GIB(2)  /* packages: files of one installation, where no policy says otherwise; more:
					 * refused [integration/install.py:too_large] */
#define CBX_INSTALL_NAMES_MAX 200        /* packages: requirements of one installation; more: error
					 * [integration/install.py:requests_that_are_refused] */
#define CBX_INSTALL_SUMS_MAX 5000        /* packages: hashes that one installation names; more: error
					 * [integration/install.py:hashes_of_requirements] */
#define CBX_INSTALL_TIMEOUT_S 900        /* packages: one installation, in each of its two parts; then it is given up */
#define CBX_INSTALL_PAGE_MAX MIB(64)     /* packages: one answer of the index to the resolver; longer: an error there
					 * [integration/install_hostile.py:an_index_that_answers_without_end] */
#define CBX_CHANNEL_PAGE_MAX MIB(128)    /* packages: the list of a directory of a channel of conda, packed as it comes;
					 * longer: an error there [integration/conda.py:channels_that_answer_wrongly] */
#define CBX_INSTALL_QUESTIONS_MAX 5000   /* packages: what one resolver may ask the index for; more: it is given up */
#define CBX_INSTALL_ADDRESS_MAX KIB(4)   /* packages: what a resolver asks for, a name or an address; longer: it is given up
					 * [integration/install_hostile.py:resolvers_that_lie] */
#define CBX_INSTALLATIONS_MAX 128        /* session: installations of packages in it; more: error
					 * [integration/install.py:one_after_another] */
#define CBX_BUILT_PIECE_MAX 1398104      /* packages: characters of a piece, 1 MiB as base64, of a wheel that a resolver has
					 * built; more: it is given up [integration/builds.py:resolvers_that_lie] */
#define CBX_BUILT_WAITING_MAX MIB(192)   /* packages: characters of such pieces that wait for their turn; more: likewise */
#define CBX_BUILT_MAX MIB(64)            /* packages: bytes of a wheel that a resolver has built from sources; more: refused
					 * [integration/builds.py:resolvers_that_lie] */
#define CBX_SCRIPTS_SAID_MAX KIB(16)     /* packages: what is kept of what scripts of npm packages warn of; more: forgotten, and
					 * the installation says that they did not come to their end
					 * [integration/npm.py:scripts_run_where_the_policy_lets_them] */
#define CBX_RESOLVED_FRESH_S 300         /* packages: after this long, which packages a question needs is found out again */
#define CBX_RESOLVED_MAX 32              /* packages: answers of resolvers that are kept for others who ask the same; more: the
					 * oldest is forgotten */
#define CBX_RESOLVED_ANSWER_MAX KIB(256) /* packages: bytes of such an answer with its question; longer: it is not kept */
#define CBX_INDEXES_MAX 16               /* packages: indexes besides the main one, and likewise directories of wheels, that
					 * the user has configured; more: error
					 * [integration/configured.py:what_cannot_be_honoured] */
#define CBX_INDEX_CONFIG_MAX KIB(64)     /* packages: bytes of a file of pip's or uv's configuration; larger: error
					 * [integration/configured.py:what_cannot_be_honoured] */
#define CBX_INSTALL_UNREAD_MAX MIB(64)   /* session: answers of the index that a resolver has not read, and likewise those
					 * that are still coming, but for one; more: the index waits
					 * [integration/install_hostile.py:resolvers_that_lie] */
#define CBX_PACKAGES_KEPT_MIN MIB(1)     /* policy: least that "cache" of packages may say; less: error
					 * [unit/test_packages.c:policies] */
#define CBX_PACKAGES_KEPT_MAX GIB(1024)  /* policy: most that "cache" of packages may say; more: error
					 * [unit/test_packages.c:policies] */
#define CBX_PACKAGES_KEPT_DEFAULT GIB(10) /* packages: unpacked wheels and answers of the index that are kept, where no
					 * policy says otherwise; more: before something is fetched, those used longest
					 * ago that no session has are removed
					 * [integration/install_store.py:what_is_kept_has_a_quota] */
#define CBX_TREE_TRUSTED_S 86400         /* packages: after this long, the files of an unpacked wheel that is used again are
					 * read, though nothing says that they were changed; one that was is fetched again
					 * [integration/install_store.py:what_was_changed_in_the_store_is_not_used] */
#define CBX_INDEX_KEPT_MAX GIB(1)        /* packages: of these, answers of the index, when some have been kept since
					 * CBX_INDEX_KEPT_LOOK; more: the oldest are removed
					 * [unit/test_trim.c:answers_have_a_ceiling] */
#define CBX_INDEX_KEPT_LOOK MIB(16)      /* packages: answers that are kept, on average, between two looks at how many
					 * there are */
#define CBX_ASK_MAX KIB(60)              /* sandbox: bytes of what a program in a session asks codeboxd for; longer: it
					 * gets no answer [integration/asking.py:questions_that_are_none] */
#define CBX_ASKS_PER_SECOND 4            /* session: questions of its programs in a second; those beyond wait
					 * [integration/asking.py:questions_that_are_none] */
#define CBX_INSTALLS_MAX 64              /* packages: installations at once; more: error "busy" */
#define CBX_INSTALLS_TENANT 8            /* packages: installations of one tenant at once; more: error "busy"
					 * [integration/install_hostile.py:many_at_once] */
#define CBX_CHANNELS_MAX 8               /* policy: channels of conda; more: error [unit/test_conda.c:policies] */
#define CBX_ADVISORIES_MAX 8             /* policy: files and directories of advisories; more: error
					 * [unit/test_packages.c:policies] */
#define CBX_ADVISORY_FILE_MAX MIB(256)   /* packages: bytes of one file of advisories; longer: nothing is installed
					 * [integration/advisories.py:files_that_cannot_be_used] */
#define CBX_ADVISORY_FILES_MAX 200000    /* packages: files in a directory of advisories; more: nothing is installed */

#endif
