/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_KEYS_H
#define CBX_POLICY_KEYS_H

/*
 * The settings that a policy file and a request for a session have in common: one table, from which parsing, the JSON
 * Schemas, `codebox policy explain` and the order of the canonical form are made. A new setting is a row here, and a
 * field of struct cbx_session_spec in session/spec.c. Those of one group stand together.
 *
 * A value is a uint64_t, whatever its type: bytes, a count, milliseconds, thousandths, the index of a word, 0 or 1.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/* The word "zygote" as a value: whether an interpreter may be forked from a warm one. */
enum { CBX_ZYGOTE_OFF, CBX_ZYGOTE_AUTO };

enum cbx_key_type {
	CBX_TYPE_SIZE,     /* bytes: a number, or a string such as "512M" */
	CBX_TYPE_COUNT,    /* a whole number */
	CBX_TYPE_DURATION, /* seconds: a number, or a string such as "5m"; kept in milliseconds */
	CBX_TYPE_DECIMAL,  /* a number such as 1.5; kept in thousandths */
	CBX_TYPE_WORD,     /* one of a list, the strictest first; kept as its index */
	CBX_TYPE_BOOL,
};

enum cbx_key {
	CBX_KEY_MEMORY,
	CBX_KEY_DISK,
	CBX_KEY_PROCESSES,
	CBX_KEY_TIMEOUT,
	CBX_KEY_TTL,
	CBX_KEY_IDLE_TIMEOUT,
	CBX_KEY_SESSIONS,
	CBX_KEY_MEMORY_TOGETHER,
	CBX_KEY_CPUS,
	CBX_KEY_CPU_WEIGHT,
	CBX_KEY_IO,
	CBX_KEY_IO_OPERATIONS,
	CBX_KEY_HISTORY,
	CBX_KEY_RESULTS,
	CBX_KEY_RESULTS_COUNT,
	CBX_KEY_RESULTS_TTL,
	CBX_KEY_PROFILE,
	CBX_KEY_LANDLOCK,
	CBX_KEY_NOEXEC_WORKSPACE,
	CBX_KEY_WRITE_XOR_EXECUTE,
	CBX_KEY_OWN_CORES,
	CBX_KEY_NO_SPECULATION,
	CBX_KEY_CGROUP,
	CBX_KEY_ZYGOTE,
	CBX_KEY_ROOTS,
	CBX_KEY_INSTALL,
	CBX_KEY_INSTALL_SIZE,
	CBX_KEY_ON_ADVISORY,
	CBX_KEY_SAVE,
	CBX_KEY_CACHE,
	CBX_KEY_URLS,
	CBX_KEY_SOURCE_BUILDS,
	CBX_KEY_SCRIPTS,
	CBX_KEY_SQL_ROWS,
	CBX_KEY_SQL_INLINE_ROWS,
	CBX_KEY_SQL_RESULT_SIZE,
	CBX_KEY_SQL_TIMEOUT,
	CBX_KEY_KEEP,
	CBX_KEY_FILE_SIZE,
	CBX_KEY_QUOTA,
	CBX_KEY_LINK_EXPIRY,
	CBX_KEY_CODE_RULES,
	CBX_KEYS
};

/* The words of "on_advisory". */
enum { CBX_ADVISORY_REFUSE, CBX_ADVISORY_WARN };

/* The words of "cgroup". */
enum { CBX_CGROUP_REQUIRED, CBX_CGROUP_AUTO };

struct cbx_key_info {
	const char *group, *name; /* "limits", "memory"; names are unique over all groups */
	enum cbx_key_type type;
	uint64_t min, max;         /* what may be written at all */
	uint64_t standard, ceiling; /* without a policy: when not asked for; at most */
	unsigned part;		    /* the ceiling, in hundredths of the machine's memory, and values may be
				     * written like that; 0: neither */
	bool zero_is_none;         /* 0: no limit, so looser than any other value */
	bool more_is_stricter;     /* flags that switch a protection on */
	bool server_only;          /* of a policy; no request has it */
	const char *const *words;  /* NULL-terminated */
	const char *text;          /* a clause for people: what it is */
};
extern const struct cbx_key_info cbx_keys[CBX_KEYS];

/* 0, or -errno with a message that starts with the key's name, kind "invalid_argument". */
int cbx_key_parse(enum cbx_key key, const cJSON *v, uint64_t *ret, struct cbx_err *err);
/* A value that was typed, as on a command line, for cbx_key_parse(). */
cJSON *cbx_key_from_text(enum cbx_key key, const char *text);
/* So many hundredths of the machine's memory, as far as the key's values go. */
uint64_t cbx_key_part(enum cbx_key key, unsigned percent);
/* The stricter of two values. */
uint64_t cbx_key_lower(enum cbx_key key, uint64_t a, uint64_t b);
void cbx_key_format(enum cbx_key key, uint64_t value, char out[48]); /* for people: "2.0 GiB", "60 s", "strict" */
cJSON *cbx_key_to_json(enum cbx_key key, uint64_t value);            /* in base units: what cbx_key_parse() reads */
/* JSON Schema of a value in a policy file. */
cJSON *cbx_key_schema_strict(enum cbx_key key);

#endif
