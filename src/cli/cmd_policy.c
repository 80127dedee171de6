/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: policies are read by the same code as codeboxd reads them, here; no daemon is asked, but to read
 * its own again. So a file can be checked before a server is given it, and on another machine.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "policy/policy.h"

struct options {
	const char *policy; /* NULL: the one that codeboxd would use */
	bool json;
	char **args;
	int nargs;
};

static int load(const struct cbx_dirs *dirs, const char *which, struct cbx_policy **ret, struct cbx_err *err)
{
	const char *asked = getenv("CODEBOX_POLICY");
	_cleanup_free_ char *standard = NULL;

	if (!which && asked && asked[0])
		which = asked;
	if (!which)
		which = standard = cbx_policy_standard(dirs->config);
	return cbx_policy_load(dirs->share, which, ret, err);
}

/* What is wrong with a file is said as compilers do, so that editors find the place. */
static int complain(const struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };

	if (strcmp(err->kind, "invalid_policy") != 0)
		return cbx_cli_fail(err);
	cbx_cli_print_error(err->kind, err->msg);
	cbx_escape(&line, err->msg);
	fprintf(stderr, "%s\n", cbx_buf_str(&line));
	return CBX_EXIT_FAILURE;
}

/* ---- check, show, schema ---- */

static int check(const struct cbx_dirs *dirs, const struct options *o)
{
	int status = CBX_EXIT_OK;

	if (!o->nargs)
		return cbx_cli_usage("policy", "check: give files, or names of shipped policies");
	for (int i = 0; i < o->nargs; i++) {
		struct cbx_policy *p = NULL;
		struct cbx_err err;

		if (cbx_policy_load(dirs->share, o->args[i], &p, &err) < 0)
			status = complain(&err);
		cbx_policy_free(p);
	}
	return status;
}

static int print_tree(const cJSON *tree, bool one_line)
{
	_cleanup_free_ char *text = one_line ? NULL : cJSON_Print(tree);
	int status;

	if (one_line)
		return cbx_cli_print_json(tree);
	if (!text)
		abort();
	status = cbx_cli_out(text, strlen(text));
	return status ? status : cbx_cli_out("\n", 1);
}

static int show(const struct cbx_dirs *dirs, const struct options *o)
{
	_cleanup_json_ cJSON *tree = NULL;
	struct cbx_policy *p;
	struct cbx_err err;

	if (o->nargs > 1)
		return cbx_cli_usage("policy", "show: give one policy");
	if (load(dirs, o->nargs ? o->args[0] : o->policy, &p, &err) < 0)
		return complain(&err);
	tree = cbx_policy_to_json(p);
	cbx_policy_free(p);
	return print_tree(tree, o->json);
}

static int schema(const struct cbx_dirs *dirs, const struct options *o)
{
	_cleanup_json_ cJSON *tree = cbx_policy_schema();

	if (o->nargs)
		return cbx_cli_usage("policy", "schema: unexpected argument");
	return print_tree(tree, o->json);
}

/* ---- explain ---- */

struct row {
	char key[64];
	struct cbx_buf value, max, from;
};

static void row_release(struct row *r)
{
	cbx_buf_release(&r->value);
	cbx_buf_release(&r->max);
	cbx_buf_release(&r->from);
}

static void put_row(struct cbx_buf *text, cJSON *list, const struct row *r)
{
	cJSON *o = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf line = { 0 };

	cbx_buf_addf(&line, "%-26s %-14s %-12s %s", r->key, cbx_buf_str(&r->value), cbx_buf_str(&r->max),
		     cbx_buf_str(&r->from));
	cbx_escape(text, cbx_buf_str(&line));
	cbx_buf_addc(text, '\n');
	cbx_json_set_str(o, "key", r->key);
	cbx_json_set_str(o, "value", cbx_buf_str(&r->value));
	if (r->max.len)
		cbx_json_set_str(o, "max", r->max.data);
	cbx_json_set_str(o, "from", cbx_buf_str(&r->from));
	cbx_json_push(list, o);
}

