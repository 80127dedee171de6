/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a model learns of the tools. Every conversation pays for each byte of it, so a schema holds
 * what a client validates and a model cannot guess. What all tools share (sessions, paths) is said once, in the
 * server's instructions. tests/unit/test_mcp_definitions.c sees to it that the texts are schemas, and short.
 */
#include "tools/internal.h"

/* clang-format off */
#define JSON(...) #__VA_ARGS__

/* The schema of an object; `required`: a JSON array. */
#define INPUT(required, properties) "{\"type\":\"object\",\"properties\":" properties ",\"required\":" required \
	",\"additionalProperties\":false}"
#define OPTIONAL(properties) "{\"type\":\"object\",\"properties\":" properties ",\"additionalProperties\":false}"
#define OUTPUT(required, properties) "{\"type\":\"object\",\"properties\":" properties ",\"required\":" required "}"

#define RUN_CODE JSON({"code":{"type":"string"},\
"session_id":{"type":"string"},\
"timeout":{"type":"number","description":\
"Seconds until it is interrupted; default 60."},\
"language":{"type":"string","description":"Default: the image's own, python. Also: bash."},\
"background":{"type":"boolean","description":"Answer at once; the cell keeps running."}})

#define RUN_COMMAND JSON({"command":{"type":"string"},"session_id":{"type":"string"},"timeout":{"type":"number"},\
"background":{"type":"boolean"}})

#define GET_EXECUTION JSON({"session_id":{"type":"string"},\
"execution_id":{"type":"integer"},\
"wait":{"type":"number","description":"Seconds to wait for its end, up to 45; default 0."},\
"output_from":{"type":"integer","description":"Page of the output from this byte."}})

#define INTERRUPT JSON({"session_id":{"type":"string"},\
"execution_id":{"type":"integer","description":"If omitted: the cell that runs now."}})

#define CREATE_SESSION JSON({\
"session_id":{"type":"string","description":"Default: made up."},\
"image":{"type":"string","description":"Default: python."},\
"environment":{"type":"object","additionalProperties":{"type":"string"}},\
"mounts":{"type":"array","items":{"type":"object","properties":{"source":{"type":"string"},"target":{"type":"string"},\
"writable":{"type":"boolean"},"recursive":{"type":"boolean"}},"required":["source"]},\
"description":"Of the computer, if its policy allows it, at target (default /mnt/NAME)."},\
"packages":{"type":"array","items":{"type":"string"},"description":"Python's."},\
"memory":{"type":"string","description":"Such as 512M. Default: 2 GiB."},\
"disk":{"type":"string","description":"Default: 1 GiB."},\
"processes":{"type":"integer","description":"Processes and threads. Default: 256."},\
"timeout":{"type":"number","description":"Limit of a cell. Default: 60 s."},\
"ttl":{"type":"number","description":"Closed at this age. Default: 86400 s."},\
"idle_timeout":{"type":"number","description":"Closed when unused for this time. Default: 3600 s."},\
"cpus":{"type":"number","description":"Processors, such as 1.5. Default: no limit."},\
"cpu_weight":{"type":"integer","description":"Share of busy processors. Default: 100."},\
"io":{"type":"string","description":"Bytes a second. Default: no limit."},\
"io_operations":{"type":"integer","description":"Disk operations a second. Default: no limit."}})

#define LIST_SESSIONS JSON({"cursor":{"type":"string","description":"next_cursor of the page before."}})

#define ONE_SESSION JSON({"session_id":{"type":"string"}})

#define RESTART JSON({"session_id":{"type":"string"},\
"language":{"type":"string","description":"Only its interpreter."}})

#define LIST_FILES JSON({"session_id":{"type":"string"},\
"path":{"type":"string","description":"Directory; default /workspace."},\
"recursive":{"type":"boolean"},\
"offset":{"type":"integer","description":"next_offset of the part before."}})

#define READ_FILE JSON({"session_id":{"type":"string"},"path":{"type":"string"},\
"offset":{"type":"integer","description":"First byte; default 0."},\
"length":{"type":"integer","description":"Bytes: default 20480 (images: all), up to 196608."},\
"encoding":{"type":"string","enum":["text","base64"],"description":"Default: what suits the file."}})

