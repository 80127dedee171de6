/* SPDX-License-Identifier: Apache-2.0 */
/* codebox audit: whether an audit log of codeboxd is as it was written. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "observe/chain.h"

struct options {
	bool json;
	const char *head; /* "NUMBER:DIGEST" that has to be there; NULL: any */
	uint64_t head_seq;
	bool head_found;
};

static int parse_head(struct options *o)
{
	const char *colon = o->head ? strchr(o->head, ':') : NULL;
	_cleanup_free_ char *number = colon ? strndup(o->head, (size_t)(colon - o->head)) : NULL;
	struct cbx_err err;

	if (!o->head)
		return 0;
	if (!number || cbx_parse_u64(number, "--head", 1, 1ull << 53, &o->head_seq, &err) < 0 ||
	    strlen(colon + 1) != CBX_CHAIN_HEX || strspn(colon + 1, "0123456789abcdef") != CBX_CHAIN_HEX)
		return cbx_cli_usage("audit", "--head: give NUMBER:DIGEST as the log of codeboxd has it");
	return 0;
}

/* A line, with its place for errors. */
static int read_line(struct cbx_chain *c, struct options *o, const char *path, uint64_t number, const char *line,
		     size_t n, struct cbx_err *err)
{
	struct cbx_err broken;
	int r = cbx_chain_read(c, line, n, !c->lines, &broken);
	char digest[CBX_CHAIN_HEX + 1];

	if (r < 0)
		return cbx_refuse(err, "chain_broken", EBADMSG, "%s:%llu: %.400s", path, (unsigned long long)number,
				  broken.msg);
	if (!r || !o->head || c->seq != o->head_seq)
		return 0;
	cbx_sha256_hex(line, n, digest);
	if (strcmp(digest, strchr(o->head, ':') + 1) != 0)
		return cbx_refuse(err, "chain_broken", EBADMSG, "%s:%llu: line %llu is not the one of --head", path,
				  (unsigned long long)number, (unsigned long long)c->seq);
	o->head_found = true;
	return 0;
}

static int read_file(struct cbx_chain *c, struct options *o, const char *path, bool *ret_open, struct cbx_err *err)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	uint64_t number = 0;
	size_t size = 0;
	ssize_t n;

	if (!f)
		return cbx_refuse(err, "not_found", errno, "open %s: %s", path, strerror(errno));
	*ret_open = false;
	while ((n = getline(&line, &size, f)) > 0) {
		bool whole = line[n - 1] == '\n';

		if (*ret_open || (size_t)n > CBX_AUDIT_LINE_MAX)
			return cbx_refuse(err, "chain_broken", EBADMSG, "%s:%llu: this is not a line of an audit log",
					  path, (unsigned long long)number + 1);
		*ret_open = !whole;
		if (read_line(c, o, path, ++number, line, (size_t)n - whole, err) < 0)
			return -err->code;
	}
	return ferror(f) ? cbx_fail(err, errno, "read %s", path) : 0;
}

static int tell(const struct cbx_chain *c, const struct options *o, uint64_t first, bool open)
{
	_cleanup_json_ cJSON *j = NULL;
	char head[CBX_CHAIN_HEX + 1];

	cbx_chain_head(c, head);
	if (!o->json) {
		int r = cbx_cli_tell("%llu lines, from %llu to %llu, follow each other%s%s", (unsigned long long)c->lines,
				     (unsigned long long)first, (unsigned long long)c->seq,
				     c->torn ? "; a crash has cut off others" : "",
				     open ? ", the last of all without its end" : "");

		return r ? r : cbx_cli_tell("last line: %llu:%s", (unsigned long long)c->seq, head);
	}
	j = cbx_json_new_obj();
	cbx_json_set_u64(j, "lines", c->lines);
	cbx_json_set_u64(j, "first", first);
	cbx_json_set_u64(j, "last", c->seq);
	cbx_json_set_u64(j, "torn", c->torn);
	cbx_json_set_str(j, "head", head);
	return cbx_cli_print_json(j);
}

static int verify(struct options *o, char **paths, int n)
{
	struct cbx_chain c = { 0 };
	struct cbx_err err;
	bool open = false;

	if (!n)
		return cbx_cli_usage("audit", "missing argument: FILE");
	for (int i = 0; i < n; i++)
		if (read_file(&c, o, paths[i], &open, &err) < 0)
			return cbx_cli_fail(&err);
	if (!c.lines)
		return cbx_cli_refuse("chain_broken",
				      "%s has no line of an audit log; name one that codeboxd --audit has written",
				      paths[0]);
	if (o->head && !o->head_found)
		return cbx_cli_refuse("chain_broken",
				      "line %llu, which --head names, is missing: lines were removed at the end",
				      (unsigned long long)o->head_seq);
	return tell(&c, o, c.seq - c.lines + 1, open);
}

static int run_audit(int argc, char **argv)
{
	struct options o = { 0 };
	const struct cbx_cli_option options[] = { { "json", .flag = &o.json }, { "head", .value = &o.head }, { 0 } };
	int r = -cbx_cli_verb("audit", (const char *const[]){ "verify", NULL }, argc, argv);

	if (r == 0)
		r = cbx_cli_options("audit", argc - 1, argv + 1, options);
	if (r == 0)
		r = parse_head(&o);
	return r ? r : verify(&o, argv + 1 + optind, argc - 1 - optind);
}

static const char help[] =
	"Usage: codebox audit verify [--head NUMBER:DIGEST] [--json] FILE...\n"
	"\n"
	"Find out whether the audit log of a codeboxd (codeboxd --audit) is as it was written. Each line has the "
	"digest\n"
	"of the line before it, so a line that was changed, added or removed shows. Name the files of a rotated log "
	"in\n"
	"one command, the oldest first. codebox-audit(7) describes the lines.\n"
	"\n"
	"Options:\n"
	"  --head NUMBER:DIGEST  this line must be there, as the log of codeboxd or an earlier verify names it: else\n"
	"                        lines that were removed at the end do not show\n"
	"  --json                one line of JSON\n"
	"\n"
	"Exit status: 0, or 1 if the chain is broken; the message says where.\n"
	"\n"
	"Examples:\n"
	"  codebox audit verify /var/log/codebox-audit/audit.log.1 /var/log/codebox-audit/audit.log\n";

const struct cbx_command cbx_cmd_audit = { "audit", "whether an audit log is as it was written", help, run_audit };
