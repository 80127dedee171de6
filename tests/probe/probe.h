/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PROBE_H
#define TESTS_PROBE_H

/*
 * One probe is one attempt, in a process of its own. It says what came of it with one of the functions below, and
 * returns what they return: 0, it succeeded; 1, it was refused; 2, it could not be tried here.
 */
enum { DONE, REFUSED, NOT_TRIED };

struct probe {
	const char *name;
	int (*run)(char **args); /* NULL-terminated */
};

/* Each ends with an entry without a name. */
extern const struct probe call_probes[], file_probes[], state_probes[], net_probes[], process_probes[];

/* The answer's text, as printf; gives code back. At most 16 KiB are kept; longer texts are cut. */
int answer(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* More text behind what answer() has said. */
void answer_more(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a system call gave, with errno: "ok", or the error's name. */
int answer_call(long result);

/* As answer_call; but an error that shows that the kernel looked at the request, and no filter refused it, is a
 * success. */
int answer_reached(long result, const int *errors, unsigned n);

const char *error_name(int code);

/* probe --call NUMBER ARGUMENT...: a system call by number. probe --sweep FIRST LAST: all of them, without arguments.
 */
int raw_call(char **args);
int sweep(char **args);

/* Become user 0 of user, pid, mount, network, IPC and UTS namespaces, with a loopback that is up and carries a route.
 * Goes on as pid 1 of them. */
int enter_namespaces(void);

#endif
