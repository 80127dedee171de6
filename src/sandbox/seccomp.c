/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the lists are read into one entry for each system call number, which holds what is said about
 * the call. From those a program of classic BPF is written:
 *
 *     architecture, or kill
 *     a binary tree of comparisons of the number, over runs of numbers with the same verdict; its leaves are
 *         a return, or
 *         a jump to the block of a call whose arguments matter
 *     the blocks: for each rule, compare and return; then the verdict when none matched
 *
 * The tree is short, and the kernel works out once for each number whether its verdict depends on arguments at all
 * (Linux 5.11): then the program is not even run.
 *
 * libseccomp knows the names; all comparisons are made here. Its own programs are about as long (a binary tree, too: 649
 * instructions against 639 of ours for `strict`), but 34 rules of `strict` and 37 of `default` cannot be said to it: a
 * refusal of 32 masked bits that stands above what is allowed, and what a call answers when none of its conditions hold.
 */
#include "sandbox/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "sandbox/lockdown.h"

#define NUMBERS	       1024 /* system call numbers of x86-64 and aarch64 are far below */
#define CONDITIONS_MAX 6
#define ALIKE_MAX      64   /* rules that share comparisons: a jump over them must reach */
#define KILL_FROM      0x40000000 /* x32's bit; no architecture has numbers of its own beyond */
#define LINE_CHARS     256
#define BLOCK          UINT32_MAX /* in place of a verdict: look at the arguments */

struct condition {
	unsigned arg;
	uint32_t mask, value;
};

/* In the order in which a call's rules are tried. */
enum kind {
	REFUSE,
	ALLOW,
	ANSWER, /* what is left */
};

struct rule {
	struct rule *next;
	enum kind kind;
	uint32_t verdict; /* SECCOMP_RET_… */
	unsigned n;
	struct condition conditions[CONDITIONS_MAX];
};

struct call {
	bool allowed;	    /* unconditionally */
	bool refused;	    /* named by a '!' list, or has rules */
	bool absent;	    /* named by a '?' list */
	uint32_t otherwise; /* what it answers when it is not allowed; 0: as the lists' kinds say */
	struct rule *rules, **tail;
};

struct lists {
	struct call calls[NUMBERS];
	const char *dir;
};

/* ---- reading lists ---- */

static void free_lists(struct lists **l)
{
	for (size_t i = 0; *l && i < NUMBERS; i++)
		for (struct rule *r = (*l)->calls[i].rules, *next; r; r = next) {
			next = r->next;
			free(r);
		}
	free(*l);
}

