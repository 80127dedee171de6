/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

/* As in sandbox/plan.h. */
static const char *const profiles[] = { "strict", "default", "net", "dev", NULL };
static const char *const zygote_words[] = { "off", "auto", NULL };
static const char *const cgroup_words[] = { "required", "auto", NULL };
static const char *const advisory_words[] = { "refuse", "warn", NULL };
static const char *const landlock_modes[] = { "required", "auto", "off", NULL };

const struct cbx_key_info cbx_keys[CBX_KEYS] = {
	[CBX_KEY_MEMORY] = { "limits", "memory", CBX_TYPE_SIZE, CBX_MEMORY_MIN, CBX_MEMORY_MAX, CBX_MEMORY_DEFAULT,
			     CBX_MEMORY_MAX, .part = 50, .text = "Memory of the session" },
	[CBX_KEY_DISK] = { "limits", "disk", CBX_TYPE_SIZE, CBX_DISK_MIN, CBX_DISK_MAX, CBX_DISK_DEFAULT, CBX_DISK_MAX,
			   .part = 50, .text = "Space for the session's files" },
	[CBX_KEY_PROCESSES] = { "limits", "processes", CBX_TYPE_COUNT, 8, CBX_PROCESSES_MAX, CBX_PROCESSES_DEFAULT,
				CBX_PROCESSES_CEILING, .text = "Most processes and threads at once" },
	[CBX_KEY_TIMEOUT] = { "limits", "timeout", CBX_TYPE_DURATION, 1, CBX_TIMEOUT_MAX_MS, CBX_TIMEOUT_DEFAULT_MS,
			      CBX_TIMEOUT_MAX_MS, .text = "Time limit of each cell; a cell may ask for another one" },
	[CBX_KEY_TTL] = { "limits", "ttl", CBX_TYPE_DURATION, 1000, CBX_TTL_MAX_S * 1000ull,
			  CBX_TTL_DEFAULT_S * 1000ull, CBX_TTL_MAX_S * 1000ull,
			  .text = "The session is closed when it is this old" },
	[CBX_KEY_IDLE_TIMEOUT] = { "limits", "idle_timeout", CBX_TYPE_DURATION, 1000, CBX_TTL_MAX_S * 1000ull,
				   CBX_IDLE_DEFAULT_S * 1000ull, CBX_TTL_MAX_S * 1000ull,
				   .text = "The session is closed when it was not used for this long" },
	[CBX_KEY_SESSIONS] = { "limits", "sessions", CBX_TYPE_COUNT, 1, CBX_SESSIONS_LIMIT, CBX_SESSIONS_MAX,
			       CBX_SESSIONS_MAX, .server_only = true, .text = "Most sessions at once" },
	[CBX_KEY_MEMORY_TOGETHER] = { "limits", "memory_together", CBX_TYPE_SIZE, CBX_MEMORY_MIN,
				      CBX_MEMORY_TOGETHER_MAX, 0, 0, .part = 50, .zero_is_none = true,
				      .server_only = true, .text = "Memory of all sessions together" },
	[CBX_KEY_PROFILE] = { "isolation", "profile", CBX_TYPE_WORD, 0, 3, 1, 3, .words = profiles,
			      .text = "Which system calls there are: strict for computing only, dev for debuggers "
				      "too" },
	[CBX_KEY_CPUS] = { "limits", "cpus", CBX_TYPE_DECIMAL, CBX_CPUS_MILLI_MIN, CBX_CPUS_MILLI_MAX, 0, 0,
			   .zero_is_none = true, .text = "Processors that the session may keep busy" },
	[CBX_KEY_CPU_WEIGHT] = { "limits", "cpu_weight", CBX_TYPE_COUNT, 1, CBX_CPU_WEIGHT_MAX, CBX_CPU_WEIGHT_DEFAULT,
				 CBX_CPU_WEIGHT_DEFAULT,
				 .text = "The session's share of busy processors beside others, who have 100" },
	[CBX_KEY_IO] = { "limits", "io", CBX_TYPE_SIZE, CBX_IO_MIN, CBX_IO_MAX, 0, 0, .zero_is_none = true,
			 .text = "Bytes a second that the session may read from a disk, and write to it" },
	[CBX_KEY_IO_OPERATIONS] = { "limits", "io_operations", CBX_TYPE_COUNT, CBX_IO_OPERATIONS_MIN,
				    CBX_IO_OPERATIONS_MAX, 0, 0, .zero_is_none = true,
				    .text = "Reads from a disk a second, and writes to it" },
	[CBX_KEY_HISTORY] = { "limits", "history", CBX_TYPE_SIZE, 0, CBX_HISTORY_MAX, CBX_HISTORY_DEFAULT,
			      CBX_HISTORY_DEFAULT, .server_only = true,
			      .text = "Bytes of a session's cells and their outputs that are kept for its export; 0: "
				      "none can be made" },
	[CBX_KEY_RESULTS] = { "limits", "results", CBX_TYPE_SIZE, 0, CBX_RESULTS_MAX, CBX_ENDED_MEMORY_MAX,
			      CBX_ENDED_MEMORY_MAX, .server_only = true,
			      .text = "Bytes of the results of a session's ended cells; more: the oldest are "
				      "forgotten, but "
				      "not the last" },
	[CBX_KEY_RESULTS_COUNT] = { "limits", "results_count", CBX_TYPE_COUNT, 1, CBX_RESULTS_COUNT_MAX,
				    CBX_FINISHED_MAX, CBX_FINISHED_MAX, .server_only = true,
				    .text = "Ended cells of a session whose results are kept; more: the oldest are "
					    "forgotten" },
	[CBX_KEY_RESULTS_TTL] = { "limits", "results_ttl", CBX_TYPE_DURATION, 1000, CBX_TTL_MAX_S * 1000ull,
				  CBX_TTL_MAX_S * 1000ull, CBX_TTL_MAX_S * 1000ull, .server_only = true,
				  .text = "A cell's result is forgotten this long after its end, and the file of its "
					  "output removed" },
	[CBX_KEY_CGROUP] = { "isolation", "cgroup", CBX_TYPE_WORD, 0, 1, CBX_CGROUP_AUTO, CBX_CGROUP_AUTO,
			     .words = cgroup_words,
			     .text = "\"required\": no session where no control group can limit it as a whole" },
	[CBX_KEY_ZYGOTE] = { "isolation", "zygote", CBX_TYPE_WORD, 0, 1, CBX_ZYGOTE_AUTO, CBX_ZYGOTE_AUTO,
			     .words = zygote_words,
			     .text = "\"off\": each interpreter is started afresh, with an address layout of its own" },
	[CBX_KEY_NOEXEC_WORKSPACE] = { "isolation", "noexec_workspace", CBX_TYPE_BOOL, 0, 1, 0, 0,
				       .more_is_stricter = true,
				       .text = "No program is executed from what the session can write: the workspace, "
					       "the home, /tmp, /var/tmp, /dev/shm and writable mounts" },
	[CBX_KEY_ROOTS] = { "mounts", "roots", CBX_TYPE_BOOL, 0, 1, 0, 0, .server_only = true,
			    .text = "Mount the directories that an MCP client names as its roots, where they are "
				    "allowed" },
	[CBX_KEY_INSTALL] = { "packages", "install", CBX_TYPE_BOOL, 0, 1, 1, 1, .server_only = true,
			      .text = "Packages can be installed from the index; code still has no network" },
	[CBX_KEY_INSTALL_SIZE] = { "packages", "install_size", CBX_TYPE_SIZE, CBX_INSTALL_SIZE_MIN,
				   CBX_INSTALL_SIZE_MAX, CBX_INSTALL_SIZE_DEFAULT, CBX_INSTALL_SIZE_DEFAULT,
				   .server_only = true,
				   .text = "Most bytes of the files of one installation, with all that its packages "
					   "need" },
	[CBX_KEY_ON_ADVISORY] = { "packages", "on_advisory", CBX_TYPE_WORD, 0, 1, CBX_ADVISORY_REFUSE,
				  CBX_ADVISORY_REFUSE, .server_only = true, .words = advisory_words,
				  .text = "What becomes of versions that advisories name: refuse, or warn and install "
					  "them" },
	[CBX_KEY_SAVE] = { "packages", "save", CBX_TYPE_BOOL, 0, 1, 1, 1, .server_only = true,
			   .text = "The packages of a session can become an image" },
	[CBX_KEY_CACHE] = { "packages", "cache", CBX_TYPE_SIZE, CBX_PACKAGES_KEPT_MIN, CBX_PACKAGES_KEPT_MAX,
			    CBX_PACKAGES_KEPT_DEFAULT, CBX_PACKAGES_KEPT_DEFAULT, .server_only = true,
			    .text = "Most bytes of unpacked packages and answers of the index that are kept; more: "
				    "before something is fetched, those used longest ago that no session has are "
				    "removed" },
	[CBX_KEY_URLS] = { "packages", "urls", CBX_TYPE_BOOL, 0, 1, 0, 0, .server_only = true,
			   .text = "Wheels can be installed from any public address of HTTPS that is given with their "
				   "SHA-256" },
	[CBX_KEY_SOURCE_BUILDS] = { "packages", "source_builds", CBX_TYPE_BOOL, 0, 1, 0, 0, .server_only = true,
				    .text = "Python packages of which the index has sources alone are built, in a "
					    "sandbox without a network" },
	[CBX_KEY_SCRIPTS] = { "packages", "scripts", CBX_TYPE_BOOL, 0, 1, 0, 0, .server_only = true,
			      .text = "Scripts that packages of npm have for their installation run, in the session" },
	[CBX_KEY_SQL_ROWS] = { "sql", "rows", CBX_TYPE_COUNT, 1, CBX_SQL_ROWS_MAX, CBX_SQL_ROWS_DEFAULT,
			       CBX_SQL_ROWS_DEFAULT, .server_only = true,
			       .text = "Most rows of the result of a query" },
	[CBX_KEY_SQL_INLINE_ROWS] = { "sql", "inline_rows", CBX_TYPE_COUNT, 1, CBX_SQL_INLINE_MAX,
				      CBX_SQL_INLINE_DEFAULT, CBX_SQL_INLINE_DEFAULT, .server_only = true,
				      .text = "Most rows that the answer to a query has; a larger result becomes a "
					      "file" },
	[CBX_KEY_SQL_RESULT_SIZE] = { "sql", "result_size", CBX_TYPE_SIZE, CBX_SQL_RESULT_MIN, CBX_SQL_RESULT_MAX,
				      CBX_SQL_RESULT_DEFAULT, CBX_SQL_RESULT_DEFAULT, .server_only = true,
				      .text = "Most bytes of a file with the result of a query" },
	[CBX_KEY_SQL_TIMEOUT] = { "sql", "query_timeout", CBX_TYPE_DURATION, 100, CBX_SQL_TIMEOUT_MAX_MS,
				  CBX_SQL_TIMEOUT_DEFAULT_MS, CBX_SQL_TIMEOUT_DEFAULT_MS, .server_only = true,
				  .text = "Time limit of a query, after which it is cancelled on the server" },
	[CBX_KEY_KEEP] = { "artifacts", "keep", CBX_TYPE_DURATION, 0, CBX_ARTIFACTS_KEEP_MAX_S * 1000ull, 0, 0,
			   .server_only = true,
			   .text = "Files that cells make are kept for this long, whatever becomes of their session; "
				   "0: not "
				   "at all" },
	[CBX_KEY_FILE_SIZE] = { "artifacts", "file_size", CBX_TYPE_SIZE, 1, CBX_ARTIFACT_SIZE_MAX,
				CBX_ARTIFACT_SIZE_DEFAULT, CBX_ARTIFACT_SIZE_DEFAULT, .server_only = true,
				.text = "Larger files are not kept" },
	[CBX_KEY_QUOTA] = { "artifacts", "quota", CBX_TYPE_SIZE, 1, CBX_ARTIFACTS_QUOTA_MAX,
			    CBX_ARTIFACTS_QUOTA_DEFAULT, CBX_ARTIFACTS_QUOTA_DEFAULT, .server_only = true,
			    .text = "Most bytes of the artifacts of one tenant" },
	[CBX_KEY_LINK_EXPIRY] = { "artifacts", "link_expiry", CBX_TYPE_DURATION, 1000, CBX_LINK_EXPIRY_MAX_S * 1000ull,
				  CBX_LINK_EXPIRY_DEFAULT_S * 1000ull, CBX_LINK_EXPIRY_DEFAULT_S * 1000ull,
				  .server_only = true,
				  .text = "A link to an artifact is good for no longer than this" },
	[CBX_KEY_CODE_RULES] = { "code", "code_rules", CBX_TYPE_BOOL, 0, 1, 0, 0, .more_is_stricter = true,
				 .text = "Python cells are judged by their words before they run, and nothing else is "
					 "run; this is not isolation" },
	[CBX_KEY_LANDLOCK] = { "isolation", "landlock", CBX_TYPE_WORD, 0, 2, 1, 1, .words = landlock_modes,
			       .text = "A second layer that keeps the image's files from being written: auto where the "
				       "kernel has it, required for no session without it" },
	[CBX_KEY_WRITE_XOR_EXECUTE] = { "isolation", "write_xor_execute", CBX_TYPE_BOOL, 0, 1, 0, 0,
					.more_is_stricter = true,
					.text = "Memory that was writable cannot become executable" },
	[CBX_KEY_OWN_CORES] = { "isolation", "own_cores", CBX_TYPE_BOOL, 0, 1, 0, 0, .more_is_stricter = true,
				.text = "No processor core runs this and another session at once, where "
					"that is possible" },
	[CBX_KEY_NO_SPECULATION] = { "isolation", "no_speculation", CBX_TYPE_BOOL, 0, 1, 0, 0, .more_is_stricter = true,
				     .text = "Speculative store bypass and indirect branches off, where "
					     "the processor has them" },
};

