/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

static void release_ctx(scmp_filter_ctx *ctx)
{
	if (*ctx)
		seccomp_release(*ctx);
}

/* "argN=V" or "argN&MASK=V" */
static int parse_condition(const char *text, struct scmp_arg_cmp *ret)
{
	unsigned long long mask = 0xffffffff, value;
	const char *p = text;
	char *end;
	unsigned arg;

	if (strncmp(p, "arg", 3) != 0 || p[3] < '0' || p[3] > '5')
		return -EINVAL;
	arg = (unsigned)(p[3] - '0');
	p += 4;
	if (*p == '&') {
		mask = strtoull(p + 1, &end, 0);
		if (end == p + 1)
			return -EINVAL;
		p = end;
	}
	if (*p != '=')
		return -EINVAL;
	value = strtoull(p + 1, &end, 0);
	if (end == p + 1 || *end || value > 0xffffffff || mask > 0xffffffff || (value & ~mask))
		return -EINVAL;
	*ret = SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, mask, value);
	return 0;
}

static int add_line(scmp_filter_ctx ctx, char *line, uint32_t action, unsigned *rules)
{
	struct scmp_arg_cmp conditions[6];
	unsigned n = 0;
	char *save = NULL, *word;
	int nr, r;

	line[strcspn(line, "#\n")] = '\0';
	word = strtok_r(line, " \t", &save);
	if (!word)
		return 0;
	nr = seccomp_syscall_resolve_name(word);
	while ((word = strtok_r(NULL, " \t", &save))) {
		if (n == ARRAY_SIZE(conditions) || parse_condition(word, &conditions[n]) < 0)
			return -EINVAL;
		n++;
	}
	/* A call that this machine's architecture or library does not have cannot be made either. */
	if (nr == __NR_SCMP_ERROR || nr < 0)
		return 0;
	r = seccomp_rule_add_array(ctx, action, nr, n, conditions);
	if (r == -EEXIST)
		return 0;
	if (r == 0)
		(*rules)++;
	return r;
}

static int add_file(scmp_filter_ctx ctx, const char *dir, const char *name, uint32_t action, unsigned *rules,
		    struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/%s", dir, name);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[256];
	int r;

	if (!f)
		return cbx_fail(err, errno, "open system call list %s", path);
	for (unsigned n = 1; fgets(line, sizeof(line), f); n++) {
		r = add_line(ctx, line, action, rules);
		if (r < 0)
			return cbx_fail(err, -r, "%s:%u: bad rule", path, n);
	}
	return 0;
}

/* The highest system call number that libseccomp has a name for. */
static unsigned highest_known(void)
{
	unsigned highest = 0;

	for (int nr = 0; nr < 4096; nr++) {
		_cleanup_free_ char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);

		if (name)
			highest = (unsigned)nr;
	}
	return highest;
}

#define PROLOGUE_LEN 6

/*
 * A call that is newer than the lists answers ENOSYS, not EPERM: programs fall back from the one and give up at the
 * other. This stands before libseccomp's program, which goes on to kill what is not of the native architecture.
 */
static void prologue(struct sock_filter out[PROLOGUE_LEN])
{
	const struct sock_filter code[PROLOGUE_LEN] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 2, 0), /* x32: another architecture */
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, highest_known(), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};

	memcpy(out, code, sizeof(code));
}

/* libseccomp writes a program to a descriptor only. */
static int export(scmp_filter_ctx ctx, struct cbx_filter *ret, struct cbx_err *err)
{
	_cleanup_fd_ int fd = memfd_create("filter", MFD_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0)
		return cbx_fail(err, errno, "make a buffer for the system call filter");
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0)
		return cbx_fail(err, -r, "compile the system call filter");
	if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return cbx_fail(err, errno, "read the system call filter");
	if (st.st_size <= 0 || (size_t)st.st_size > (BPF_MAXINSNS - PROLOGUE_LEN) * sizeof(struct sock_filter))
		return cbx_refuse(err, "filter", E2BIG, "the system call filter is %lld bytes long", (long long)st.st_size);
	ret->insns = cbx_xcalloc(PROLOGUE_LEN + (size_t)st.st_size / sizeof(struct sock_filter),
				 sizeof(struct sock_filter));
	ret->len = (unsigned short)(PROLOGUE_LEN + (size_t)st.st_size / sizeof(struct sock_filter));
	prologue(ret->insns);
	if (cbx_read_full(fd, ret->insns + PROLOGUE_LEN, (size_t)st.st_size) != (ssize_t)st.st_size) {
		cbx_filter_release(ret);
		return cbx_refuse(err, "filter", EIO, "the system call filter could not be read back");
	}
	return 0;
}

int cbx_filter_compile(const char *dir, const char *name, struct cbx_filter *ret, struct cbx_err *err)
{
	_cleanup_(release_ctx) scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	unsigned absent = 0;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!ctx)
		return cbx_refuse(err, "filter", ENOMEM, "libseccomp could not be initialised");
	r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0) /* a balanced tree: the cost of a call no longer depends on its number */
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r < 0)
		return cbx_fail(err, -r, "set up the system call filter");
	r = add_file(ctx, dir, name, SCMP_ACT_ALLOW, &ret->rules, err);
	if (r < 0)
		return r;
	r = add_file(ctx, dir, "absent", SCMP_ACT_ERRNO(ENOSYS), &absent, err);
	if (r < 0)
		return r;
	return export(ctx, ret, err);
}

void cbx_filter_release(struct cbx_filter *f)
{
	free(f->insns);
	f->insns = NULL;
	f->len = 0;
}
