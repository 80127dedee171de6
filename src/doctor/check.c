/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/check.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"

bool cbx_read_number(const char *path, long long *ret)
{
	char text[64];

	return cbx_read_line(AT_FDCWD, path, text, sizeof(text)) >= 0 && sscanf(text, "%lld", ret) == 1;
}

void cbx_result_set(struct cbx_result *r, enum cbx_check_state state, const char *found, const char *means,
		    const char *remedy)
{
	r->state = state;
	snprintf(r->found, sizeof(r->found), "%s", found);
	snprintf(r->means, sizeof(r->means), "%s", means);
	snprintf(r->remedy, sizeof(r->remedy), "%s", remedy);
}
