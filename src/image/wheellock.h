/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_WHEELLOCK_H
#define CBX_IMAGE_WHEELLOCK_H

/*
 * The lock of a recipe's wheels, a file beside the recipe: python.lock beside python.json. It has no address, so that
 * it serves with any index, and each wheel with its SHA-256:
 *
 *   {"requirements":[…],                   the recipe's "wheels" when it was made
 *    "targets":["3.11-x86_64",…],          which Python on which machine it is for
 *    "wheels":[{"name","version","file","sha256","size","for"?:[0,…]},…]}   for: of which targets; all if omitted
 */
#include "base/err.h"
#include "base/json.h"
#include "image/recipe.h"

struct cbx_wheellock {
	struct cbx_json_doc doc;
	char *where;		       /* its path, for messages */
	char digest[72];	       /* of its text: "sha256:…" */
	const cJSON *targets, *wheels; /* borrowed */
};

/* The path of a recipe's lock; malloc'd. */
char *cbx_wheellock_path(const char *recipe);
/* From an open file. Errors: "invalid_lock", naming package and file. recipe: whose wheels it must be for; NULL: any.
 */
int cbx_wheellock_read(int fd, const char *where, const struct cbx_recipe *recipe, struct cbx_wheellock *ret,
		       struct cbx_err *err);
void cbx_wheellock_release(struct cbx_wheellock *lock);

/* The wheels for one target, without "for"; *ret is owned by the caller. Error: "invalid_lock" where there is none. */
int cbx_wheellock_select(const struct cbx_wheellock *lock, const char *target, cJSON **ret, struct cbx_err *err);

/* Add what a resolver found for the target of this number. */
void cbx_wheellock_add(cJSON *wheels, const cJSON *found, int target);
/* Write a lock, which is replaced in one step; targets: as many as were added. */
int cbx_wheellock_write(const char *path, const struct cbx_recipe *recipe, const cJSON *targets, const cJSON *wheels,
			struct cbx_err *err);

#endif
