/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line writes: filtering for terminals, escaping of names, figures, exit statuses. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cell.h"
#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/term.h"
#include "unit_main.h"

static struct cbx_term term;
static int reader;

static void setup(void)
{
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	reader = fds[0];
	cbx_term_init(&term, fds[1]);
	ck_assert(!term.filter);
}

static void teardown(void)
{
	close(reader);
	close(term.fd);
}

static const char *written(void)
{
	static char text[65536];
	ssize_t n = read(reader, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static const struct {
	const char *in, *out;
} filtered[] = {
	{ "plain\ttext\r\n\b", "plain\ttext\r\n\b" },
	{ "ä€\360\237\230\200", "ä€\360\237\230\200" },
	{ "\033[31;1mred\033[0m", "\033[31;1mred\033[0m" },
	{ "a\033[2K\033[1A\033[10G\033[3Jb", "ab" },
	{ "\033[38:5:1mx", "\033[38:5:1mx" },
	{ "\033]0;title\007x", "^[]0;title^Gx" },
	{ "\033[6n", "^[[6n" },
	{ "\033[?1049h", "^[[?1049h" },
	{ "\033[5;3H", "" },
	{ "\033[c", "^[[c" },
	{ "\033c", "^[c" },
	{ "\033\033[1m", "^[\033[1m" },
	{ "\033[\n", "^[[\n" },
	{ "\033[1\0337", "^[[1^[7" },
	{ "\033[1\302\2332J", "^[[1\\x9b2J" },
	{ "\302\2335n", "\\x9b5n" },
	{ "\233x\377", "\\x9bx\\xff" },
	{ "\001\177", "^A^?" },
	{ "\342\200\256a\342\201\251\330\234\342\200\216\342\200\220", "\\u202ea\\u2069\\u061c\\u200e\342\200\220" },
	{ "\342\202\033[1m\360\237", "\\xe2\\x82\033[1m\\xf0\\x9f" },
	{ "\033[1111111111111111111111111111111111111111m", "^[[111111111111111111111111111111"
							    "1111111111m" },
};

START_TEST(terminals_are_protected)
{
	term.filter = true;
	cbx_term_puts(&term, filtered[_i].in);
	cbx_term_flush(&term);
	ck_assert_str_eq(written(), filtered[_i].out);
}
END_TEST

START_TEST(sequences_may_be_split_anywhere)
{
	term.filter = true;
	for (const char *p = filtered[_i].in; *p; p++)
		cbx_term_write(&term, p, 1);
	cbx_term_flush(&term);
	ck_assert_str_eq(written(), filtered[_i].out);
}
END_TEST

START_TEST(files_get_everything)
{
	cbx_term_puts(&term, "\033]0;x\007\233");
	ck_assert_str_eq(written(), "\033]0;x\007\233");
}
END_TEST

START_TEST(fresh_lines)
{
	cbx_term_fresh_line(&term);
	cbx_term_puts(&term, "a");
	cbx_term_fresh_line(&term);
	cbx_term_fresh_line(&term);
	cbx_term_puts(&term, "b\n");
	cbx_term_fresh_line(&term);
	ck_assert_str_eq(written(), "a\nb\n");
}
END_TEST

START_TEST(names_are_escaped)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_escape(&out, "a\nb\033[2Jü\302\233\377\177\342\200\256\342\201\246");
	ck_assert_str_eq(cbx_buf_str(&out), "a\\x0ab\\x1b[2Jü\\x9b\\xff\\x7f\\u202e\\u2066");
}
END_TEST

static const struct {
	const char *in, *out;
} for_models[] = {
	{ "a\tb\r\nä€\360\237\230\200\342\200\220", "a\tb\r\nä€\360\237\230\200\342\200\220" },
	{ "\033[1;31mred\033[0m \033]0;title\aend\033]8;;x\033\\.\033Pq\033\\", "red end." },
	{ "\033", "" },
	{ "a\033[", "a" },
	{ "\033cx\033(By\033[?1049hz\033[3J", "xyz" },
	{ "\033]never closed\nnext", "\nnext" },
	{ "\001\b\177\302\233\2335n\377", "\\x01\\x08\\x7f\\x9b\\x9b5n\\xff" },
	{ "\342\200\252\342\200\256\342\201\246\342\201\251\342\200\216\342\200\217\330\234",
	  "\\u202a\\u202e\\u2066\\u2069\\u200e\\u200f\\u061c" },
	/* Tags, a separator of lines, one without width, private use, no character; joiners and selectors of emoji. */
	{ "a\363\240\201\201\342\200\250\342\200\213\356\200\200\357\277\277b", "a\\U000e0041\\u2028\\u200b\\ue000\\uffffb" },
	{ "\360\237\221\250\342\200\215\342\235\244\357\270\217\342\200\214\360\240\200\200",
	  "\360\237\221\250\342\200\215\342\235\244\357\270\217\342\200\214\360\240\200\200" },
};

START_TEST(models_read_words)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_clean(&out, for_models[_i].in);
	ck_assert_str_eq(cbx_buf_str(&out), for_models[_i].out);
	ck_assert(cbx_is_clean(cbx_buf_str(&out)));
	ck_assert(cbx_is_clean(for_models[_i].in) == (strcmp(for_models[_i].in, for_models[_i].out) == 0));
}
END_TEST