static void explain_setting(const struct cbx_policy *p, enum cbx_key key, const uint64_t *wanted, struct row *r)
{
	const struct cbx_policy_value *v = &p->values[key];
	uint64_t value;
	bool lowered = cbx_policy_settle(p, key, wanted != NULL, wanted ? *wanted : 0, &value);
	char text[48];

	snprintf(r->key, sizeof(r->key), "%s.%s", cbx_keys[key].group, cbx_keys[key].name);
	cbx_key_format(key, value, text);
	cbx_buf_adds(&r->value, text);
	cbx_key_format(key, v->ceiling, text);
	cbx_buf_adds(&r->max, text);
	if (lowered) {
		cbx_key_format(key, *wanted, text);
		cbx_buf_addf(&r->from, "request, lowered from %s by ", text);
		cbx_policy_origin(p, v->ceiling_from, &r->from);
	} else if (wanted) {
		cbx_buf_adds(&r->from, "request");
	} else {
		cbx_policy_origin(p, v->standard_from, &r->from);
	}
}

static void explain_packages(const struct cbx_policy *p, struct row *r)
{
	const struct {
		const char *name;
		const struct cbx_requirements *list;
	} lists[] = { { "allow", &p->packages.allow }, { "block", &p->packages.block }, { "versions", &p->packages.versions } };

	if (!p->packages.only)
		cbx_buf_adds(&r->value, "any");
	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		for (size_t i = 0; i < lists[k].list->n; i++)
			cbx_buf_addf(&r->value, "%s%s%s%s", i ? "," : r->value.len ? " " : "", i ? "" : lists[k].name,
				     i ? "" : ":", lists[k].list->all[i].name);
	if (p->index)
		cbx_buf_addf(&r->value, " from %s", p->index);
	if (p->registry)
		cbx_buf_addf(&r->value, " npm from %s", p->registry);
	for (size_t i = 0; i < p->nchannels; i++)
		cbx_buf_addf(&r->value, "%s%s", i ? "," : " conda from ", p->channels[i]);
	for (size_t i = 0; i < p->nadvisories; i++)
		cbx_buf_addf(&r->value, "%s%s", i ? "," : " advisories:", p->advisories[i]);
	cbx_policy_origin(p, p->packages_from, &r->from);
}

/* The lists with their lengths; their words are in the canonical form. */
static void explain_code(const struct cbx_policy *p, struct row *r)
{
	_cleanup_json_ cJSON *lists = cbx_json_new_obj();
	const cJSON *list;

	cbx_code_rules_to_json(p, lists);
	cJSON_ArrayForEach(list, lists)
		cbx_buf_addf(&r->value, "%s%s:%d", r->value.len ? "," : "", list->string, cJSON_GetArraySize(list));
	if (!r->value.len)
		cbx_buf_adds(&r->value, "nothing");
	cbx_policy_origin(p, p->code_from, &r->from);
}

static void explain_rest(const struct cbx_policy *p, struct cbx_buf *text, cJSON *list)
{
	struct row network = { .key = "network" }, images = { .key = "images" }, environment = { .key = "environment" };
	struct row mounts = { .key = "mounts.allow" }, packages = { .key = "packages" },
		   sql = { .key = "sql.connections" }, objects = { .key = "artifacts.store" }, code = { .key = "code" };
	const struct cbx_sql_connection *c;
	struct row *all[] = { &network, &images, &mounts, &packages, &sql, &objects, &code, &environment };

	cbx_network_print(&p->network, &network.value);
	cbx_policy_origin(p, p->network_from, &network.from);
	for (size_t i = 0; i < p->nimages; i++)
		cbx_buf_addf(&images.value, "%s%s", i ? "," : "", p->images[i]);
	if (!p->images)
		cbx_buf_adds(&images.value, "all");
	cbx_policy_origin(p, p->images_from, &images.from);
	for (size_t i = 0; i < p->nmounts; i++)
		cbx_buf_addf(&mounts.value, "%s%s%s", i ? "," : "", p->mounts[i].path,
			     p->mounts[i].writable ? ":rw" : "");
	if (!p->nmounts)
		cbx_buf_adds(&mounts.value, "nothing");
	cbx_policy_origin(p, p->mounts_from, &mounts.from);
	explain_packages(p, &packages);
	for (size_t i = 0; (c = cbx_sql_rules_nth(&p->sql, i)); i++)
		cbx_buf_addf(&sql.value, "%s%s", i ? "," : "", c->name);
	if (!sql.value.len)
		cbx_buf_adds(&sql.value, "none");
	cbx_policy_origin(p, p->sql_from, &sql.from);
	if (p->objects.json)
		cbx_buf_addf(&objects.value, "%s/%s", cbx_json_text(p->objects.json, "endpoint"),
			     cbx_json_text(p->objects.json, "bucket"));
	else
		cbx_buf_adds(&objects.value, "none");
	cbx_policy_origin(p, p->objects_from, &objects.from);
	explain_code(p, &code);
	for (size_t i = 0; i < p->environment.n; i++)
		cbx_buf_addf(&environment.value, "%s%s", i ? "," : "", p->environment.all[i].name);
	if (!p->environment.n)
		cbx_buf_adds(&environment.value, "nothing");
	cbx_policy_origin(p, p->environment_from, &environment.from);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		put_row(text, list, all[i]);
		row_release(all[i]);
	}
}