uint64_t cbx_key_part(enum cbx_key key, unsigned percent)
{
	const struct cbx_key_info *k = &cbx_keys[key];
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t part = (machine / 100 * percent) & ~(uint64_t)(MIB(1) - 1);

	return part < k->min ? k->min : part > k->max ? k->max : part;
}

static const char *const hints[] = {
	[CBX_TYPE_SIZE] = "bytes or a size such as \"512M\"",
	[CBX_TYPE_COUNT] = "a whole number",
	[CBX_TYPE_DURATION] = "seconds or a duration such as \"5m\"",
	[CBX_TYPE_DECIMAL] = "a number such as 1.5",
	[CBX_TYPE_BOOL] = "true or false",
};

void cbx_key_format(enum cbx_key key, uint64_t value, char out[48])
{
	const struct cbx_key_info *k = &cbx_keys[key];
	char size[32];

	if (k->zero_is_none && !value) {
		snprintf(out, 48, "no limit");
		return;
	}
	switch (k->type) {
	case CBX_TYPE_SIZE:
		cbx_format_size(value, size);
		snprintf(out, 48, "%s", size);
		break;
	case CBX_TYPE_DURATION:
		snprintf(out, 48, "%.10g s", (double)value / 1000);
		break;
	case CBX_TYPE_DECIMAL:
		snprintf(out, 48, "%.10g", (double)value / 1000);
		break;
	case CBX_TYPE_WORD:
		snprintf(out, 48, "%s", k->words[value]);
		break;
	case CBX_TYPE_BOOL:
		snprintf(out, 48, "%s", value ? "true" : "false");
		break;
	default:
		snprintf(out, 48, "%llu", (unsigned long long)value);
	}
}

