/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LIMITS_H
#define CBX_BASE_LIMITS_H

/*
 * Every numeric ceiling, by concern. codebox-limits(7) is made from these files (man/limits.awk), so behind each value
 * is a comment of the form
 *
 *	owner: what it bounds; what happens when it is hit [file:function of a test that hits it, below tests/]
 *
 * and above each group one that gives its title. tests/packaging/limits.py checks that.
 */
#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

#include "base/limits-artifacts.h"
#include "base/limits-clients.h"
#include "base/limits-databases.h"
#include "base/limits-network.h"
#include "base/limits-sandboxes.h"
#include "base/limits-sessions.h"

#endif
