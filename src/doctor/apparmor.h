/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DOCTOR_APPARMOR_H
#define CBX_DOCTOR_APPARMOR_H

/*
 * AppArmor refuses in two ways. A machine may keep user namespaces for programs that have a profile with a rule "userns"
 * (Ubuntu 23.10 and newer: kernel.apparmor_restrict_unprivileged_userns): whatever has none can make one, but changes to
 * the profile "unprivileged_userns" thereby, which denies every capability within. And a profile that codebox is run
 * under may deny as much. An ordinary user cannot read the loaded profiles; a process can always read its own label.
 */
#include <stdbool.h>

#include "doctor/check.h"

/*
 * `what` was refused with `code` to a process with this label. True: AppArmor is why, and r says how to put it right.
 * root: "", or a directory with a tree of /proc and /sys to look into, for tests.
 */
bool cbx_apparmor_explains(const char *root, const char *label, const char *what, int code, struct cbx_result *r);

#endif
