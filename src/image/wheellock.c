/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a lock is read strictly, like the recipe that it belongs to, before anything is fetched. It is
 * written in one order, a wheel to a line, so that what a refresh changes is what a comparison of the files shows.
 */
#include "image/wheellock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/scan.h"
#include "packages/rules.h"

#define invalid(err, ...) cbx_refuse(err, "invalid_lock", EINVAL, __VA_ARGS__)

char *cbx_wheellock_path(const char *recipe)
{
	size_t n = strlen(recipe);

	return cbx_xasprintf("%.*s.lock", (int)(cbx_ends_with(recipe, ".json") ? n - strlen(".json") : n), recipe);
}

/* ---- reading ---- */

static bool is_sum(const char *s)
{
	return s && strlen(s) == 64 && !s[strspn(s, "0123456789abcdef")];
}

static int check_for(const struct cbx_wheellock *lock, const cJSON *wheel, struct cbx_err *err)
{
	const cJSON *list = NULL, *v;
	int most = cJSON_GetArraySize(lock->targets);

	if (cbx_json_get_arr(wheel, "for", &list, err) < 0)
		return -err->code;
	cJSON_ArrayForEach(v, list)
		if (!cJSON_IsNumber(v) || v->valuedouble < 0 || v->valuedouble >= most || v->valuedouble != v->valueint)
			return invalid(err, "\"for\" has an element that is not the number of a target");
	return 0;
}

static int check_wheel(const struct cbx_wheellock *lock, const cJSON *wheel, struct cbx_err *err)
{
	static const char *const keys[] = { "name", "version", "file", "sha256", "size", "for", NULL };
	const char *name = cbx_json_text(wheel, "name"), *version = cbx_json_text(wheel, "version"),
		   *file = cbx_json_text(wheel, "file");
	char normal[CBX_PROJECT_MAX];
	uint64_t size = 0;
	int r;

	if (!cJSON_IsObject(wheel) || !name || !cbx_project_name(name, strlen(name), normal) ||
	    strcmp(name, normal) != 0)
		return invalid(err, "a wheel has no normalized name");
	if (!version || !file || !cbx_plain(version) || !cbx_plain(file))
		return invalid(err, "%s has no version, or no file", name);
	if (!is_sum(cbx_json_text(wheel, "sha256")))
		return invalid(err, "%s: %.200s has no SHA-256", name, file);
	r = cbx_json_only(wheel, keys, err);
	if (r == 0)
		r = cbx_json_get_u64(wheel, "size", 0, CBX_UNPACK_FILE_MAX, &size, err);
	if (r >= 0)
		r = check_for(lock, wheel, err);
	return r < 0 ? cbx_wrap(err, "%s: %.200s", name, file) : 0;
}

static bool same_requirements(const cJSON *list, const char *const *wanted)
{
	const cJSON *v;
	size_t i = 0;

	cJSON_ArrayForEach(v, list)
		if (!wanted[i] || !cJSON_IsString(v) || strcmp(v->valuestring, wanted[i++]) != 0)
			return false;
	return !wanted[i];
}

static int check(struct cbx_wheellock *lock, const struct cbx_recipe *recipe, struct cbx_err *err)
{
	static const char *const keys[] = { "requirements", "targets", "wheels", NULL };
	const cJSON *requirements = NULL, *v;
	int r;

	if (!cJSON_IsObject(lock->doc.root))
		return invalid(err, "not a JSON object");
	r = cbx_json_only(lock->doc.root, keys, err);
	if (r < 0 || (r = cbx_json_get_arr(lock->doc.root, "requirements", &requirements, err)) < 0 ||
	    (r = cbx_json_get_arr(lock->doc.root, "targets", &lock->targets, err)) < 0 ||
	    (r = cbx_json_get_arr(lock->doc.root, "wheels", &lock->wheels, err)) < 0)
		return r;
	if (!requirements || !lock->targets || !lock->wheels)
		return invalid(err, "\"requirements\", \"targets\" or \"wheels\" is missing");
	if (cJSON_GetArraySize(lock->wheels) > CBX_LOCKED_MAX || cJSON_GetArraySize(lock->targets) > CBX_TARGETS_MAX)
		return invalid(err, "more than %d wheels or %d targets", CBX_LOCKED_MAX, CBX_TARGETS_MAX);
	cJSON_ArrayForEach(v, lock->targets)
		if (!cJSON_IsString(v) || !cbx_plain(v->valuestring))
			return invalid(err, "\"targets\" has an element that is not a string");
	cJSON_ArrayForEach(v, lock->wheels)
		if ((r = check_wheel(lock, v, err)) < 0)
			return r;
	if (recipe && !same_requirements(requirements, recipe->wheels))
		return invalid(err, "it was made for other wheels than the recipe asks for; make it anew with: "
				    "codebox image lock");
	return 0;
}

int cbx_wheellock_read(int fd, const char *where, const struct cbx_recipe *recipe, struct cbx_wheellock *ret,
		       struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = cbx_read_whole(fd, CBX_LOCK_MAX, &text);

	*ret = (struct cbx_wheellock){ .where = cbx_xstrdup(where) };
	if (r < 0)
		r = r == -EFBIG ? invalid(err, "longer than %zu bytes", CBX_LOCK_MAX) : cbx_fail(err, -r, "read");
	else
		r = cbx_json_parse_sound(cbx_buf_str(&text), text.len, &ret->doc, err);
	if (r == 0)
		r = check(ret, recipe, err);
	if (r == 0)
		cbx_scan_digest(text.data, text.len, ret->digest);
	if (r < 0) {
		cbx_wrap(err, "the lock %s", where);
		cbx_err_sanitize(err);
		cbx_wheellock_release(ret);
	}
	return r;
}