/* The "key=value" arguments: what a request would ask for. */
struct request {
	uint64_t wanted[CBX_KEYS];
	bool given[CBX_KEYS];
	const char *policy, *image;
};

static int parse_one(const char *arg, struct request *q, struct cbx_err *err)
{
	const char *eq = strchr(arg, '=');
	_cleanup_json_ cJSON *v = NULL;
	size_t n = eq ? (size_t)(eq - arg) : 0;

	if (!eq)
		return cbx_refuse(err, "invalid_argument", 22, "\"%.80s\": give KEY=VALUE, as in memory=4G", arg);
	if (n == 6 && memcmp(arg, "policy", n) == 0) {
		q->policy = eq + 1;
		return 0;
	}
	if (n == 5 && memcmp(arg, "image", n) == 0) {
		q->image = eq + 1;
		return 0;
	}
	for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
		if (strlen(cbx_keys[k].name) != n || memcmp(cbx_keys[k].name, arg, n) != 0 || cbx_keys[k].server_only)
			continue;
		v = cbx_key_from_text(k, eq + 1);
		q->given[k] = true;
		return cbx_key_parse(k, v, &q->wanted[k], err);
	}
	return cbx_refuse(err, "invalid_argument", 22, "%.*s: a request cannot set this key; set it in the policy",
			  (int)n, arg);
}

static int narrowed(const struct cbx_dirs *dirs, const struct request *q, struct cbx_policy **p, struct cbx_err *err)
{
	struct cbx_policy *named, *both;

	if (!q->policy)
		return 0;
	if (cbx_policy_load(dirs->share, q->policy, &named, err) < 0)
		return -err->code;
	both = cbx_policy_narrow(*p, named);
	cbx_policy_free(named);
	cbx_policy_free(*p);
	*p = both;
	return 0;
}

static int explain(const struct cbx_dirs *dirs, const struct options *o)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_json_ cJSON *tree = NULL;
	struct request q = { 0 };
	struct cbx_policy *p;
	struct cbx_err err;
	cJSON *list;
	int status;

	for (int i = 0; i < o->nargs; i++)
		if (parse_one(o->args[i], &q, &err) < 0)
			return cbx_cli_usage("policy", "%s", err.msg);
	if (load(dirs, o->policy, &p, &err) < 0)
		return complain(&err);
	if (narrowed(dirs, &q, &p, &err) < 0) {
		cbx_policy_free(p);
		return complain(&err);
	}
	tree = cbx_json_new_obj();
	list = cbx_json_new_arr();
	cbx_buf_addf(&text, "policy %s, digest %s\n%-26s %-14s %-12s %s\n", p->name, p->digest, "KEY", "VALUE",
		     "AT MOST", "FROM");
	for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
		struct row r = { .key = "" };

		explain_setting(p, k, q.given[k] ? &q.wanted[k] : NULL, &r);
		put_row(&text, list, &r);
		row_release(&r);
	}
	explain_rest(p, &text, list);
	cbx_json_set_str(tree, "policy", p->name);
	cbx_json_set_str(tree, "digest", p->digest);
	cbx_json_set(tree, "values", list);
	status = o->json ? cbx_cli_print_json(tree) : cbx_cli_out(text.data, text.len);
	if (status == CBX_EXIT_OK && q.image && !cbx_policy_image_allowed(p, q.image)) {
		cbx_cli_say("image %s is not among those that the policy allows", q.image);
		status = CBX_EXIT_FAILURE;
	}
	cbx_policy_free(p);
	return status;
}

/* ---- diff ---- */

