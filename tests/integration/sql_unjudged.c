/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of src/sql/judge.c: codebox-sql that lets everything pass, to see what databases refuse by themselves.
 */
#include "sql/judge.h"

int cbx_sql_judge(enum cbx_dialect dialect, const char *sql, size_t n, struct cbx_buf *ret_text, size_t *ret_parameters,
		  struct cbx_err *err)
{
	cbx_buf_add(ret_text, sql, n);
	*ret_parameters = 0;
	return 0;
}