static int show(struct cbx_figures *f, const char *json, bool is_result, struct cbx_err *err)
{
	_cleanup_json_ cJSON *data = cJSON_Parse(json);

	ck_assert_ptr_nonnull(data);
	return cbx_figures_show(f, data, is_result, &term, &term, err);
}

START_TEST(figures_are_mentioned)
{
	struct cbx_figures f;
	struct cbx_err err;

	cbx_figures_init(&f, NULL);
	ck_assert_int_eq(show(&f, "{\"image/png\":\"AAEC\",\"text/plain\":\"<Figure>\"}", false, &err), 0);
	ck_assert_str_eq(written(), "figure: image/png, 3 bytes (use --out DIR to save)\n");
	ck_assert_int_eq(show(&f, "{\"image/png\":\"AAEC\",\"text/plain\":\"<Image>\"}", true, &err), 0);
	ck_assert_str_eq(written(), "<Image>\nfigure: image/png, 3 bytes (use --out DIR to save)\n");
	ck_assert_int_eq(show(&f, "{\"text/html\":\"<b>\"}", false, &err), 0);
	ck_assert_int_eq(show(&f, "{\"image/png\":5}", false, &err), 0);
	ck_assert_int_eq(show(&f, "[]", false, &err), 0);
	ck_assert_int_eq(cbx_figures_show(&f, NULL, false, &term, &term, &err), 0);
	ck_assert_str_eq(written(), "");
	ck_assert_int_lt(show(&f, "{\"image/png\":\"====\"}", false, &err), 0);
	ck_assert_str_eq(err.kind, "invalid_image");
	ck_assert(f.failed);
	cbx_figures_release(&f);
}
END_TEST

START_TEST(figures_are_saved_without_overwriting)
{
	char dir[] = "/tmp/cbxfiguresXXXXXX", deep[64], path[256], bytes[8];
	struct cbx_figures f;
	struct cbx_err err;
	FILE *file;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(deep, sizeof(deep), "%s/a/b/", dir);
	for (int i = 0; i < 2; i++) {
		cbx_figures_init(&f, deep);
		ck_assert_int_eq(show(&f, "{\"image/png\":\"AA\\nEC\"}", false, &err), 0);
		cbx_figures_release(&f);
	}
	snprintf(path, sizeof(path),
		 "figure: %sfigure-1.png (image/png, 3 bytes)\nfigure: %sfigure-2.png (image/png, 3 bytes)\n", deep,
		 deep);
	ck_assert_str_eq(written(), path);
	snprintf(path, sizeof(path), "%sfigure-2.png", deep);
	file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fread(bytes, 1, sizeof(bytes), file), 3);
	ck_assert_int_eq(memcmp(bytes, "\0\1\2", 3), 0);
	fclose(file);
	unlink(path);
	path[strlen(path) - 5] = '1';
	unlink(path);
	rmdir(deep);
	snprintf(deep, sizeof(deep), "%s/a", dir);
	rmdir(deep);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

static const struct {
	const char *execution;
	int status;
} statuses[] = {
	{ "{\"status\":\"ok\"}", 0 },
	{ "{\"status\":\"error\",\"error\":{}}", 1 },
	{ "{\"status\":\"ok\",\"exit_code\":0}", 0 },
	{ "{\"status\":\"error\",\"exit_code\":7}", 7 },
	{ "{\"status\":\"ok\",\"exit_code\":-1}", 255 },
	{ "{\"status\":\"ok\",\"exit_code\":1e300}", -1 },
	{ "{\"status\":\"timeout\"}", 124 },
	{ "{\"status\":\"killed\",\"exit_code\":3}", 3 }, /* a program that ended by itself */
	{ "{\"status\":\"cancelled\"}", 130 },
	{ "{\"status\":7}", 1 },
	{ "{}", 1 },
};

START_TEST(exit_statuses)
{
	_cleanup_json_ cJSON *x = cJSON_Parse(statuses[_i].execution);
	int status = cbx_cell_exit_status(x);

	ck_assert_int_ge(status, 0);
	ck_assert_int_le(status, 255);
	if (statuses[_i].status >= 0)
		ck_assert_int_eq(status, statuses[_i].status);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, terminals_are_protected, 0, (int)ARRAY_SIZE(filtered));
	tcase_add_loop_test(t, sequences_may_be_split_anywhere, 0, (int)ARRAY_SIZE(filtered));
	tcase_add_test(t, files_get_everything);
	tcase_add_test(t, fresh_lines);
	tcase_add_test(t, names_are_escaped);
	tcase_add_loop_test(t, models_read_words, 0, ARRAY_SIZE(for_models));
	tcase_add_test(t, figures_are_mentioned);
	tcase_add_test(t, figures_are_saved_without_overwriting);
	tcase_add_loop_test(t, exit_statuses, 0, (int)ARRAY_SIZE(statuses));
}

TEST_MAIN("client output", add)