static int out_of_range(enum cbx_key key, struct cbx_err *err)
{
	const struct cbx_key_info *k = &cbx_keys[key];
	char lo[48], hi[48];

	cbx_key_format(key, k->min, lo);
	cbx_key_format(key, k->max, hi);
	return cbx_refuse(err, "invalid_argument", ERANGE, "%s: the value is not between %s and %s%s; give %s", k->name,
			  lo, hi, k->zero_is_none ? ", or 0 for no limit" : "", hints[k->type]);
}

static int parse_word(const struct cbx_key_info *k, const cJSON *v, uint64_t *ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf list = { 0 };

	for (size_t i = 0; k->words[i]; i++) {
		if (cJSON_IsString(v) && strcmp(v->valuestring, k->words[i]) == 0) {
			*ret = i;
			return 0;
		}
		cbx_buf_addf(&list, "%s\"%s\"", i ? ", " : "", k->words[i]);
	}
	return cbx_refuse(err, "invalid_argument", EINVAL, "%s: give one of %s", k->name, cbx_buf_str(&list));
}

static int parse_string(enum cbx_key key, const char *s, uint64_t *ret, struct cbx_err *err)
{
	const struct cbx_key_info *k = &cbx_keys[key];
	char *end;
	double d;

	switch (k->type) {
	case CBX_TYPE_SIZE:
		return cbx_parse_size(s, k->name, k->min, k->max, ret, err);
	case CBX_TYPE_DURATION:
		return cbx_parse_duration_ms(s, k->name, k->min, k->max, ret, err);
	case CBX_TYPE_DECIMAL:
		/* Digits and one point: strtod() alone would take "inf", hexadecimal numbers and spaces. */
		d = s[0] && !s[strspn(s, "0123456789.")] ? strtod(s, &end) * 1000 : -1;
		if (d < 0 || *end || ((d < (double)k->min || d > (double)k->max) && !(k->zero_is_none && d == 0)))
			return out_of_range(key, err);
		*ret = (uint64_t)(d + 0.5);
		return 0;
	default:
		return cbx_parse_u64(s, k->name, k->min, k->max, ret, err);
	}
}

