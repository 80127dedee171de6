/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_RULES_H
#define CBX_PACKAGES_RULES_H

/*
 * Which packages may be installed: lists of names with specifiers, and how what a resolver found is judged by them.
 * Packages of npm and conda are in the same lists, with "npm:" or "conda:" before their names (npm.h, conda.h). A
 * resolver is not trusted: its answer is read strictly, and every package in it is judged, however deep it lies.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "packages/version.h"

/* "Name [extra,…] specifiers ; marker", as in "httpx[http2]>=0.27", or "npm:name@range", or "conda:name>=1.2"; or a
 * name and the address of a wheel with its sum, which not everybody may ask for. */
struct cbx_requirement {
	char name[CBX_PROJECT_MAX]; /* normalized */
	char specifiers[CBX_SPECIFIERS_MAX];
	bool address; /* it is "name @ https://host/name-1.0-py3-none-any.whl#sha256=…" */
};
#define CBX_REQUIREMENT_MAX 1000 /* bytes of one */

/* Errors, of kind "package_refused" for another address, a path or an option, "invalid_argument" else, name the text. */
int cbx_requirement_parse(const char *text, struct cbx_requirement *ret, struct cbx_err *err);
/* The same for a rule: a name and specifiers alone. */
int cbx_requirement_rule(const char *text, struct cbx_requirement *ret, struct cbx_err *err);

/* A list of them. */
struct cbx_requirements {
	struct cbx_requirement *all;
	size_t n;
};
void cbx_requirements_add(struct cbx_requirements *list, const char *name, const char *specifiers);
void cbx_requirements_copy(struct cbx_requirements *to, const struct cbx_requirements *from);
void cbx_requirements_release(struct cbx_requirements *list);
cJSON *cbx_requirements_json(const struct cbx_requirements *list);
/* What both lists allow: of each pair with one name, both specifiers. */
void cbx_requirements_both(struct cbx_requirements *ret, const struct cbx_requirements *a,
			   const struct cbx_requirements *b);

struct cbx_package_rules {
	bool only; /* nothing but what `allow` names */
	struct cbx_requirements allow;
	struct cbx_requirements block;	  /* without specifiers: in any version */
	struct cbx_requirements versions; /* a package of this name must hold to it */
};

/* One package that is to be installed: a wheel, or the archive of a package of npm or conda. */
struct cbx_wheel {
	char name[CBX_PROJECT_MAX], version[CBX_VERSION_MAX];
	char sum[129];	  /* SHA-512 of an npm package, else SHA-256 */
	char *file, *url; /* owned; url NULL: of a wheel, the index's page names it (installer/find.c) */
	char *place;	  /* of an npm package: "node_modules/a/node_modules/b"; owned. NULL: it is none */
	char *build;	  /* of a package of conda: "py311_0"; owned. NULL: it is none */
	uint64_t size;	  /* as the index says; 0: it does not */
	char *path;	  /* "a → b → c": what asked for it; owned */
	bool direct;	  /* nothing else did */
};

/* What the address of a wheel begins with that a resolver has built: "built:<installation>/<sum>". */
#define CBX_BUILT "built:"

#define CBX_WHEELS_MAX 400 /* packages of one installation */

struct cbx_lock {
	struct cbx_wheel *wheels;
	size_t n;
};

/* {"packages":[{"name","version","file","url"?,"sha256","size","via":[names]}]}, strictly; npm.h and conda.h
 * have what their packages have. All are of one kind. Error: "invalid_lock". */
int cbx_lock_read(const cJSON *answer, struct cbx_lock *ret, struct cbx_err *err);
void cbx_lock_release(struct cbx_lock *lock);
/* Whether an earlier one has the same file: a package of npm may be in several places. */
bool cbx_lock_again(const struct cbx_lock *lock, size_t i);
/* The first refusal, kind "package_refused", naming package, rule and way. bytes_max 0: any size. */
int cbx_lock_judge(const struct cbx_lock *lock, const struct cbx_package_rules *rules, uint64_t bytes_max,
		   struct cbx_err *err);
/* Of one name, before anything is looked for: versions are not known yet. */
int cbx_rules_judge_name(const struct cbx_package_rules *rules, const char *name, struct cbx_err *err);

#endif