#define WRITE_FILE JSON({"session_id":{"type":"string"},\
"path":{"type":"string","description":"Missing directories are made."},\
"content":{"type":"string"},\
"encoding":{"type":"string","enum":["text","base64"],"description":"Of content; default text."},\
"append":{"type":"boolean"}})

#define INSTALL_PACKAGES JSON({"session_id":{"type":"string"},\
"packages":{"type":"array","items":{"type":"string"},"description":"Such as httpx>=0.27."}})

#define RUN_SQL JSON({"query":{"type":"string","description":"SELECT or WITH, with ? for parameters."},\
"parameters":{"type":"array"},\
"connection":{"type":"string",\
"description":"Path of that file, or a name of the policy (default: the only one)."},\
"session_id":{"type":"string"},\
"path":{"type":"string","description":"File for all rows, in any case."},\
"format":{"type":"string","enum":["csv","arrow","parquet"]}})

#define UPLOAD_FILE JSON({"session_id":{"type":"string"},\
"filename":{"type":"string","description":"Path in the session."},\
"content_base64":{"type":"string"},\
"url":{"type":"string","description":"Fetch it from http(s), where the policy allows that host."}})

static const char execution_output[] = OUTPUT("[\"status\",\"session_id\",\"execution_id\",\"stdout\",\"stderr\","
	"\"state_kept\"]",
JSON({"status":{"type":"string"},"session_id":{"type":"string"},"execution_id":{"type":"integer"},\
"stdout":{"type":"string"},"stderr":{"type":"string"},\
"state_kept":{"type":"boolean"}}));

static const char command_output[] = OUTPUT("[\"status\",\"session_id\",\"execution_id\"]",
JSON({"status":{"type":"string"},"session_id":{"type":"string"},"execution_id":{"type":"integer"}}));

/* The members of an execution, or those of a page of its output. */
static const char page_output[] = OUTPUT("[\"status\",\"session_id\",\"execution_id\"]",
JSON({"status":{"type":"string"},"session_id":{"type":"string"},"execution_id":{"type":"integer"}}));

static const char interrupt_output[] = OUTPUT("[\"session_id\",\"interrupted\"]",
JSON({"session_id":{"type":"string"},"interrupted":{"type":"boolean"}}));

static const char session_output[] = OUTPUT("[\"session_id\"]", JSON({"session_id":{"type":"string"}}));

static const char sessions_output[] = OUTPUT("[\"sessions\"]",
JSON({"sessions":{"type":"array"}}));

static const char closed_output[] = OUTPUT("[\"session_id\",\"closed\"]",
JSON({"session_id":{"type":"string"},"closed":{"type":"boolean"}}));

static const char restarted_output[] = OUTPUT("[\"session_id\",\"ended\"]",
JSON({"session_id":{"type":"string"},"ended":{"type":"integer"}}));

static const char files_output[] = OUTPUT("[\"session_id\",\"path\",\"files\"]",
JSON({"session_id":{"type":"string"},"path":{"type":"string"},"files":{"type":"array"}}));

static const char read_output[] = OUTPUT("[\"session_id\",\"path\",\"size\",\"encoding\"]",
JSON({"session_id":{"type":"string"},"path":{"type":"string"},"size":{"type":"integer"},\
"encoding":{"type":"string"}}));

static const char written_output[] = OUTPUT("[\"session_id\",\"path\",\"written\"]",
JSON({"session_id":{"type":"string"},"path":{"type":"string"},"written":{"type":"integer"}}));

static const struct cbx_tool run_code = {
	.name = "run_code",
	.title = "Run code",
	.description =
		"Run Python code in a sandbox and get what a notebook cell would show: printed output, the value of "
		"the last expression, matplotlib figures as images (without plt.show()), the traceback of an error.\n\n"
		"Variables, imports, functions and files of earlier calls in the same session are still there; do "
		"not repeat them. %s\n\n"
		"Long output is cut in the middle, and the answer says where the rest is: print less, or summarise. "
		"The working directory is /workspace. Packages: %pip install NAME. No network "
		"but what the instructions name; no input(). Shell: language bash; its directory and variables are "
		"kept, too.\n\n"
		"Status \"error\" is an exception: read the traceback, fix the code, call again; variables are "
		"kept. \"timeout\": it was interrupted; state_kept says whether variables survived; take smaller "
		"steps or a larger timeout. \"killed\": the interpreter ended (memory, a crash, exit); variables "
		"are gone, files are kept. \"running\" (after 45 s, or at once with background): get_execution gets "
		"the rest, interrupt stops it.",
	.input = INPUT("[\"code\"]", RUN_CODE),
	.output = execution_output,
	.call = cbx_tool_run_code,
	.cancel = cbx_tool_cancel_run,
};

