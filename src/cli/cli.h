/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_CLI_H
#define CBX_CLI_CLI_H

/*
 * What the commands share. A command is one file, cmd_<name>.c, and one line of the table in main.c; its function gets
 * argv with its own name as argv[0] and returns an exit status.
 */
#include <stdint.h>

#include "base/dirs.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "client/client.h"

/* Exit statuses: part of the interface, in codebox(1). */
enum {
	CBX_EXIT_OK = 0,
	CBX_EXIT_FAILURE = 1,	    /* the code raised an exception; what was asked for could not be done */
	CBX_EXIT_USAGE = 2,	    /* the command line was not understood */
	CBX_EXIT_OWN = 3,	    /* codebox itself failed: no sandbox, no daemon */
	CBX_EXIT_TIMEOUT = 124,	    /* as timeout(1) */
	CBX_EXIT_NOT_TRIED = 125,   /* exec and shell: codebox failed, as env(1) says it */
	CBX_EXIT_NOT_EXECUTABLE = 126,
	CBX_EXIT_NOT_FOUND = 127,
	CBX_EXIT_INTERRUPTED = 130, /* 128 + SIGINT */
	CBX_EXIT_KILLED = 137,	    /* 128 + SIGKILL */
};

struct cbx_command {
	const char *name;
	const char *summary; /* one line of `codebox --help` */
	const char *help;    /* all of `codebox NAME --help`; NULL: the command explains itself */
	int (*run)(int argc, char **argv);
	bool program; /* what stands behind its first argument may belong to a program that is run */
};

extern const struct cbx_command cbx_cmd_run;
extern const struct cbx_command cbx_cmd_repl;
extern const struct cbx_command cbx_cmd_exec;
extern const struct cbx_command cbx_cmd_shell;
extern const struct cbx_command cbx_cmd_artifact, cbx_cmd_session;
extern const struct cbx_command cbx_cmd_cp;
extern const struct cbx_command cbx_cmd_image;
extern const struct cbx_command cbx_cmd_kernel;
extern const struct cbx_command cbx_cmd_doctor;
extern const struct cbx_command cbx_cmd_logs;
extern const struct cbx_command cbx_cmd_mcp;
extern const struct cbx_command cbx_cmd_npm;
extern const struct cbx_command cbx_cmd_conda;
extern const struct cbx_command cbx_cmd_pip;
extern const struct cbx_command cbx_cmd_policy;
extern const struct cbx_command cbx_cmd_register;
extern const struct cbx_command cbx_cmd_sql;
extern const struct cbx_command cbx_cmd_stop;
extern const struct cbx_command cbx_cmd_token;
extern const struct cbx_command cbx_cmd_top;
extern const struct cbx_command cbx_cmd_audit;

