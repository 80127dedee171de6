/* SPDX-License-Identifier: Apache-2.0 */
/* dump_filter DIR PROFILE: the compiled filter, for tests/unit/filter.py. One line for the architecture, one for each
 * instruction, and one for each system call that libseccomp knows. */
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>

#include "sandbox/seccomp.h"

int main(int argc, char **argv)
{
	struct cbx_filter f;
	struct cbx_err err;

	if (argc != 3)
		return 2;
	if (cbx_filter_compile(argv[1], argv[2], &f, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	printf("arch %u\n", seccomp_arch_native());
	printf("rules %u\n", f.rules);
	for (unsigned i = 0; i < f.len; i++)
		printf("insn %u %u %u %u\n", f.insns[i].code, f.insns[i].jt, f.insns[i].jf, f.insns[i].k);
	for (int nr = 0; nr < 1024; nr++) {
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);

		if (name)
			printf("call %s %d\n", name, nr);
		free(name);
	}
	cbx_filter_release(&f);
	return 0;
}