static const struct cbx_tool run_command = {
	.name = "run_command",
	.title = "Run a shell command",
	.description =
		"Run a shell's command line beside the interpreter, also while a cell runs: servers, builds. It starts "
		"in /workspace, or where its image says. Arguments and answer are as of run_code, without a time limit "
		"in the background; get_execution and interrupt take its execution_id.",
	.input = INPUT("[\"command\"]", RUN_COMMAND),
	.output = command_output,
	.call = cbx_tool_run_command,
	.cancel = cbx_tool_cancel_command,
};

static const struct cbx_tool get_execution = {
	.name = "get_execution",
	.title = "Look at a cell",
	.description =
		"Get the state of a cell with status \"running\", and its result once it has "
		"ended. The last 16 cells of a session are kept.\n\n"
		"When an answer says that output was omitted, output_from pages through it: start with 0, continue "
		"with output_next until that is output_total.",
	.hints = CBX_TOOL_READ_ONLY | CBX_TOOL_IDEMPOTENT,
	.input = INPUT("[\"execution_id\"]", GET_EXECUTION),
	.strict_input = INPUT("[\"session_id\",\"execution_id\"]", GET_EXECUTION),
	.output = page_output,
	.call = cbx_tool_get_execution,
};

static const struct cbx_tool interrupt = {
	.name = "interrupt",
	.title = "Interrupt a cell",
	.description =
		"Stop a cell that runs or waits for its turn, as Ctrl-C does; it is killed if it does not end within "
		"seconds, which loses the variables.",
	.hints = CBX_TOOL_IDEMPOTENT,
	.input = OPTIONAL(INTERRUPT),
	.strict_input = INPUT("[\"session_id\"]", INTERRUPT),
	.output = interrupt_output,
	.call = cbx_tool_interrupt,
};

static const struct cbx_tool create_session = {
	.name = "create_session",
	.title = "Create a session",
	.description =
		"Make another session, with variables and files of its own: for other limits, or an id of your "
		"choice.",
	.hints = CBX_TOOL_MAKES_SESSION,
	.input = OPTIONAL(CREATE_SESSION),
	.output = session_output,
	.call = cbx_tool_create_session,
	.cancel = cbx_tool_cancel_create,
};

static const struct cbx_tool list_sessions = {
	.name = "list_sessions",
	.title = "List sessions",
	.description =
		"List all sessions, with state, age and time left.",
	.hints = CBX_TOOL_READ_ONLY | CBX_TOOL_IDEMPOTENT,
	.input = OPTIONAL(LIST_SESSIONS),
	.output = sessions_output,
	.call = cbx_tool_list_sessions,
};

static const struct cbx_tool session_info = {
	.name = "session_info",
	.title = "Look at a session",
	.description =
		"Describe one session: state, what runs in it, limits, time left, interpreter, protections.",
	.hints = CBX_TOOL_READ_ONLY | CBX_TOOL_IDEMPOTENT,
	.input = OPTIONAL(ONE_SESSION),
	.strict_input = INPUT("[\"session_id\"]", ONE_SESSION),
	.output = session_output,
	.call = cbx_tool_session_info,
};

static const struct cbx_tool close_session = {
	.name = "close_session",
	.title = "Close a session",
	.description =
		"End a session: its processes, variables and files are gone at once. Save what is needed "
		"first.",
	.hints = CBX_TOOL_DESTRUCTIVE | CBX_TOOL_IDEMPOTENT,
	.input = INPUT("[\"session_id\"]", ONE_SESSION),
	.output = closed_output,
	.call = cbx_tool_close_session,
};

