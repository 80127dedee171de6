/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the HTTP listener and protocol core of codeboxd with tables of the conformance suite. Prints the
 * URL, and serves until standard input ends.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "http/http.h"
#include "session/principal.h"

static cJSON *capabilities(const struct cbx_mcp_revision *rev)
{
	cJSON *caps = cbx_json_new_obj(), *c;

	cbx_json_set(caps, "tools", cbx_json_new_obj());
	cbx_json_set(caps, "prompts", cbx_json_new_obj());
	c = cbx_json_new_obj();
	if (!rev->modern)
		cbx_json_set_bool(c, "subscribe", true);
	cbx_json_set(caps, "resources", c);
	if (rev->completions)
		cbx_json_set(caps, "completions", cbx_json_new_obj());
	cbx_json_set(caps, "logging", cbx_json_new_obj());
	return caps;
}

static const struct cbx_mcp_registry registry = {
	.tools = fixture_tools,
	.methods = fixture_methods,
	.capabilities = capabilities,
	.answered = fixture_answered,
	.server = "codebox", /* whose instructions say nothing of an engine: there is none */
	.instructions = "Tools of the conformance suite.",
};

static void input_ended(evutil_socket_t fd, short what, void *arg)
{
	char buf[64];

	if (read(STDIN_FILENO, buf, sizeof(buf)) <= 0)
		event_base_loopbreak(arg);
}

int main(int argc, char **argv)
{
	const char *address = argc > 1 ? argv[1] : "127.0.0.1:0";
	static const struct cbx_principal local = CBX_PRINCIPAL_LOCAL;
	struct cbx_http_config config = {
		.principal = &local,
		.registry = &registry,
		.addresses = &address,
		.naddresses = 1,
		.token_file = argc > 2 ? argv[2] : NULL,
	};
	struct event_config *ec = event_config_new();
	struct event_base *base;
	struct cbx_http *http;
	struct event *in;
	struct cbx_err err;

	signal(SIGPIPE, SIG_IGN);
	event_config_set_flag(ec, EVENT_BASE_FLAG_NOLOCK);
	base = event_base_new_with_config(ec);
	event_config_free(ec);
	if (!base)
		return 1;
	if (cbx_http_new(base, &config, &http, &err) < 0) {
		fprintf(stderr, "fixture: %s\n", err.msg);
		event_base_free(base);
		return 2;
	}
	cbx_http_serve(http);
	printf("%s\n", cbx_http_url(http, 0));
	fflush(stdout);
	in = event_new(base, STDIN_FILENO, EV_READ | EV_PERSIST, input_ended, base);
	event_add(in, NULL);
	event_base_dispatch(base);
	event_free(in);
	cbx_http_free(http);
	event_base_free(base);
	return 0;
}
