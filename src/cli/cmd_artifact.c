/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each verb is one request, but for get, which asks for pieces. A file is written under a name of
 * its own beside its place, and then renamed: what is there is whole. Names come from sessions: none of them chooses
 * where a file goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"

struct options {
	bool json, all;
	uint64_t expires_ms;
	char **names;
	int n;
};

static int take_expires(void *ret_ms, const char *text)
{
	struct cbx_err err;

	return cbx_parse_duration_ms(text, "--expires", 1000, 365ull * 86400 * 1000, ret_ms, &err) < 0
		       ? cbx_cli_usage("artifact", "%s", err.msg)
		       : 0;
}

static cJSON *id_params(const char *id)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "artifact_id", id);
	return params;
}

static void print_one(struct cbx_buf *out, const cJSON *a)
{
	double left = cbx_json_number(a, "expires", 0) - (double)time(NULL);
	char size[32], when[24];

	cbx_format_size((uint64_t)cbx_json_number(a, "size", 0), size);
	if (left < 7200)
		snprintf(when, sizeof(when), "%.0fm", left < 0 ? 0 : left / 60);
	else if (left < 172800)
		snprintf(when, sizeof(when), "%.0fh", left / 3600);
	else
		snprintf(when, sizeof(when), "%.0fd", left / 86400);
	cbx_escape(out, cbx_json_str(a, "artifact_id"));
	cbx_buf_addf(out, "  %10s %7s  ", size, when);
	cbx_escape(out, cbx_json_str(a, "session_id"));
	cbx_buf_addc(out, ':');
	cbx_escape(out, cbx_json_str(a, "path"));
	cbx_buf_addc(out, '\n');
}

static int list(struct cbx_client *client, const struct options *o)
{
	_cleanup_json_ cJSON *result = NULL;
	_cleanup_buf_ struct cbx_buf out = { 0 };
	const cJSON *all, *a;
	struct cbx_err err;

	if (o->n)
		return cbx_cli_usage("artifact", "list takes no names");
	if (cbx_client_call(client, "artifact.list", NULL, &result, &err) < 0)
		return cbx_cli_fail(&err);
	if (o->json)
		return cbx_cli_print_json(result);
	all = cbx_json_member(result, "artifacts");
	if (!cJSON_GetArraySize(all)) {
		cbx_cli_say("there are no artifacts; they are kept if the policy says so (artifacts.keep)");
		return CBX_EXIT_OK;
	}
	cbx_buf_addf(&out, "%-26s  %10s %7s  %s\n", "ARTIFACT", "SIZE", "LEFT", "FILE");
	cJSON_ArrayForEach(a, all)
		print_one(&out, a);
	return cbx_cli_out(out.data, out.len);
}

/* ---- get ---- */

static int fetch(struct cbx_client *client, const char *id, int fd, struct cbx_err *err)
{
	uint64_t at = 0, size = 0;

	do {
		_cleanup_json_ cJSON *result = NULL, *params = id_params(id);
		_cleanup_buf_ struct cbx_buf bytes = { 0 };
		const char *data;
		int r;

		cbx_json_set_u64(params, "offset", at);
		cbx_json_set_u64(params, "length", 1ull << 20);
		if (cbx_client_call(client, "artifact.read", take_ptr(&params), &result, err) < 0)
			return -err->code;
		size = (uint64_t)cbx_json_number(result, "size", 0);
		data = cbx_json_str(result, "data");
		if (cbx_base64_decode(&bytes, data, strlen(data)) < 0 || (!bytes.len && at < size) || bytes.len > size - at)
			return cbx_refuse(err, "bad_answer", EBADMSG, "%s: codeboxd sent something else than was asked for", id);
		r = cbx_write_all(fd, bytes.data, bytes.len);
		if (r < 0)
			return cbx_fail(err, -r, "write what was fetched");
		at += bytes.len;
	} while (at < size);
	return 0;
}

static int get(struct cbx_client *client, const struct options *o)
{
	const char *to = o->n == 2 ? o->names[1] : "-";
	_cleanup_free_ char *part = NULL;
	_cleanup_fd_ int fd = -1;
	struct cbx_err err;
	mode_t mask;
	int r;

	if (o->n != 1 && o->n != 2)
		return cbx_cli_usage("artifact", "get: give the ID of an artifact, and a file to write, or - for standard output");
	if (strcmp(to, "-") == 0)
		return fetch(client, o->names[0], STDOUT_FILENO, &err) < 0 ? cbx_cli_fail(&err) : CBX_EXIT_OK;
	part = cbx_xasprintf("%s.%d.part", to, (int)getpid());
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		cbx_fail(&err, errno, "%s", part);
		return cbx_cli_fail(&err);
	}
	mask = umask(0);
	umask(mask);
	r = fetch(client, o->names[0], fd, &err);
	if (r >= 0 && (fchmod(fd, 0666 & ~mask) < 0 || rename(part, to) < 0))
		r = cbx_fail(&err, errno, "%s", to);
	if (r < 0)
		(void)unlink(part);
	return r < 0 ? cbx_cli_fail(&err) : CBX_EXIT_OK;
}

