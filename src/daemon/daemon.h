/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_DAEMON_H
#define CBX_DAEMON_DAEMON_H

/*
 * What the files of codeboxd share.
 *
 *   main.c       the order of giving up privileges, the loop
 *   options.c    the command line
 *   confine.c    what codeboxd itself may do from then on
 *   clients.c    who may connect, and the connections
 *   control.c    the control protocol: requests and answers; control_ops.c: each of its methods
 *   mcp_conn.c   MCP over a connection
 *   listeners.c  the two sockets: where they come from
 *   lifecycle.c  when the daemon ends: idle, signals, "stop", the supervisor's end
 *   notify.c     what a service manager learns
 *   observe.c    what is counted, and kept, of what happens
 *   secrets.c    passwords of databases, keys of object stores, what is added to requests
 *   agent.c      what a load balancer learns
 *   artifacts.c  where files are kept, and what links to them begin with
 *   web.c        HTTP, as the command line asks for it
 *   undo.c       sockets of a start by root that fails
 *   policy.c     what sessions may have: read, and read again; tenants.c: who may use HTTP, likewise
 */
#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "base/dirs.h"
#include "base/err.h"
#include "cgroup/tree.h"
#include "daemon/lifecycle.h"
#include "daemon/listeners.h"
#include "http/tls.h"
#include "sandbox/seccomp.h"
#include "session/engine-config.h"
#include "session/happened.h"
#include "tenant/tenant.h"
#include "wire/conn.h"

struct cbx_http;
struct cbx_metrics;
struct cbx_audit;

#define CBX_LAST_WORDS 8

struct cbx_client_entry {
	TAILQ_ENTRY(cbx_client_entry) entry;
	struct cbx_daemon *daemon;
	struct cbx_conn *conn;
	enum cbx_socket_kind kind;
};
TAILQ_HEAD(cbx_client_list, cbx_client_entry);

struct cbx_mcp_registry;
struct cbx_policy;
struct cbx_secret;
struct cbx_secret_ref;

/* What the command line says of HTTP. */
struct cbx_daemon_web {
	const char *addresses[CBX_HTTP_LISTENERS_MAX];
	size_t n;
	uint64_t rate;		/* requests a second; 0: no limit */
	const char *token_file; /* NULL: none */
	const char *url;	/* NULL: as it listens */
	const char *profile;	/* what MCP clients get at /mcp; NULL: codebox's own tools */
	struct cbx_http_tls_files tls;
	bool open; /* to everybody */
	bool no_ui; /* without the page at /ui */
};

/* What a load balancer learns, and where. */
struct cbx_daemon_agent {
	const char *asked; /* by --agent; NULL: it was not given */
	char at[128];	   /* where it listens */
	char *path;	   /* the same, of a unix socket; NULL: it is none */
	struct cbx_listener *listener;
	int loadavg, meminfo; /* of /proc; -1: not to be known */
	unsigned processors;
};

/* A service manager that wants to know; see notify.c. */
struct cbx_daemon_notify {
	int fd; /* -1: nobody wants to */
	uint64_t watchdog_us; /* it ends us when it hears nothing for this time; 0: it does not */
	struct event *timer;
};

struct cbx_daemon {
	struct event_base *base;
	const char *policy_asked;  /* by --policy; NULL: see policy.c */
	char *policy_path;	   /* at the start, or a shipped one's name */
	struct cbx_policy *policy; /* NULL: it could not be read */
	struct cbx_secret *secrets; /* of the policy */
	size_t nsecrets;
	char *granted; /* at the start: the file with what the user has said yes to; NULL: it is not the user's to widen */
	bool own_config; /* the user's directory of policies is there */
	struct cbx_engine *engine;
	struct cbx_principal principal; /* whoever can connect is the user who runs it */
	const struct cbx_mcp_registry *mcp; /* what MCP clients are served */
	struct cbx_dirs dirs;
	struct cbx_daemon_packages {
		char *store, *own, *sessions; /* NULL: no packages can be installed */
		int lock;
	} packages;
	struct cbx_daemon_artifacts {
		char *store; /* NULL: none can be kept */
		bool left; /* there are some already */
		uint8_t key[CBX_LINK_KEY];
	} artifacts;
	int share_fd;  /* of dirs.share, as root: below a home the service id could not reach it by its name; else -1 */
	char *shipped; /* dirs.share, as it can be reached for good */
	struct cbx_service service;
	struct cbx_cgroup_tree cgroup;
	unsigned freeze_idle_s;
	struct cbx_listeners listeners;
	struct cbx_lifecycle lifecycle;
	struct cbx_daemon_web web;
	struct cbx_daemon_agent agent;
	struct cbx_daemon_notify notify;
	char node[CBX_NODE_MAX + 2]; /* "a.": --node, and a dot; "": none */
	struct cbx_http *http; /* NULL: not asked for */
	struct cbx_observer observer; /* observe.c; of the engine, and of HTTP */
	struct cbx_metrics *metrics;
	const char *audit_path; /* --audit; NULL: none */
	bool audit_code;	/* --audit-code */
	struct cbx_audit *audit;
	const char *tenants_asked; /* by --tenants; NULL: see tenants.c */
	char *tenants_path;	   /* at the start; NULL: there are none, and there will be none */
	struct cbx_tenants tenants;
	struct event *keys_timer; /* NULL: no JWTs are accepted */
	struct cbx_client_list clients;
	size_t nclients[CBX_SOCKETS];
	int lock_fd;	  /* <runtime>/lock */
	int undo;	  /* pipe to a process that removes the sockets at its end; -1: there is none (undo.c) */
	int last_words[CBX_LAST_WORDS]; /* connections that wait for the end, which closes them */
	size_t nlast_words;
	struct cbx_filter filter; /* between reading it and loading it */
	struct cbx_err filter_trouble; /* code 0: none */
	unsigned filter_rules;	/* of codeboxd's own system call filter; 0: not confined yet */
	unsigned landlock_abi;	/* 0: the kernel has no Landlock */
};

