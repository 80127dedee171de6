/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SQL_RIGHTS_H
#define CBX_SQL_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * SQL Server has no read-only transaction, so its user must not be able to write. Its permissions, a line for each, as
 * fn_my_permissions() has them: true if one is not of those that only read, and it is copied to `which`; what is not
 * known counts as one that writes.
 */
bool cbx_sql_rights_write(const char *permissions, char *which, size_t size);

#endif