/* Names that libseccomp may be too old for. All of these have the same number on every architecture. */
static int newer_number(const char *name)
{
	static const struct {
		const char *name;
		int nr;
	} newer[] = {
		{ "cachestat", 451 },	      { "fchmodat2", 452 },	    { "map_shadow_stack", 453 },
		{ "futex_wake", 454 },	      { "futex_wait", 455 },	    { "futex_requeue", 456 },
		{ "statmount", 457 },	      { "listmount", 458 },	    { "lsm_get_self_attr", 459 },
		{ "lsm_set_self_attr", 460 }, { "lsm_list_modules", 461 },  { "mseal", 462 },
		{ "setxattrat", 463 },	      { "getxattrat", 464 },	    { "listxattrat", 465 },
		{ "removexattrat", 466 },     { "open_tree_attr", 467 },    { "file_getattr", 468 },
		{ "file_setattr", 469 },      { "listns", 470 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(newer); i++)
		if (!strcmp(newer[i].name, name))
			return newer[i].nr;
	return -1;
}

/* x86-64 alone; libseccomp 2.5 has no name for them. */
static int probe_number(const char *name)
{
	bool x86 = seccomp_arch_native() == SCMP_ARCH_X86_64;

	return !strcmp(name, "uretprobe") ? (x86 ? 335 : -2) : !strcmp(name, "uprobe") ? (x86 ? 336 : -2) : -1;
}

/* A number; -2: a call that only other architectures have; -1: unknown. */
static int resolve(const char *name)
{
	int nr = newer_number(name);

	if (nr < 0)
		nr = probe_number(name);
	if (nr != -1)
		return nr;
	nr = seccomp_syscall_resolve_name(name);
	if (nr == __NR_SCMP_ERROR)
		return -1;
	return nr < 0 || nr >= NUMBERS ? -2 : nr;
}

/* "argN=V" or "argN&MASK=V" */
static int parse_condition(const char *text, struct condition *ret)
{
	unsigned long long mask = 0xffffffff, value;
	const char *p = text;
	char *end;

	if (strncmp(p, "arg", 3) != 0 || p[3] < '0' || p[3] > '5')
		return -EINVAL;
	ret->arg = (unsigned)(p[3] - '0');
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
	ret->mask = (uint32_t)mask;
	ret->value = (uint32_t)value;
	return 0;
}

static void add_rule(struct call *c, const struct rule *rule)
{
	struct rule *r = cbx_xcalloc(1, sizeof(*r));

	*r = *rule;
	r->next = NULL;
	if (!c->tail)
		c->tail = &c->rules;
	*c->tail = r;
	c->tail = &r->next;
}

/* A first word in capitals, or 0, says what a call answers that nothing allows. Returns false where it is none. */
static bool parse_answer(const char *word, uint32_t *ret)
{
	static const struct {
		const char *name;
		int code;
	} answers[] = {
		{ "0", 0 },
		{ "EPERM", EPERM },
		{ "EAFNOSUPPORT", EAFNOSUPPORT },
		{ "EOPNOTSUPP", EOPNOTSUPP },
		{ "EPROTONOSUPPORT", EPROTONOSUPPORT },
		{ "ESOCKTNOSUPPORT", ESOCKTNOSUPPORT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		if (!strcmp(answers[i].name, word)) {
			*ret = SECCOMP_RET_ERRNO | (uint32_t)answers[i].code;
			return true;
		}
	return false;
}

/* What a line says of a call, by the kind of list that it stands in. */
static void apply(struct call *c, char kind, const struct rule *rule)
{
	if (rule->kind == ANSWER && !rule->n)
		c->otherwise = rule->verdict;
	else if (kind == '!')
		c->refused = true;
	else if (kind == '?')
		c->absent = true;
	else if (rule->n)
		add_rule(c, rule);
	else
		c->allowed = true;
}

/* One line of a list that stands for itself ('@') or is named by '!' or '?'. Returns NULL, or what is wrong. */
static const char *add_call(struct lists *l, char kind, char *line)
{
	struct rule rule = { .kind = ALLOW, .verdict = SECCOMP_RET_ALLOW };
	char *save = NULL, *word = strtok_r(line, " \t", &save);
	int nr;

	if (*word == '-') {
		rule.kind = REFUSE;
		rule.verdict = SECCOMP_RET_ERRNO | EPERM;
		word++;
	} else if (parse_answer(word, &rule.verdict)) {
		rule.kind = ANSWER;
		word = strtok_r(NULL, " \t", &save);
		if (!word)
			return "the name of a system call is missing";
	}
	nr = resolve(word);
	if (nr == -1)
		return "no system call has this name";
	while ((word = strtok_r(NULL, " \t", &save))) {
		if (rule.n == CONDITIONS_MAX)
			return "too many conditions";
		if (parse_condition(word, &rule.conditions[rule.n]) < 0)
			return "not a condition: argN=VALUE or argN&MASK=VALUE, of 32 bits";
		rule.n++;
	}
	if (rule.kind == REFUSE && !rule.n)
		return "a line that refuses needs a condition";
	if (nr >= 0)
		apply(&l->calls[nr], kind, &rule);
	return NULL;
}

static int add_file(struct lists *l, const char *name, char kind, bool group, struct cbx_err *err);

static int add_line(struct lists *l, char *line, const char *path, unsigned number, char kind, bool group,
		    struct cbx_err *err)
{
	const char *wrong;
	size_t n;

	if (!strchr(line, '\n') && strlen(line) == LINE_CHARS - 1)
		return cbx_refuse(err, "filter", EINVAL, "%s:%u: the line is too long", path, number);
	line[strcspn(line, "#\n")] = '\0';
	line += strspn(line, " \t");
	for (n = strlen(line); n && (line[n - 1] == ' ' || line[n - 1] == '\t'); n--)
		line[n - 1] = '\0';
	if (!*line)
		return 0;
	if (strchr("@!?", *line)) {
		if (group || !cbx_name_valid(line + 1))
			return cbx_refuse(err, "filter", EINVAL, "%s:%u: %s", path, number,
					  group ? "a group holds no groups" : "not the name of a group");
		return add_file(l, line + 1, *line, true, err);
	}
	wrong = add_call(l, kind, line);
	return wrong ? cbx_refuse(err, "filter", EINVAL, "%s:%u: \"%.60s\": %s", path, number, line, wrong) : 0;
}

static int add_file(struct lists *l, const char *name, char kind, bool group, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/%s%s", l->dir, group ? "groups/" : "", name);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[LINE_CHARS];

	if (!f)
		return cbx_fail(err, errno, "open system call list %s", path);
	for (unsigned n = 1; fgets(line, sizeof(line), f); n++) {
		int r = add_line(l, line, path, n, kind, group, err);

		if (r < 0)
			return r;
	}
	return ferror(f) ? cbx_fail(err, EIO, "read system call list %s", path) : 0;
}

/* ---- writing the program ---- */

struct program {
	struct sock_filter code[CBX_LOCKDOWN_FILTER_MAX];
	unsigned len; /* may exceed the array: then nothing was written there */
};

/* Numbers from `first` up to the next run's. */
struct run {
	uint32_t first;
	uint32_t verdict; /* SECCOMP_RET_…, or BLOCK */
	unsigned nr;      /* BLOCK: whose */
	unsigned jump;    /* BLOCK: the instruction that goes there */
};

static unsigned emit(struct program *p, struct sock_filter insn)
{
	if (p->len < ARRAY_SIZE(p->code))
		p->code[p->len] = insn;
	return p->len++;
}

static void emit_return(struct program *p, uint32_t verdict)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

static void emit_load(struct program *p, size_t offset)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* Let the jump at `at`, whichever kind it is, go to the next instruction that is written when the comparison is true
 * (`yes`) or not. */
static void land_here(struct program *p, unsigned at, bool yes)
{
	unsigned distance = p->len - at - 1;
	struct sock_filter *i = at < ARRAY_SIZE(p->code) ? &p->code[at] : NULL;

	if (!i)
		return;
	if (BPF_OP(i->code) == BPF_JA)
		i->k = distance;
	else if (yes)
		i->jt = (uint8_t)distance;
	else
		i->jf = (uint8_t)distance;
}

/* Go to one half or the other. A conditional jump reaches 255 instructions; a half of n runs has fewer than 3n. */
static void emit_tree(struct program *p, struct run *runs, size_t n)
{
	size_t half = n / 2;
	unsigned at;

	if (n == 1) {
		if (runs->verdict == BLOCK)
			runs->jump = emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
		else
			emit_return(p, runs->verdict);
		return;
	}
	at = emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, runs[half].first, 0, 0));
	if (3 * half > UINT8_MAX) {
		if (at < ARRAY_SIZE(p->code))
			p->code[at].jf = 1;
		at = emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	}
	emit_tree(p, runs, half);
	land_here(p, at, true);
	emit_tree(p, runs + half, n - half);
}

static size_t low_half(unsigned arg)
{
	return offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t) +
	       (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(uint32_t) : 0);
}