void cbx_wheellock_release(struct cbx_wheellock *lock)
{
	cbx_json_doc_release(&lock->doc);
	free(lock->where);
	*lock = (struct cbx_wheellock){ 0 };
}

/* ---- choosing ---- */

static bool is_for(const cJSON *wheel, int target)
{
	const cJSON *list = cbx_json_member(wheel, "for"), *v;

	cJSON_ArrayForEach(v, list)
		if (v->valueint == target)
			return true;
	return !list;
}

int cbx_wheellock_select(const struct cbx_wheellock *lock, const char *target, cJSON **ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf has = { 0 };
	int number = -1, n = 0;
	const cJSON *v;
	cJSON *all;

	cJSON_ArrayForEach(v, lock->targets) {
		if (strcmp(v->valuestring, target) == 0)
			number = n;
		cbx_buf_addf(&has, "%s%.30s", n++ ? ", " : "", v->valuestring);
	}
	if (number < 0)
		return cbx_refuse(err, "invalid_lock", ENOENT,
				  "the lock %s has no wheels for Python %s; it has them for %s; make it anew with: "
				  "codebox image lock --python %.*s",
				  lock->where, target, cbx_buf_str(&has), (int)strcspn(target, "-"), target);
	all = cbx_json_new_arr();
	cJSON_ArrayForEach(v, lock->wheels) {
		cJSON *one;

		if (!is_for(v, number))
			continue;
		one = cJSON_Duplicate(v, 1);
		cJSON_DeleteItemFromObjectCaseSensitive(one, "for");
		cbx_json_push(all, one);
	}
	*ret = all;
	return 0;
}

/* ---- writing ---- */

void cbx_wheellock_add(cJSON *wheels, const cJSON *found, int target)
{
	static const char *const texts[] = { "name", "version", "file", "sha256" };
	const cJSON *v;

	cJSON_ArrayForEach(v, found) {
		cJSON *one = NULL, *old;

		cJSON_ArrayForEach(old, wheels)
			if (strcmp(cbx_json_text(old, "sha256"), cbx_json_text(v, "sha256")) == 0)
				one = old;
		if (!one) {
			one = cbx_json_new_obj();
			for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
				cbx_json_set_str(one, texts[i], cbx_json_text(v, texts[i]));
			cbx_json_set_u64(one, "size", cbx_json_u64(v, "size"));
			cbx_json_set(one, "for", cbx_json_new_arr());
			cbx_json_push(wheels, one);
		}
		cbx_json_push(cbx_json_member(one, "for"), cJSON_CreateNumber(target));
	}
}

static int by_file(const void *a, const void *b)
{
	const cJSON *x = *(const cJSON *const *)a, *y = *(const cJSON *const *)b;
	int r = strcmp(cbx_json_text(x, "name"), cbx_json_text(y, "name"));

	return r ? r : strcmp(cbx_json_text(x, "file"), cbx_json_text(y, "file"));
}

static void print_wheels(struct cbx_buf *out, const cJSON *wheels, int targets)
{
	size_t n = (size_t)cJSON_GetArraySize(wheels), i = 0;
	_cleanup_free_ const cJSON **sorted = cbx_xcalloc(n + 1, sizeof(*sorted));
	const cJSON *v;

	cJSON_ArrayForEach(v, wheels)
		sorted[i++] = v;
	if (n)
		qsort(sorted, n, sizeof(*sorted), by_file);
	for (i = 0; i < n; i++) {
		_cleanup_json_ cJSON *one = cJSON_Duplicate(sorted[i], 1);

		if (cJSON_GetArraySize(cbx_json_member(one, "for")) == targets)
			cJSON_DeleteItemFromObjectCaseSensitive(one, "for");
		cbx_buf_adds(out, i ? ",\n\t\t" : "\n\t\t");
		cbx_json_print(out, one);
	}
}

static void print_texts(struct cbx_buf *out, const cJSON *list)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, list) {
		cbx_buf_adds(out, v == list->child ? "\n\t\t" : ",\n\t\t");
		cbx_json_print(out, v);
	}
}

static int write_file(const char *path, const struct cbx_buf *text, struct cbx_err *err)
{
	_cleanup_free_ char *new = cbx_xasprintf("%s.new", path);
	_cleanup_fd_ int fd = -1;
	int r;

	if (unlink(new) < 0 && errno != ENOENT)
		return cbx_fail(err, errno, "remove %s", new);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return cbx_fail(err, errno, "make %s", new);
	r = cbx_write_all(fd, text->data, text->len);
	if (r == 0 && (fsync(fd) < 0 || rename(new, path) < 0))
		r = -errno;
	if (r < 0)
		(void)unlink(new);
	return r < 0 ? cbx_fail(err, -r, "write %s", path) : 0;
}

int cbx_wheellock_write(const char *path, const struct cbx_recipe *recipe, const cJSON *targets, const cJSON *wheels,
			struct cbx_err *err)
{
	_cleanup_json_ cJSON *requirements = cbx_json_new_arr();
	_cleanup_buf_ struct cbx_buf text = { 0 };

	for (const char **w = recipe->wheels; *w; w++)
		cbx_json_push_str(requirements, *w);
	cbx_buf_adds(&text, "{\n\t\"requirements\": [");
	print_texts(&text, requirements);
	cbx_buf_adds(&text, "\n\t],\n\t\"targets\": [");
	print_texts(&text, targets);
	cbx_buf_adds(&text, "\n\t],\n\t\"wheels\": [");
	print_wheels(&text, wheels, cJSON_GetArraySize(targets));
	cbx_buf_adds(&text, "\n\t]\n}\n");
	return write_file(path, &text, err);
}
