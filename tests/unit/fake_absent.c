/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake engine does not have: databases, packages, commands. */
#include <errno.h>
#include <stdlib.h>

#include "fake_state.h"
#include "session/commands.h"
#include "session/databases.h"

cJSON *cbx_engine_databases(const struct cbx_caller *caller)
{
	return cbx_json_new_arr();
}

int cbx_engine_query(struct cbx_caller *caller, const struct cbx_query_spec *spec, struct cbx_answer_op *op,
		     struct cbx_err *err)
{
	return cbx_refuse(err, "no_connection", ENOENT, "there are no databases here");
}

int cbx_session_install(const struct cbx_caller *by, struct cbx_session *s, const cJSON *requirements,
			struct cbx_answer_op *op, struct cbx_err *err)
{
	return cbx_refuse(err, "package_refused", EPERM, "%d packages cannot be installed here",
			  cJSON_GetArraySize(requirements));
}

int cbx_session_command(struct cbx_session *s, const struct cbx_command_spec *spec, struct cbx_command_op *op,
			struct cbx_command **ret, struct cbx_err *err)
{
	return cbx_refuse(err, "too_many_commands", EAGAIN, "session %s takes no commands", s->spec.id);
}

int cbx_command_find(struct cbx_session *s, uint64_t id, struct cbx_command **ret, struct cbx_err *err)
{
	return cbx_refuse(err, "execution_not_found", ENOENT, "session %s has no command", s->spec.id);
}

struct cbx_session *cbx_command_session(const struct cbx_command *c)
{
	abort();
}

int cbx_command_watch(struct cbx_command *c, struct cbx_command_op *op, struct cbx_err *err)
{
	abort();
}

void cbx_command_interrupt(struct cbx_command *c)
{
	abort();
}

uint64_t cbx_command_id(const struct cbx_command *c)
{
	abort();
}

enum cbx_status cbx_command_status(const struct cbx_command *c)
{
	abort();
}

cJSON *cbx_command_describe(const struct cbx_command *c)
{
	abort();
}

cJSON *cbx_command_to_json(const struct cbx_command *c)
{
	abort();
}

bool cbx_command_output(const struct cbx_command *c, uint64_t from, size_t max, struct cbx_buf *out,
			struct cbx_output_extent *ret)
{
	abort();
}

cJSON *cbx_session_commands(const struct cbx_session *s)
{
	return cbx_json_new_arr();
}

uint64_t cbx_command_given(const struct cbx_command *c)
{
	abort();
}

bool cbx_command_terminal(const struct cbx_command *c)
{
	abort();
}

bool cbx_command_kept(const struct cbx_command *c, uint64_t *ret_from, uint64_t *ret_end)
{
	abort();
}

bool cbx_command_waits(const struct cbx_command *c)
{
	abort();
}

void cbx_command_since(const struct cbx_command *c, uint64_t from,
		       void (*fn)(void *arg, const char *stream, const char *p, size_t n), void *arg)
{
	abort();
}

void cbx_command_confirm(struct cbx_command *c, uint64_t before)
{
	abort();
}

void cbx_command_discard(struct cbx_command *c)
{
	abort();
}

int cbx_command_input(struct cbx_command *c, const char *p, size_t n, struct cbx_input_op *op, struct cbx_err *err)
{
	abort();
}

void cbx_command_resize(struct cbx_command *c, uint16_t rows, uint16_t columns)
{
	abort();
}