static void load_argument(struct program *p, const struct condition *c)
{
	emit_load(p, low_half(c->arg));
	if (c->mask != 0xffffffff)
		emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, c->mask));
}

static unsigned compare(struct program *p, const struct condition *c)
{
	return emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, c->value, 0, 0));
}

/* Do they differ in the value of their last condition at most? */
static bool alike(const struct rule *a, const struct rule *b)
{
	if (a->kind != b->kind || a->verdict != b->verdict || a->n != b->n)
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (a->conditions[i].arg != b->conditions[i].arg || a->conditions[i].mask != b->conditions[i].mask ||
		    (i + 1 < a->n && a->conditions[i].value != b->conditions[i].value))
			return false;
	return true;
}

/* Rules that follow each other and are alike share what they have in common. Returns the first that is not of them.
 * This is the one place where arguments are compared. */
static const struct rule *emit_rules(struct program *p, const struct rule *r)
{
	const struct condition *last = &r->conditions[r->n - 1];
	const struct rule *first = r;
	unsigned misses[CONDITIONS_MAX], at;

	for (unsigned i = 0; i + 1 < r->n; i++) {
		load_argument(p, &r->conditions[i]);
		misses[i] = compare(p, &r->conditions[i]);
	}
	load_argument(p, last);
	for (unsigned k = 0; r && k < ALIKE_MAX && alike(first, r); k++, r = r->next) {
		at = compare(p, &r->conditions[r->n - 1]);
		emit_return(p, r->verdict);
		land_here(p, at, false);
	}
	for (unsigned i = 0; i + 1 < first->n; i++)
		land_here(p, misses[i], false);
	return r;
}

