/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TESTS_UNIT_MAIN_H
#define CBX_TESTS_UNIT_MAIN_H

/* A program of one test case, which add() fills; it speaks TAP. */
#include <check.h>

#define TEST_MAIN(title, add)                                                                  \
	int main(void)                                                                         \
	{                                                                                      \
		Suite *suite = suite_create(title);                                            \
		TCase *tcase = tcase_create(title);                                            \
		SRunner *runner;                                                               \
                                                                                               \
		add(tcase);                                                                    \
		tcase_set_timeout(tcase, 120);                                                 \
		suite_add_tcase(suite, tcase);                                                 \
		runner = srunner_create(suite);                                                \
		srunner_set_tap(runner, "-");                                                  \
		srunner_run_all(runner, CK_SILENT);                                            \
		srunner_free(runner);                                                          \
		return 0; /* the TAP lines say what failed */                                  \
	}

#endif
