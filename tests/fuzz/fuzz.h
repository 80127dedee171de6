/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TESTS_FUZZ_H
#define CBX_TESTS_FUZZ_H

/* What the libFuzzer targets share. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold for every input: the fuzzer keeps the input that breaks it. */
#define must(cond)                                                                      \
	do {                                                                            \
		if (!(cond)) {                                                          \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#endif