static void print_setting(struct cbx_buf *out, enum cbx_key key, const cJSON *v)
{
	const cJSON *most = cbx_json_member(v, "max");
	const cJSON *standard = cJSON_IsObject(v) ? cbx_json_member(v, "default") : v;
	struct cbx_err ignored;
	uint64_t value;
	char text[48];

	if (cbx_key_parse(key, standard, &value, &ignored) >= 0) {
		cbx_key_format(key, value, text);
		cbx_buf_adds(out, text);
	}
	if (most && cbx_key_parse(key, most, &value, &ignored) >= 0) {
		cbx_key_format(key, value, text);
		cbx_buf_addf(out, ", at most %s", text);
	}
}

static void print_value(struct cbx_buf *out, const char *name, const cJSON *v)
{
	enum cbx_key key = 0;
	const char *dot = strchr(name, '.');

	while (key < CBX_KEYS && (!dot || strcmp(cbx_keys[key].name, dot + 1) != 0 ||
				  strncmp(cbx_keys[key].group, name, (size_t)(dot - name)) != 0))
		key++;
	if (!v)
		cbx_buf_adds(out, "-");
	else if (key < CBX_KEYS)
		print_setting(out, key, v);
	else
		cbx_json_print(out, v);
}

/* Members that differ, those of the first level of objects one by one. */
static int differences(struct cbx_buf *out, const cJSON *a, const cJSON *b, const char *prefix, int depth)
{
	int n = 0;

	for (int side = 0; side < 2; side++) {
		const cJSON *v, *from = side ? b : a;

		cJSON_ArrayForEach(v, from) {
			const cJSON *w = cbx_json_member(side ? a : b, v->string);
			_cleanup_free_ char *name = cbx_xasprintf("%s%s", prefix, v->string);
			_cleanup_buf_ struct cbx_buf line = { 0 }, value = { 0 };

			if (side ? w != NULL : cJSON_Compare(v, w, 1))
				continue;
			if (depth && cJSON_IsObject(v) && cJSON_IsObject(w)) {
				_cleanup_free_ char *deeper = cbx_xasprintf("%s.", name);

				n += differences(out, v, w, deeper, depth - 1);
				continue;
			}
			cbx_buf_addf(&line, "%-26s ", name);
			print_value(&value, name, side ? NULL : v);
			cbx_buf_addf(&line, "%-30s ", cbx_buf_str(&value));
			print_value(&line, name, side ? v : w);
			cbx_escape(out, line.data);
			cbx_buf_addc(out, '\n');
			n++;
		}
	}
	return n;
}

/* As a tree whose numbers are numbers: those of our own making are raw text. */
static cJSON *comparable(const struct cbx_policy *p)
{
	_cleanup_json_ cJSON *tree = cbx_policy_to_json(p);
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, tree);
	return cJSON_Parse(cbx_buf_str(&text));
}

static int diff(const struct cbx_dirs *dirs, const struct options *o)
{
	_cleanup_json_ cJSON *a = NULL, *b = NULL;
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct cbx_policy *p;
	struct cbx_err err;
	int n;

	if (o->nargs != 2)
		return cbx_cli_usage("policy", "diff: give two policies");
	for (int i = 0; i < 2; i++) {
		if (cbx_policy_load(dirs->share, o->args[i], &p, &err) < 0) {
			complain(&err);
			return CBX_EXIT_USAGE; /* 1 means that they differ, as with diff(1) */
		}
		*(i ? &b : &a) = comparable(p);
		cbx_policy_free(p);
	}
	n = differences(&out, a, b, "", 1);
	if (!n)
		return CBX_EXIT_OK;
	n = cbx_cli_out(out.data, out.len);
	return n ? n : CBX_EXIT_FAILURE;
}

/* ---- reload ---- */

static int tell_reloaded(const cJSON *answer)
{
	const char *name = "", *file = "", *digest = "";
	bool restart = false;
	uint64_t sessions = 0;
	struct cbx_err err;

	if (cbx_json_get_str(answer, "policy", &name, &err) < 0 || cbx_json_get_str(answer, "file", &file, &err) < 0 ||
	    cbx_json_get_str(answer, "digest", &digest, &err) < 0 ||
	    cbx_json_get_u64(answer, "sessions", 0, UINT32_MAX, &sessions, &err) < 0 ||
	    cbx_json_get_bool(answer, "mounts_need_restart", &restart, &err) < 0)
		return cbx_cli_fail(&err);
	cbx_cli_say("policy %s (%s), digest %.12s, is in force for new sessions; %llu keep%s what they have", name, file,
		    digest, (unsigned long long)sessions, sessions == 1 ? "s" : "");
	if (!restart)
		return CBX_EXIT_OK;
	cbx_cli_say("mounts, which it allows, need a restart: codeboxd was started with a policy that allows none; run "
		    "codebox stop");
	return CBX_EXIT_FAILURE;
}

