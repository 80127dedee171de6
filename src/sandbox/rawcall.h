/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_RAWCALL_H
#define CBX_SANDBOX_RAWCALL_H

/*
 * A system call and nothing else: no C library, no errno, no thread-local storage. For code that must also run inside a
 * program whose C library is not ours. Returns what the kernel returned: -4095 … -1 is a negative errno.
 */
#if defined(__x86_64__)

/* syscall(2): number in rax, arguments in rdi rsi rdx r10 r8 r9; rcx and r11 are lost. */
static inline long cbx_raw(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#elif defined(__aarch64__)

/* syscall(2): number in x8, arguments in x0 … x5, the result in x0. */
static inline long cbx_raw(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
	return x0;
}

#else
#error "cbx_raw() is written for x86-64 and aarch64 only"
#endif

#define cbx_raw1(nr, a) cbx_raw(nr, (long)(a), 0, 0, 0, 0, 0)
#define cbx_raw2(nr, a, b) cbx_raw(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define cbx_raw3(nr, a, b, c) cbx_raw(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define cbx_raw4(nr, a, b, c, d) cbx_raw(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define cbx_raw5(nr, a, b, c, d, e) cbx_raw(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

#endif