static inline size_t cbx_daemon_clients(const struct cbx_daemon *d)
{
	return d->nclients[CBX_SOCKET_CONTROL] + d->nclients[CBX_SOCKET_MCP];
}

/* notify.c: connect, before any program is started; mine: we are the manager's. Send lines; say that clients are served,
 * and now and then that the loop turns. */
void cbx_notify_open(struct cbx_daemon_notify *n, bool mine);
void cbx_notify(const struct cbx_daemon_notify *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cbx_notify_reloading(const struct cbx_daemon_notify *n); /* cbx_notify_ready() follows */
void cbx_notify_ready(const struct cbx_daemon *d);
int cbx_notify_watch(struct cbx_daemon *d, struct cbx_err *err);
void cbx_notify_release(struct cbx_daemon_notify *n);

/* observe.c: what happens is counted, and kept in the audit log. */
void cbx_daemon_observe(struct cbx_daemon *d);
int cbx_daemon_open_audit(struct cbx_daemon *d, struct cbx_err *err); /* as whom codeboxd stays */
void cbx_daemon_reopen_audit(struct cbx_daemon *d);
void cbx_daemon_unobserve(struct cbx_daemon *d);

/* packages.c: the store of packages. When it cannot be made, codeboxd logs that and keeps running. */
void cbx_daemon_make_store(struct cbx_daemon *d);
void cbx_daemon_release_store(struct cbx_daemon *d);

/* artifacts.c: likewise, of what is kept. */
void cbx_daemon_make_artifacts(struct cbx_daemon *d);
void cbx_daemon_link_artifacts(struct cbx_daemon *d, const char *url); /* url: of --http, for others; NULL: as it is */
void cbx_daemon_release_artifacts(struct cbx_daemon *d);

/* clients.c: serve who connects to the sockets; say goodbye to all of them. */
int cbx_clients_listen(struct cbx_daemon *d, struct cbx_err *err);
void cbx_clients_end(struct cbx_daemon *d);

/* confine.c: read the list of codeboxd's own system calls, with the ids that it was started with: an installation below
 * root's home is not for the service id to see. cbx_daemon_confine() reports what went wrong. */
void cbx_daemon_read_filter(struct cbx_daemon *d);
/* Wait for the supervisor, then give up what a server does not need. */
int cbx_daemon_confine(struct cbx_daemon *d, struct cbx_err *err);

/* policy.c: with one that cannot be read codeboxd keeps running, so that clients learn of it, and makes no sessions. */
void cbx_daemon_load_policy(struct cbx_daemon *d, struct cbx_err *refusal);
/* Read it again. An error leaves the one in force. ret: {"policy","file","digest","sessions","mounts_need_restart"}, or
 * NULL. */
int cbx_daemon_reload_policy(struct cbx_daemon *d, cJSON **ret, struct cbx_err *err);

/* secrets.c: secrets that a policy names are read when it is, and held here alone. One that cannot be read is reported
 * when it is needed. */
void cbx_daemon_read_secrets(struct cbx_daemon *d, const struct cbx_policy *policy);
/* For the engine; arg: the daemon. */
int cbx_daemon_secret(void *arg, const struct cbx_secret_ref *ref, const char **ret, struct cbx_err *err);
void cbx_daemon_forget_secrets(struct cbx_daemon *d);

/* web.c: serve HTTP, where that is asked for; say so in the log. */
int cbx_daemon_start_web(struct cbx_daemon *d, struct cbx_err *err);
void cbx_daemon_note_web(const struct cbx_daemon *d);
/* The directories of certificates, key and the keys of JWTs, by their names and by what these lead to; malloc'd, or
 * NULL. */
#define CBX_WEB_PLACES 8
void cbx_daemon_web_places(const struct cbx_daemon *d, char *ret[CBX_WEB_PLACES]);
/* A client or a session has gone. arg: the daemon. */
void cbx_daemon_check_idle(void *arg);

/* undo.c: before root is given up, and once the start is over: if that does not come, sockets that were made go. */
int cbx_daemon_undo_unless(struct cbx_daemon *d, struct cbx_err *err);
void cbx_daemon_started(struct cbx_daemon *d);

/* agent.c: tell a load balancer how much is free. */
int cbx_daemon_start_agent(struct cbx_daemon *d, struct cbx_err *err);
void cbx_daemon_release_agent(struct cbx_daemon *d);

/* tenants.c: who may use HTTP. 1; 0: there is no such file, and whoever has the one token, or everybody, may. */
int cbx_daemon_load_tenants(struct cbx_daemon *d, struct cbx_err *err);
void cbx_daemon_release_tenants(struct cbx_daemon *d); /* before the event loop, after HTTP and the engine */
/* Read them again; those who have gone lose their sessions. An error leaves all as it is. ret: {"file"?,"tokens"}. */
int cbx_daemon_reload_tenants(struct cbx_daemon *d, cJSON **ret, struct cbx_err *err);

#endif