static int reload(const struct cbx_dirs *dirs, const struct options *o)
{
	_cleanup_json_ cJSON *answer = NULL;
	struct cbx_client c;
	struct cbx_err err;
	int r;

	if (o->nargs || o->policy)
		return cbx_cli_usage("policy",
				     "reload takes no policy: codeboxd reads the policy that it was started with");
	r = cbx_cli_client(false, &c, &err);
	if (r < 0)
		return cbx_cli_fail(&err);
	if (r == 0) {
		cbx_cli_say("codeboxd is not running; it reads the policy when it starts");
		return CBX_EXIT_OK;
	}
	r = cbx_client_call(&c, "policy.reload", NULL, &answer, &err);
	cbx_client_close(&c);
	if (r < 0)
		return complain(&err);
	if (o->json && (r = cbx_cli_print_json(answer)) != 0)
		return r;
	return tell_reloaded(answer);
}

/* ---- the command ---- */

static int run_policy(int argc, char **argv)
{
	static const char *const verbs[] = { "check", "show", "explain", "diff", "schema", "reload", NULL };
	static int (*const fns[])(const struct cbx_dirs *, const struct options *) = { check, show,   explain,
										       diff,  schema, reload };
	struct options o = { 0 };
	const struct cbx_cli_option options[] = { { "json", .flag = &o.json },
						  { "policy", .value = &o.policy },
						  { 0 } };
	struct cbx_dirs dirs;
	struct cbx_err err;
	int verb = cbx_cli_verb("policy", verbs, argc, argv), r;

	r = verb < 0 ? -verb : cbx_cli_options("policy", argc - 1, argv + 1, options);
	if (r)
		return r;
	o.args = argv + 1 + optind;
	o.nargs = argc - 1 - optind;
	if (cbx_dirs_init(&dirs, &err) < 0)
		return cbx_cli_fail(&err);
	r = fns[verb](&dirs, &o);
	cbx_dirs_release(&dirs);
	return r;
}

static const char help[] =
	"Usage: codebox policy check POLICY...\n"
	"       codebox policy show [--json] [POLICY]\n"
	"       codebox policy explain [--policy POLICY] [--json] [KEY=VALUE...]\n"
	"       codebox policy diff POLICY POLICY\n"
	"       codebox policy schema\n"
	"       codebox policy reload [--json]\n"
	"\n"
	"A policy says what sessions get when they do not ask, and the most that they get when they do: memory,\n"
	"time, images, isolation and so on. POLICY is the name of a shipped one (default, strict, net, dev), or the\n"
	"path of a file, which has a slash or ends in .json. codebox-policy(5) describes the files.\n"
	"\n"
	"  check     read policies; say file, line and column of what is wrong\n"
	"  show      every value, as one policy without comments and includes; codeboxd's own when none is named\n"
	"  explain   every value that a session would get, and where it comes from; KEY=VALUE are what the session\n"
	"            would ask for\n"
	"  diff      what differs between two policies; exit status 1 when something does\n"
	"  schema    the JSON Schema of policy files, for editors\n"
	"  reload    have codeboxd read its policy again: for sessions made from then on; live sessions keep\n"
	"            what they have, and a policy with a fault leaves the old one in force\n"
	"\n"
	"codeboxd reads its policy when it starts, and again by codebox policy reload: codeboxd --policy POLICY,\n"
	"else CODEBOX_POLICY, else ~/.config/codebox/policy.json, else /etc/codebox/policy.json, else the shipped\n"
	"default.\n"
	"\n"
	"Options:\n"
	"  --policy POLICY  explain: this one instead of codeboxd's own\n"
	"  --json           one line of JSON; of show, what the digest of a session's policy is made of:\n"
	"                   codebox policy show --json | sha256sum\n"
	"\n"
	"Examples:\n"
	"  codebox policy check ~/.config/codebox/policy.json\n"
	"  codebox policy explain memory=16G timeout=30m\n"
	"  codebox policy explain --policy strict\n"
	"  codebox policy diff default strict\n"
	"  codebox policy reload\n";

const struct cbx_command cbx_cmd_policy = {
	.name = "policy",
	.summary = "check, show and explain what sessions may have",
	.help = help,
	.run = run_policy,
};