static const struct cbx_tool restart = {
	.name = "restart",
	.title = "Restart the interpreter",
	.description =
		"Give a session a new interpreter: variables, imports and functions are gone; files, mounts and "
		"limits stay. For one that hangs, or to reload a changed module. Cells "
		"that run or wait are ended.",
	.hints = CBX_TOOL_DESTRUCTIVE | CBX_TOOL_IDEMPOTENT,
	.input = OPTIONAL(RESTART),
	.strict_input = INPUT("[\"session_id\"]", RESTART),
	.output = restarted_output,
	.call = cbx_tool_restart,
};

static const struct cbx_tool install_packages = {
	.name = "install_packages",
	.title = "Install packages",
	.description =
		"Install packages for a session: of PyPI, as %pip install does, npm:NAME or conda:NAME.",
	.hints = CBX_TOOL_OPEN_WORLD,
	.input = INPUT("[\"packages\"]", INSTALL_PACKAGES),
	.strict_input = INPUT("[\"session_id\",\"packages\"]", INSTALL_PACKAGES),
	.output = session_output,
	.call = cbx_tool_install_packages,
};

static const char rows_output[] = OUTPUT("[\"delivery\",\"row_count\"]",
JSON({"delivery":{"type":"string"},"row_count":{"type":"integer"}}));

static const struct cbx_tool run_sql = {
	.name = "run_sql",
	.title = "Ask a database",
	.description =
		"Run one read-only SQL statement on a SQLite or DuckDB file of the session, or a database of the "
		"policy. Many rows become a CSV file of the session.",
	.hints = CBX_TOOL_OPEN_WORLD,
	.input = INPUT("[\"query\"]", RUN_SQL),
	.strict_input = INPUT("[\"session_id\",\"query\"]", RUN_SQL),
	.output = rows_output,
	.call = cbx_tool_run_sql,
};

static const struct cbx_tool list_files = {
	.name = "list_files",
	.title = "List files",
	.description =
		"List one directory of a session, or with recursive all files below it.",
	.hints = CBX_TOOL_READ_ONLY | CBX_TOOL_IDEMPOTENT,
	.input = OPTIONAL(LIST_FILES),
	.strict_input = INPUT("[\"session_id\"]", LIST_FILES),
	.output = files_output,
	.call = cbx_tool_list_files,
};

static const struct cbx_tool read_file = {
	.name = "read_file",
	.title = "Read a file",
	.description =
		"Read a file of a session, or a range of it: text as text, PNG, JPEG, GIF and WebP as images, all "
		"else as base64. Where a large file continues, the answer says the next offset.",
	.hints = CBX_TOOL_READ_ONLY | CBX_TOOL_IDEMPOTENT,
	.input = INPUT("[\"path\"]", READ_FILE),
	.strict_input = INPUT("[\"session_id\",\"path\"]", READ_FILE),
	.output = read_output,
	.call = cbx_tool_read_file,
};

static const struct cbx_tool write_file = {
	.name = "write_file",
	.title = "Write a file",
	.description =
		"Write a file into a session, replacing it or adding to its end.",
	.hints = CBX_TOOL_DESTRUCTIVE,
	.input = INPUT("[\"path\",\"content\"]", WRITE_FILE),
	.strict_input = INPUT("[\"session_id\",\"path\",\"content\"]", WRITE_FILE),
	.output = written_output,
	.call = cbx_tool_write_file,
};

static const struct cbx_tool upload_file = {
	.name = "upload_file",
	.title = "Upload a file",
	.description =
		"Put a file of any kind, up to 16 MiB, into a session, where code can open it.",
	.hints = CBX_TOOL_DESTRUCTIVE | CBX_TOOL_IDEMPOTENT,
	.input = INPUT("[\"filename\"]", UPLOAD_FILE),
	.strict_input = INPUT("[\"session_id\",\"filename\"]", UPLOAD_FILE),
	.output = written_output,
	.call = cbx_tool_upload_file,
};

const struct cbx_tool *const cbx_tools[] = {
	&run_code,   &run_command,   &get_execution, &interrupt,  &create_session, &list_sessions, &session_info, &close_session,
	&restart,    &list_files,    &read_file,  &write_file,	   &upload_file,   &install_packages, &run_sql, NULL,
};