int cbx_key_parse(enum cbx_key key, const cJSON *v, uint64_t *ret, struct cbx_err *err)
{
	const struct cbx_key_info *k = &cbx_keys[key];
	bool scaled = k->type == CBX_TYPE_DURATION || k->type == CBX_TYPE_DECIMAL;
	double d;

	if (k->type == CBX_TYPE_WORD)
		return parse_word(k, v, ret, err);
	if (k->type == CBX_TYPE_BOOL && cJSON_IsBool(v)) {
		*ret = cJSON_IsTrue(v);
		return 0;
	}
	if (k->type != CBX_TYPE_BOOL && cJSON_IsString(v))
		return parse_string(key, v->valuestring, ret, err);
	if (k->type == CBX_TYPE_BOOL || !cJSON_IsNumber(v))
		return cbx_refuse(err, "invalid_argument", EINVAL, "%s: wrong type; give %s", k->name, hints[k->type]);
	d = v->valuedouble * (scaled ? 1000 : 1);
	if (!scaled && !cbx_json_whole(d))
		return cbx_refuse(err, "invalid_argument", EINVAL, "%s: %g is not a whole number; give %s", k->name, d,
				  hints[k->type]);
	if (!(d >= (double)k->min && d <= (double)k->max) && !(k->zero_is_none && d == 0))
		return out_of_range(key, err);
	*ret = (uint64_t)(scaled ? d + 0.5 : d);
	return 0;
}