/* "codebox: …" on standard error, control characters made visible. */
void cbx_cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Say it and return the exit status: CBX_EXIT_OWN when codebox failed, CBX_EXIT_FAILURE when a request was refused. */
int cbx_cli_fail(const struct cbx_err *err);
/* Likewise, of something that a command has found out itself; returns CBX_EXIT_FAILURE. */
int cbx_cli_refuse(const char *kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Likewise, of a session, where codeboxd, which would know it, is not running. */
int cbx_cli_no_session(const char *id);
/* --json was given: from here on what the functions below say is on standard output too, as {"error":{kind,message}}. */
void cbx_cli_json_errors(void);
void cbx_cli_print_error(const char *kind, const char *msg); /* that alone, if it was given */
/* Say what is wrong with the command line and where to read more; returns CBX_EXIT_USAGE. */
int cbx_cli_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* For getopt_long() that returned '?' or ':' with a leading ':' in its option string. */
int cbx_cli_bad_option(const char *command, int c, char *const *argv);
void cbx_cli_warn(const char *msg); /* of the client library, to the user */
/* A client of the daemon. 1; 0: none runs, and it was not to be started; or an error. */
int cbx_cli_client(bool start, struct cbx_client *ret, struct cbx_err *err);
/* Become another program of codebox, in libexec. An exit status after saying why that is not possible. */
int cbx_cli_exec(const char *program, char **argv);
/* Print JSON and a newline on standard output. */
int cbx_cli_print_json(const cJSON *v);
/* Write to standard output; a failure (other than a reader that left) is said. 0 or an exit status. */
int cbx_cli_out(const void *p, size_t n);
/* A line on standard output, made as that of cbx_cli_say(); likewise. */
int cbx_cli_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What to ask for, for a cell of a notebook in this language (NULL: the image's own): a cell may name another itself. */
const char *cbx_cli_cell_language(const char *language, const char *code);

/* ---- options.c: what a command line says ---- */

struct cbx_cli_option {
	const char *name; /* NULL: the table ends */
	char letter;	  /* 0: none */
	bool *flag;	  /* set: it takes no value */
	const char **value;
	int (*take)(void *arg, const char *value); /* where there is neither: 0, or an exit status after saying why */
	void *arg;
};
/*
 * Options of a table, also behind arguments, which are at argv + optind afterwards. "json" has errors said as JSON,
 * too. 0, or an exit status after saying what is wrong.
 */
int cbx_cli_options(const char *command, int argc, char **argv, const struct cbx_cli_option *options);
/* Which of these, up to a NULL, argv[1] is, or -CBX_EXIT_USAGE after saying what there is. */
int cbx_cli_verb(const char *command, const char *const *verbs, int argc, char **argv);

/* ---- spec.c: the options that run, repl and mcp share, most of which describe a new sandbox ---- */

struct cbx_cli_spec {
	const char *session, *image, *memory, *disk, *policy, *timeout, *out;
	cJSON *set, *environment, *mounts, *packages; /* NULL: nothing; owned by this struct */
	char found[CBX_NAME_MAX + 1];	   /* the image that was pulled as what --image says */
};
/* For getopt_long(); a command's own options have other values. */
enum {
	CBX_OPT_SESSION = 256,
	CBX_OPT_IMAGE,
	CBX_OPT_MEMORY,
	CBX_OPT_DISK,
	CBX_OPT_POLICY,
	CBX_OPT_TIMEOUT,
	CBX_OPT_OUT,
	CBX_OPT_SET,
	CBX_OPT_ENV,
	CBX_OPT_MOUNT,
	CBX_OPT_WORKSPACE,
	CBX_OPT_PACKAGE /* of those alone that run something in a session of their own */
};
#define CBX_CLI_SESSION_OPTIONS                                                                                        \
	{ "session", required_argument, NULL, CBX_OPT_SESSION }, { "image", required_argument, NULL, CBX_OPT_IMAGE },  \
		{ "memory", required_argument, NULL, CBX_OPT_MEMORY },                                                 \
		{ "disk", required_argument, NULL, CBX_OPT_DISK },                                                     \
		{ "policy", required_argument, NULL, CBX_OPT_POLICY },                                                 \
		{ "timeout", required_argument, NULL, CBX_OPT_TIMEOUT },                                               \
		{ "set", required_argument, NULL, CBX_OPT_SET }, { "env", required_argument, NULL, CBX_OPT_ENV },      \
		{ "mount", required_argument, NULL, CBX_OPT_MOUNT },                                                   \
	{                                                                                                              \
		"workspace", required_argument, NULL, CBX_OPT_WORKSPACE                                                \
	}
#define CBX_CLI_SPEC_OPTIONS CBX_CLI_SESSION_OPTIONS, { "out", required_argument, NULL, CBX_OPT_OUT }

/* What getopt_long() returned: 0, or an exit status after saying what is wrong, also for an option that is none. */
int cbx_cli_spec_option(const char *command, struct cbx_cli_spec *spec, int c, char *const *argv);
/* One more for the session: that it is one is for codeboxd to say. */
void cbx_cli_spec_package(struct cbx_cli_spec *spec, const char *requirement);
/* Checks the values where they were typed; likewise. */
int cbx_cli_spec_check(const char *command, struct cbx_cli_spec *spec);
void cbx_cli_spec_json(const struct cbx_cli_spec *spec, cJSON *params); /* all but the time and --out */
/* Install the packages in the session that is named, which is made if it is not there. */
int cbx_cli_spec_outfit(struct cbx_cli_spec *spec, struct cbx_client *client, struct cbx_err *err);
void cbx_cli_spec_release(struct cbx_cli_spec *spec);

#endif
