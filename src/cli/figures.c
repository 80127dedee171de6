/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a bundle holds the same thing in several forms. The first image form in our order of preference
 * is saved; its text form ("<Figure size 640x480>") is then noise, unless the bundle is the value of an expression.
 * File names are ours alone: nothing that the sandbox says becomes part of one.
 */
#include "cli/figures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clean.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/transcript.h"

#define FIGURES_MAX 100000 /* numbers tried before giving up */

static const struct form {
	const char *mime, *suffix;
	bool base64;
} forms[] = {
	{ "image/png", "png", true }, { "image/jpeg", "jpg", true },  { "image/svg+xml", "svg", false },
	{ "image/gif", "gif", true }, { "image/webp", "webp", true }, { "application/pdf", "pdf", true },
};

void cbx_figures_init(struct cbx_figures *f, const char *dir)
{
	f->dir = dir;
	f->dirfd = -1;
	f->next = 1;
	f->failed = f->spare = false;
	memset(&f->images, 0, sizeof(f->images));
}

void cbx_figures_release(struct cbx_figures *f)
{
	cbx_close_p(&f->dirfd);
	cbx_images_release(&f->images);
}

static int open_dir(struct cbx_figures *f, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xstrdup(f->dir);

	if (f->dirfd >= 0)
		return 0;
	for (char *slash = path + 1; *path && (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(path, 0777);
		*slash = '/';
	}
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make directory %s", path);
	f->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return f->dirfd < 0 ? cbx_fail(err, errno, "open directory %s", path) : 0;
}

static int save(struct cbx_figures *f, const struct form *form, const struct cbx_buf *bytes, char *name, size_t size,
		struct cbx_err *err)
{
	_cleanup_fd_ int fd = -1;
	int r = open_dir(f, err);

	if (r < 0)
		return r;
	for (; f->next < FIGURES_MAX; f->next++) {
		snprintf(name, size, "figure-%u.%s", f->next, form->suffix);
		fd = openat(f->dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	if (fd < 0)
		return cbx_fail(err, errno, "make %s/%s", f->dir, name);
	f->next++;
	r = cbx_write_all(fd, bytes->data, bytes->len);
	if (r < 0) {
		(void)unlinkat(f->dirfd, name, 0);
		return cbx_fail(err, -r, "write %s/%s", f->dir, name);
	}
	return 0;
}

static int image_bytes(const struct form *form, const char *text, struct cbx_buf *ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf dense = { 0 };

	if (!form->base64) {
		cbx_buf_adds(ret, text);
		return 0;
	}
	/* Encoders that break lines are common. */
	for (const char *p = text; *p; p++)
		if (*p != '\n' && *p != '\r')
			cbx_buf_addc(&dense, *p);
	if (!dense.len || cbx_base64_decode(ret, dense.data, dense.len) < 0)
		return cbx_refuse(err, "invalid_image", EBADMSG,
				  "the code displayed an image (%s) that cannot be decoded", form->mime);
	return 0;
}

static int show_image(struct cbx_figures *f, const struct form *form, const char *text, struct cbx_term *notes,
		      struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf bytes = { 0 }, note = { 0 };
	char name[40], size[32];
	int r = image_bytes(form, text, &bytes, err);
	bool shown;

	if (r < 0)
		return r;
	shown = strcmp(form->suffix, "png") == 0 &&
		cbx_images_show(&f->images, notes, (const uint8_t *)bytes.data, bytes.len);
	if (shown && f->spare)
		return 0;
	cbx_format_size(bytes.len, size);
	if (f->dir) {
		r = save(f, form, &bytes, name, sizeof(name), err);
		if (r < 0)
			return r;
		cbx_buf_adds(&note, "figure: ");
		if (strcmp(f->dir, ".") != 0) {
			cbx_escape(&note, f->dir);
			if (!cbx_ends_with(f->dir, "/"))
				cbx_buf_addc(&note, '/');
		}
		cbx_buf_addf(&note, "%s (%s, %s)\n", name, form->mime, size);
	} else {
		cbx_buf_addf(&note, "figure: %s, %s (use --out DIR to save)\n", form->mime, size);
	}
	cbx_term_fresh_line(notes);
	cbx_term_puts(notes, cbx_buf_str(&note));
	return 0;
}

int cbx_figures_show(struct cbx_figures *f, const cJSON *data, bool is_result, struct cbx_term *out,
		     struct cbx_term *notes, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf made = { 0 };
	const struct form *form = NULL;
	const char *text, *image = "";

	for (size_t i = 0; i < ARRAY_SIZE(forms) && !form; i++) {
		image = cbx_json_str(data, forms[i].mime);
		if (image[0])
			form = &forms[i];
	}
	text = cbx_display_text(data, &made);
	if (text[0] && (is_result || !form)) {
		cbx_term_fresh_line(out);
		cbx_term_puts(out, text);
		cbx_term_fresh_line(out);
	}
	if (!form || show_image(f, form, image, notes, err) >= 0)
		return 0;
	f->failed = true;
	return -err->code;
}