/* The verdict when no rule matches. */
static uint32_t otherwise(const struct call *c)
{
	if (c->allowed)
		return SECCOMP_RET_ALLOW;
	if (c->otherwise)
		return c->otherwise;
	if (c->absent)
		return SECCOMP_RET_ERRNO | ENOSYS;
	return SECCOMP_RET_ERRNO | (c->refused || c->rules ? EPERM : ENOSYS);
}

static bool has_rules(const struct call *c, enum kind kind)
{
	for (const struct rule *r = c->rules; r; r = r->next)
		if (r->kind == kind)
			return true;
	return false;
}

static void emit_block(struct program *p, const struct call *c)
{
	for (enum kind kind = REFUSE; kind <= (c->allowed ? REFUSE : ANSWER); kind++)
		for (const struct rule *r = c->rules; r;)
			r = r->kind == kind ? emit_rules(p, r) : r->next;
	emit_return(p, otherwise(c));
}

static size_t find_runs(const struct lists *l, struct run *runs)
{
	size_t n = 0;

	for (unsigned nr = 0; nr < NUMBERS; nr++) {
		const struct call *c = &l->calls[nr];
		bool block = c->rules && (!c->allowed || has_rules(c, REFUSE));
		uint32_t verdict = block ? BLOCK : otherwise(c);

		if (!n || block || runs[n - 1].verdict != verdict)
			runs[n++] = (struct run){ .first = nr, .verdict = verdict, .nr = nr };
	}
	runs[n++] = (struct run){ .first = NUMBERS, .verdict = SECCOMP_RET_ERRNO | ENOSYS };
	runs[n++] = (struct run){ .first = KILL_FROM, .verdict = SECCOMP_RET_KILL_PROCESS };
	/* No call at all: what a tracer puts in place of a call that it keeps from the kernel. */
	runs[n++] = (struct run){ .first = UINT32_MAX, .verdict = SECCOMP_RET_ERRNO | ENOSYS };
	return n;
}

static void write_program(const struct lists *l, struct program *p)
{
	struct run runs[NUMBERS + 3];
	size_t n = find_runs(l, runs);

	emit_load(p, offsetof(struct seccomp_data, arch));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0));
	emit_return(p, SECCOMP_RET_KILL_PROCESS);
	emit_load(p, offsetof(struct seccomp_data, nr));
	emit_tree(p, runs, n);
	for (size_t i = 0; i < n; i++)
		if (runs[i].verdict == BLOCK) {
			land_here(p, runs[i].jump, true);
			emit_block(p, &l->calls[runs[i].nr]);
		}
}

int cbx_filter_compile(const char *dir, const char *name, struct cbx_filter *ret, struct cbx_err *err)
{
	_cleanup_(free_lists) struct lists *l = cbx_xcalloc(1, sizeof(*l));
	_cleanup_free_ struct program *p = cbx_xcalloc(1, sizeof(*p));
	int r;

	memset(ret, 0, sizeof(*ret));
	l->dir = dir;
	r = add_file(l, name, '@', false, err);
	if (r < 0)
		return r;
	write_program(l, p);
	if (p->len > ARRAY_SIZE(p->code))
		return cbx_refuse(err, "filter", E2BIG, "%s/%s: the filter has %u instructions; %zu is the most", dir,
				  name, p->len, ARRAY_SIZE(p->code));
	ret->insns = cbx_xcalloc(p->len, sizeof(*p->code));
	memcpy(ret->insns, p->code, p->len * sizeof(*p->code));
	ret->len = (unsigned short)p->len;
	for (size_t i = 0; i < NUMBERS; i++)
		ret->rules += l->calls[i].allowed || has_rules(&l->calls[i], ALLOW);
	return 0;
}

void cbx_filter_release(struct cbx_filter *f)
{
	free(f->insns);
	f->insns = NULL;
	f->len = 0;
}
