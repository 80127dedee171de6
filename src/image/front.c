/* SPDX-License-Identifier: Apache-2.0 */
#include "image/front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "image/inuse.h"
#include "image/progress.h"

int cbx_image_fail(const struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };

	cbx_progress_end();
	cbx_escape(&line, err->msg);
	fprintf(stderr, "codebox image: %s\n", line.data);
	return 1;
}

int cbx_image_bad_usage(const char *what)
{
	fprintf(stderr, "codebox image: %s\nTry: codebox image --help\n", what);
	return 2;
}

int cbx_image_become(const struct cbx_dirs *dirs, bool writing, struct cbx_err *err)
{
	_cleanup_free_ char *cache = cbx_xasprintf("%s/cache", dirs->data),
			    *packages = cbx_xasprintf("%s/packages", dirs->data),
			    *own = cbx_xasprintf("%s/d", packages);
	struct cbx_service service;
	int r = cbx_service_init(&service, err);

	if (r == 0 && writing)
		r = cbx_service_make_dir(&service, dirs->data, 0750, err);
	if (r == 0 && writing)
		r = cbx_service_make_dir(&service, dirs->images, 0750, err);
	if (r == 0 && writing)
		r = cbx_service_make_dir(&service, cache, 0750, err);
	if (r == 0 && writing) /* as daemon/packages.c has it */
		r = cbx_service_make_dir(&service, packages, 0700, err);
	if (r == 0 && writing)
		r = cbx_service_make_dir(&service, own, 0700, err);
	if (r == 0)
		r = cbx_service_become(&service, err);
	/* A change of ids makes a process undumpable, and its /proc files root's: the worker must write its id maps. */
	if (r == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		r = cbx_fail(err, errno, "prepare for namespaces");
	umask(022);
	return r;
}

static void tell_waiting(void)
{
	cbx_progress_step("Waiting for another codebox image command to end");
}

int cbx_image_open_store(const struct cbx_dirs *dirs, struct cbx_store *store, struct cbx_err *err)
{
	int r = cbx_image_become(dirs, true, err);

	return r < 0 ? r : cbx_store_open(dirs->images, tell_waiting, store, err);
}

int cbx_image_check_taking(const struct cbx_dirs *dirs, const char *name, bool taking, struct cbx_err *err)
{
	return taking ? cbx_image_check_unused(dirs, name, err) : 0;
}

int cbx_image_open_recipe(const struct cbx_dirs *dirs, const char *what, char **ret_path, struct cbx_err *err)
{
	bool file = strchr(what, '/') || cbx_ends_with(what, ".json");
	char *path = file ? cbx_xstrdup(what) : cbx_xasprintf("%s/recipes/%s.json", dirs->share, what);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), code = errno;

	*ret_path = path;
	if (fd >= 0)
		return fd;
	if (!file && code == ENOENT)
		return cbx_refuse(err, "recipe_not_found", ENOENT,
				  "there is no recipe \"%.60s\" in %.200s/recipes; use python, python-science, "
				  "python-debian, python-minimal, full, javascript, conda or host; a name with a \"/\" "
				  "is the path of a recipe file",
				  what, dirs->share);
	return cbx_fail(err, code, "open the recipe %s", path);
}
