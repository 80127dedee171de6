/* SPDX-License-Identifier: Apache-2.0 */
/* Files that say which packages somebody needs, names, versions and specifiers: what is taken from them is a requirement of
 * the index, and nothing else. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fuzz.h"
#include "packages/conda.h"
#include "packages/files.h"
#include "packages/kind.h"
#include "packages/npm.h"

static void judge_list(int r, const cJSON *list, const struct cbx_err *err)
{
	struct cbx_requirement q;
	struct cbx_err ignored;
	const cJSON *v;

	must(r >= 0 || (err->code && err->msg[0]));
	cJSON_ArrayForEach (v, list) {
		must(cbx_requirement_parse(v->valuestring, &q, &ignored) >= 0);
		must(cbx_plain(v->valuestring) && !strstr(v->valuestring, "://") && v->valuestring[0] != '-');
	}
}

static void judge_file(const char *name, const char *text)
{
	cJSON *list = cbx_json_new_arr();
	struct cbx_err err = { 0 };
	int r = strcmp(name, "x.py") == 0 ? cbx_requirements_of_script(name, text, list, &err) :
					    cbx_requirements_read(name, text, list, &err);

	judge_list(r, list, &err);
	cJSON_Delete(list);
}

static void judge_version(const char *text)
{
	struct cbx_version a, b;
	char name[CBX_PROJECT_MAX], again[CBX_PROJECT_MAX];

	if (cbx_project_name(text, strlen(text), name))
		must(cbx_project_name(name, strlen(name), again) && strcmp(name, again) == 0);
	if (cbx_version_parse(text, strlen(text), &a)) {
		must(cbx_version_compare(&a, &a) == 0);
		must(cbx_version_parse("1.0", 3, &b));
		must((cbx_version_compare(&a, &b) < 0) == (cbx_version_compare(&b, &a) > 0));
	}
	if (cbx_specifiers_valid(text))
		(void)cbx_specifiers_hold(text, "1.0");
}

static void judge_npm(const char *text)
{
	_cleanup_free_ char *asked = cbx_xasprintf(CBX_NPM "%s", text);
	struct cbx_requirement q, again;
	struct cbx_semver a, b;
	struct cbx_err err;

	if (cbx_semver_parse(text, strlen(text), &a)) {
		must(cbx_semver_compare(&a, &a) == 0);
		must(cbx_semver_parse("1.0.0-rc.1", 10, &b));
		must((cbx_semver_compare(&a, &b) < 0) == (cbx_semver_compare(&b, &a) > 0));
	}
	if (cbx_semver_holds(text, "1.2.3-rc.1", true))
		must(cbx_semver_range_valid(text));
	if (cbx_requirement_rule(asked, &q, &err) >= 0) {
		_cleanup_free_ char *said = cbx_xasprintf("%s%s", q.name, q.specifiers);

		must(cbx_kind_of(q.name) == CBX_KIND_NPM && cbx_npm_name(q.name + strlen(CBX_NPM), strlen(q.name + strlen(CBX_NPM))));
		must(cbx_requirement_rule(said, &again, &err) >= 0 && strcmp(again.specifiers, q.specifiers) == 0);
		(void)cbx_npm_holds(q.specifiers, "1.2.3", false);
	}
}

static void judge_conda(const char *text)
{
	_cleanup_free_ char *asked = cbx_xasprintf(CBX_CONDA "%s", text), *channel = cbx_conda_channel(text);
	struct cbx_conda_version a, b;
	struct cbx_requirement q, again;
	struct cbx_err err;

	if (cbx_conda_version_parse(text, strlen(text), &a)) {
		must(cbx_conda_version_compare(&a, &a) == 0);
		must(cbx_conda_version_parse("1.0rc1", 6, &b));
		must((cbx_conda_version_compare(&a, &b) < 0) == (cbx_conda_version_compare(&b, &a) > 0));
	}
	if (cbx_conda_spec_holds(text, "1.2.3rc1"))
		must(cbx_conda_spec_valid(text));
	if (cbx_requirement_rule(asked, &q, &err) >= 0) {
		_cleanup_free_ char *said = cbx_xasprintf("%s%s", q.name, q.specifiers);

		must(cbx_conda_name(cbx_kind_bare(q.name), strlen(cbx_kind_bare(q.name))));
		must(cbx_requirement_rule(said, &again, &err) >= 0 && strcmp(again.specifiers, q.specifiers) == 0);
		(void)cbx_conda_spec_holds(q.specifiers, "1.2.3");
	}
	if (channel)
		must(channel[strlen(channel) - 1] == '/' && !strstr(channel, ".."));
	(void)cbx_conda_within("https://h/c/", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	judge_file("x.txt", text);
	judge_file("x.toml", text);
	judge_file("x.py", text);
	judge_version(text);
	judge_npm(text);
	judge_conda(text);
	free(text);
	return 0;
}