/* ---- link, rm ---- */

static int print_link(struct cbx_client *client, const struct options *o)
{
	_cleanup_json_ cJSON *result = NULL, *params = NULL;
	struct cbx_err err;

	if (o->n != 1)
		return cbx_cli_usage("artifact", "link: give the ID of one artifact");
	params = id_params(o->names[0]);
	if (o->expires_ms)
		cbx_json_set_u64(params, "length", o->expires_ms / 1000);
	if (cbx_client_call(client, "artifact.link", take_ptr(&params), &result, &err) < 0)
		return cbx_cli_fail(&err);
	return o->json ? cbx_cli_print_json(result) : cbx_cli_tell("%s", cbx_json_str(result, "link"));
}

static int remove_one(struct cbx_client *client, const char *id)
{
	struct cbx_err err;

	return cbx_client_call(client, "artifact.remove", id_params(id), NULL, &err) < 0 ? cbx_cli_fail(&err) : CBX_EXIT_OK;
}

static int rm(struct cbx_client *client, const struct options *o)
{
	_cleanup_json_ cJSON *result = NULL;
	int status = CBX_EXIT_OK, r;
	struct cbx_err err;
	const cJSON *a;

	if (o->all == (o->n > 0))
		return cbx_cli_usage("artifact", "rm: give the IDs of artifacts, or --all");
	if (o->all && cbx_client_call(client, "artifact.list", NULL, &result, &err) < 0)
		return cbx_cli_fail(&err);
	cJSON_ArrayForEach(a, cbx_json_member(result, "artifacts"))
		status = (r = remove_one(client, cbx_json_str(a, "artifact_id"))) ? r : status;
	for (int i = 0; i < o->n; i++)
		status = (r = remove_one(client, o->names[i])) ? r : status;
	return status;
}

static int run_artifact(int argc, char **argv)
{
	static const char *const verbs[] = { "list", "get", "link", "rm", NULL };
	static int (*const fns[])(struct cbx_client *, const struct options *) = { list, get, print_link, rm };
	struct options o = { 0 };
	const struct cbx_cli_option options[] = { { "json", .flag = &o.json },
						  { "all", .flag = &o.all },
						  { "expires", .take = take_expires, .arg = &o.expires_ms },
						  { 0 } };
	struct cbx_client client;
	struct cbx_err err;
	int verb = argc > 1 && strcmp(argv[1], "ls") == 0 ? 0 : cbx_cli_verb("artifact", verbs, argc, argv), r;

	r = verb < 0 ? -verb : cbx_cli_options("artifact", argc - 1, argv + 1, options);
	if (r)
		return r;
	o.names = argv + 1 + optind;
	o.n = argc - 1 - optind;
	if (cbx_cli_client(true, &client, &err) <= 0)
		return cbx_cli_fail(&err);
	r = fns[verb](&client, &o);
	cbx_client_close(&client);
	return r;
}

static const char help[] =
	"Usage: codebox artifact list [--json]\n"
	"       codebox artifact get ID [FILE]\n"
	"       codebox artifact link [--expires TIME] [--json] ID\n"
	"       codebox artifact rm ID...\n"
	"       codebox artifact rm --all\n"
	"\n"
	"An artifact is a file that a cell made and that is kept after its session, for as long as the policy says\n"
	"(artifacts.keep; by default nothing is kept).\n"
	"\n"
	"get writes it to FILE, or to standard output. link prints an address from which anyone who has the link can\n"
	"fetch the file until the link expires; codeboxd must serve HTTP for that.\n"
	"\n"
	"Options:\n"
	"  --json          one line of JSON\n"
	"  --expires TIME  how long the link is good: 90s, 15m, 2h; at most what the policy allows, which is also what\n"
	"                  it gets if omitted\n"
	"  --all           every artifact\n"
	"\n"
	"Examples:\n"
	"  codebox artifact list\n"
	"  codebox artifact get abcdefghijklmnopqrstuvwxyz plot.png\n"
	"  codebox artifact link --expires 15m abcdefghijklmnopqrstuvwxyz\n";

const struct cbx_command cbx_cmd_artifact = {
	.name = "artifact",
	.summary = "files that are kept after their sessions: list, fetch, link to and remove them",
	.help = help,
	.run = run_artifact,
};
