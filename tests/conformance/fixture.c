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
};

static void input_ended(evutil_socket_t fd, short what, void *arg)
{
	char buf[64];

	if (read(STDIN_FILENO, buf, sizeof(buf)) <= 0)
		event_base_loopbreak(arg);
}

int main(int argc, char **argv)
{
	struct cbx_http_config config = {
		.registry = &registry,
		.address = argc > 1 ? argv[1] : "127.0.0.1:0",
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
	printf("%s\n", cbx_http_url(http));
	fflush(stdout);
	in = event_new(base, STDIN_FILENO, EV_READ | EV_PERSIST, input_ended, base);
	event_add(in, NULL);
	event_base_dispatch(base);
	event_free(in);
	cbx_http_free(http);
	event_base_free(base);
	return 0;
}
