/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: tokens.json lies beside tenants.json and is this command's alone. It is read, changed, and put
 * in place as a whole; then a codeboxd that runs is asked to read it. The secret is on standard output, once, and
 * nowhere else: the file has its digest.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/confile.h"
#include "tenant/tenant.h"

#define LOCK_TRIES 60 /* in three seconds */

struct options {
	bool json;
	const char *tenant, *name, *scope, *expires, *file;
	char **args;
	int nargs;
};

struct files {
	int lock; /* on their directory: two commands at once change them one behind the other */
	char *tenants_path, *tokens_path;
	struct cbx_tenants tenants;
	struct cbx_confile file;
	struct cbx_tokens tokens;
};

static void files_release(struct files *f)
{
	cbx_close_p(&f->lock);
	free(f->tenants_path);
	free(f->tokens_path);
	cbx_tenants_release(&f->tenants);
	cbx_confile_release(&f->file);
	cbx_tokens_release(&f->tokens);
}

/* Whoever can read the directory can hold the lock, so it is not waited for without end. */
static int lock(struct files *f, struct cbx_err *err)
{
	const struct timespec step = { .tv_nsec = 50000000 };
	_cleanup_free_ char *dir = cbx_xstrdup(f->tokens_path);
	char *end = strrchr(dir, '/');

	if (end)
		end[end == dir] = '\0';
	f->lock = open(end ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->lock < 0)
		return cbx_fail(err, errno, "open the directory of %s", f->tokens_path);
	for (int i = 0; flock(f->lock, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return cbx_fail(err, errno, "lock the directory of %s", f->tokens_path);
		if (i >= LOCK_TRIES)
			return cbx_refuse(err, "busy", EBUSY,
					  "another program holds a lock on the directory of %s; find it (lsof), and end it",
					  f->tokens_path);
		(void)nanosleep(&step, NULL);
	}
	return 0;
}

static int files_open(struct files *f, const struct cbx_dirs *dirs, const struct options *o, struct cbx_err *err)
{
	const char *asked = o->file ? o->file : getenv("CODEBOX_TENANTS");
	int r;

	memset(f, 0, sizeof(*f));
	f->lock = -1;
	cbx_tenants_init(&f->tenants);
	f->tenants_path = asked && asked[0] ? cbx_xstrdup(asked) : cbx_xasprintf("%s/tenants.json", dirs->config);
	f->tokens_path = cbx_tokens_path(f->tenants_path);
	r = cbx_tenants_load(&f->tenants, f->tenants_path, dirs->share, err);
	if (r == -ENOENT)
		return cbx_refuse(err, "no_tenants", ENOENT,
				  "there are no tenants: %s is missing; make it, as codebox-tenants(5) says",
				  f->tenants_path);
	if (r >= 0)
		r = lock(f, err);
	if (r >= 0)
		r = cbx_confile_read(&f->file, f->tokens_path, err);
	if (r >= 0 && f->file.exists)
		r = cbx_tokens_parse(f->file.text.data, f->file.text.len, f->tokens_path, &f->tokens, err);
	return r;
}

/* The first time: what root makes the service id must be able to read. */
static int make_empty(struct files *f, struct cbx_err *err)
{
	static const char empty[] = "{ \"tokens\": [] }\n";
	_cleanup_fd_ int fd = -1;
	struct cbx_service service;
	int r;

	if (cbx_service_init(&service, err) < 0)
		return -err->code;
	fd = open(f->tokens_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return cbx_fail(err, errno, "make %s", f->tokens_path);
	if (service.from_root && (fchown(fd, 0, service.gid) < 0 || fchmod(fd, 0640) < 0))
		return cbx_fail(err, errno, "let codeboxd read %s", f->tokens_path);
	r = cbx_write_all(fd, empty, strlen(empty));
	if (r < 0)
		return cbx_fail(err, -r, "write %s", f->tokens_path);
	cbx_confile_release(&f->file);
	return cbx_confile_read(&f->file, f->tokens_path, err);
}

static int save(struct files *f, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_free_ char *backup = NULL;
	int r = f->file.exists ? 0 : make_empty(f, err);

	if (r < 0)
		return r;
	cbx_tokens_print(&f->tokens, &text);
	r = cbx_confile_replace(&f->file, text.data, text.len, err);
	backup = cbx_confile_backup_path(&f->file);
	(void)unlink(backup); /* what was revoked is not to be had again by a slip */
	return r;
}

/* What was changed counts from now on, if codeboxd runs; else from its start on. */
static void have_it_read(void)
{
	_cleanup_json_ cJSON *answer = NULL;
	struct cbx_client c;
	struct cbx_err err;
	int r = cbx_cli_client(false, &c, &err);

	if (r > 0) {
		r = cbx_client_call(&c, "tenants.reload", NULL, &answer, &err);
		cbx_client_close(&c);
	}
	if (r < 0)
		cbx_cli_say("codeboxd has not read it (%s); send it SIGHUP", err.msg);
}

/* ---- verbs ---- */

static int describe(const struct options *o, struct cbx_token *t, struct cbx_err *err)
{
	uint64_t ms;

	if (o->name && !cbx_name_valid(o->name))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "--name: \"%.80s\" is not a name; use letters, digits, \"_\", \".\" and \"-\"",
				  o->name);
	snprintf(t->tenant, sizeof(t->tenant), "%s", o->tenant);
	snprintf(t->name, sizeof(t->name), "%s", o->name ? o->name : "");
	t->scopes = CBX_SCOPES_USUAL;
	if (o->scope && cbx_scopes_parse(o->scope, &t->scopes, err) < 0)
		return -err->code;
	t->created = time(NULL);
	if (!o->expires)
		return 0;
	if (cbx_parse_duration_ms(o->expires, "--expires", 1000, 1000ull * 86400 * 36500, &ms, err) < 0)
		return -err->code;
	t->expires = t->created + (int64_t)(ms / 1000);
	return 0;
}

static cJSON *token_json(const struct cbx_token *t)
{
	cJSON *o = cbx_token_json(t);

	if (t->expires)
		cbx_json_set_bool(o, "expired", t->expires <= time(NULL));
	return o;
}

static int create(struct files *f, const struct options *o)
{
	_cleanup_json_ cJSON *shown = NULL;
	char text[CBX_TOKEN_TEXT + 1], id[CBX_TOKEN_ID + 1];
	struct cbx_token like = { 0 };
	struct cbx_err err;
	int r;

	if (!o->tenant)
		return cbx_cli_usage("token", "missing option: --tenant");
	if (o->nargs)
		return cbx_cli_usage("token", "unexpected argument: %s", o->args[0]);
	if (!cbx_tenants_find(&f->tenants, o->tenant))
		return cbx_cli_refuse("no_such_tenant", "there is no tenant \"%.80s\" in %s; add it there", o->tenant,
				      f->tenants_path);
	if (describe(o, &like, &err) < 0 || cbx_tokens_make(&f->tokens, &like, text, &err) < 0 || save(f, &err) < 0)
		return cbx_cli_fail(&err);
	snprintf(id, sizeof(id), "%.*s", CBX_TOKEN_ID, text + 4);
	have_it_read();
	if (o->json) {
		shown = token_json(cbx_tokens_by_id(&f->tokens, id));
		cbx_json_set_str(shown, "token", text);
		r = cbx_cli_print_json(shown);
	} else {
		r = cbx_cli_tell("%s", text);
		cbx_cli_say("token %s of tenant %s (%s): keep it, since it is not shown again", id, o->tenant,
			    cbx_scopes_name(like.scopes));
	}
	explicit_bzero(text, sizeof(text));
	return r;
}

static int list(struct files *f, const struct options *o)
{
	_cleanup_json_ cJSON *all = cbx_json_new_obj();
	cJSON *tokens = cbx_json_new_arr();
	int r = 0;

	cbx_json_set(all, "tokens", tokens);
	if (o->nargs)
		return cbx_cli_usage("token", "unexpected argument: %s", o->args[0]);
	for (size_t i = 0; i < f->tokens.n && !r; i++) {
		const struct cbx_token *t = &f->tokens.all[i];
		char when[32] = "never";

		if (o->tenant && strcmp(o->tenant, t->tenant) != 0)
			continue;
		if (t->expires)
			cbx_format_time(t->expires, when);
		cbx_json_push(tokens, token_json(t));
		if (!o->json)
			r = cbx_cli_tell("%s  %-20s  %-8s  %-20s  %s%s", t->id, t->tenant, cbx_scopes_name(t->scopes),
					 when, t->name, t->expires && t->expires <= time(NULL) ? " (expired)" : "");
	}
	return o->json ? cbx_cli_print_json(all) : r;
}

static int revoke_all(struct files *f, const struct options *o)
{
	struct cbx_err err;

	if (!o->nargs)
		return cbx_cli_usage("token", "missing argument: the id of a token; codebox token list has them");
	for (int i = 0; i < o->nargs; i++)
		if (!cbx_tokens_revoke(&f->tokens, o->args[i]))
			return cbx_cli_refuse(
				"no_such_token",
				"there is no token \"%.80s\", and none was revoked; see codebox token list",
				o->args[i]);
	if (save(f, &err) < 0)
		return cbx_cli_fail(&err);
	have_it_read();
	return CBX_EXIT_OK;
}

/* ---- the command ---- */

static int run_token(int argc, char **argv)
{
	static const char *const verbs[] = { "create", "list", "revoke", NULL };
	static int (*const fns[])(struct files *, const struct options *) = { create, list, revoke_all };
	struct options o = { 0 };
	const struct cbx_cli_option options[] = { { "json", .flag = &o.json },
						  { "tenant", .value = &o.tenant },
						  { "name", .value = &o.name },
						  { "scope", .value = &o.scope },
						  { "expires", .value = &o.expires },
						  { "tenants", .value = &o.file },
						  { 0 } };
	struct cbx_dirs dirs;
	struct cbx_err err;
	struct files f;
	int verb = cbx_cli_verb("token", verbs, argc, argv), r;

	r = verb < 0 ? -verb : cbx_cli_options("token", argc - 1, argv + 1, options);
	if (r)
		return r;
	o.args = argv + 1 + optind;
	o.nargs = argc - 1 - optind;
	if (cbx_dirs_init(&dirs, &err) < 0)
		return cbx_cli_fail(&err);
	r = files_open(&f, &dirs, &o, &err) < 0 ? cbx_cli_fail(&err) : fns[verb](&f, &o);
	files_release(&f);
	cbx_dirs_release(&dirs);
	return r;
}

static const char help[] =
	"Usage: codebox token create --tenant TENANT [--name NAME] [--scope SCOPE] [--expires TIME] [--json]\n"
	"       codebox token list [--tenant TENANT] [--json]\n"
	"       codebox token revoke ID...\n"
	"\n"
	"Tokens let the clients of a tenant use codeboxd over HTTP. tenants.json has the tenants, with what each may\n"
	"have; codebox-tenants(5) describes it. The tokens are in tokens.json beside it, as digests. A codeboxd that\n"
	"runs reads both anew.\n"
	"\n"
	"  create    make a token and print it: this is the only time that it is shown\n"
	"  list      id, tenant, scope, expiry and name of each token\n"
	"  revoke    tokens with these ids are not valid from now on; their connections end\n"
	"\n"
	"Options:\n"
	"  --tenant TENANT  whose token; list: those of this tenant\n"
	"  --name NAME      what to call it in the list\n"
	"  --scope SCOPE    read (look at sessions, executions and files), run (everything else), metrics (/metrics, "
	"of\n"
	"                   all tenants), or several with commas between; read,run if omitted\n"
	"  --expires TIME   after this time it is not valid, such as 12h or 90d; if omitted, it is valid until "
	"revoked\n"
	"  --tenants FILE   tenants.json itself; if omitted, CODEBOX_TENANTS, else ~/.config/codebox/tenants.json\n"
	"                   (as root: /etc/codebox/tenants.json)\n"
	"  --json           one line of JSON\n"
	"\n"
	"Examples:\n"
	"  codebox token create --tenant research --name ci --expires 90d\n"
	"  codebox token list --tenant research\n"
	"  codebox token revoke k3v6m2qa\n";

const struct cbx_command cbx_cmd_token = {
	.name = "token",
	.summary = "let tenants use codeboxd over HTTP",
	.help = help,
	.run = run_token,
};