cJSON *cbx_key_from_text(enum cbx_key key, const char *text)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();

	if (cbx_keys[key].type == CBX_TYPE_BOOL && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
		cbx_json_set_bool(o, "v", text[0] == 't');
	else
		cbx_json_set_str(o, "v", text);
	return cJSON_DetachItemViaPointer(o, o->child);
}

uint64_t cbx_key_lower(enum cbx_key key, uint64_t a, uint64_t b)
{
	const struct cbx_key_info *k = &cbx_keys[key];

	if (k->zero_is_none && (!a || !b))
		return a ? a : b;
	return (a < b) != k->more_is_stricter ? a : b;
}

cJSON *cbx_key_to_json(enum cbx_key key, uint64_t value)
{
	const struct cbx_key_info *k = &cbx_keys[key];
	_cleanup_json_ cJSON *o = cbx_json_new_obj();

	switch (k->type) {
	case CBX_TYPE_WORD:
		cbx_json_set_str(o, "v", k->words[value]);
		break;
	case CBX_TYPE_BOOL:
		cbx_json_set_bool(o, "v", value);
		break;
	case CBX_TYPE_DURATION:
	case CBX_TYPE_DECIMAL:
		if (value % 1000)
			cbx_json_set_double(o, "v", (double)value / 1000);
		else
			cbx_json_set_u64(o, "v", value / 1000);
		break;
	default:
		cbx_json_set_u64(o, "v", value);
	}
	return cJSON_DetachItemViaPointer(o, o->child);
}

static cJSON *type_schema(const struct cbx_key_info *k)
{
	cJSON *o = cbx_json_new_obj(), *list = cbx_json_new_arr();

	if (k->type == CBX_TYPE_WORD) {
		for (size_t i = 0; k->words[i]; i++)
			cbx_json_push_str(list, k->words[i]);
		cbx_json_set(o, "enum", list);
		return o;
	}
	if (k->type != CBX_TYPE_BOOL) {
		cbx_json_push_str(list, k->type == CBX_TYPE_SIZE || k->type == CBX_TYPE_COUNT ? "integer" : "number");
		cbx_json_push_str(list, "string");
		cbx_json_set(o, "type", list);
		return o;
	}
	cJSON_Delete(list);
	cbx_json_set_str(o, "type", "boolean");
	return o;
}

cJSON *cbx_key_schema_strict(enum cbx_key key)
{
	static const char *const patterns[] = {
		[CBX_TYPE_SIZE] = "^[0-9]+([KMGTkmgt](iB|B)?)?$",
		[CBX_TYPE_COUNT] = "^[0-9]+$",
		[CBX_TYPE_DURATION] = "^[0-9]+(ms|s|m|h|d)?$",
		[CBX_TYPE_DECIMAL] = "^[0-9]*[.]?[0-9]*$",
	};
	const struct cbx_key_info *k = &cbx_keys[key];
	cJSON *o = type_schema(k);

	if (k->type == CBX_TYPE_WORD || k->type == CBX_TYPE_BOOL)
		return o;
	cbx_json_set_str(o, "pattern",
			 k->part ? "^([0-9]+([KMGTkmgt](iB|B)?)?|([1-9][0-9]?|100)%)$" : patterns[k->type]);
	cbx_json_set(o, "minimum", cbx_key_to_json(key, k->zero_is_none ? 0 : k->min));
	cbx_json_set(o, "maximum", cbx_key_to_json(key, k->max));
	return o;
}
