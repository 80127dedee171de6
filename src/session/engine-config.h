/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_ENGINE_CONFIG_H
#define CBX_SESSION_ENGINE_CONFIG_H

/* The engine as a whole, for the program that it belongs to; what is asked of it is in session.h. */
#include "session/session.h"

struct cbx_cgroup_tree;
struct cbx_observer;
struct cbx_secret_ref;

#define CBX_LINK_KEY 32

struct cbx_engine_config {
	const char *images_dir;    /* the image store (readable by this process) */
	const char *libexec_dir;   /* codebox-supervisor, codebox-init */
	const char *runtimes_dir;  /* the drivers */
	const char *syscalls_dir;  /* system call lists */
	const char *share_dir;     /* never shown in a sandbox */
	const char *shipped_dir;   /* the same, by a name that stays good: policies/, for requests that name one */
	const char *runtime_dir, *state_dir, *config_dir; /* never shown in a sandbox, like those above; may be NULL */
	/* The store of packages, this daemon's own directory in it, and that of its sessions' packages there. Both
	 * NULL: no packages can be installed. */
	const char *packages_dir, *packages_own, *packages_sessions;
	/* The store of artifacts, and the key that signs their links; borrowed for the call. Both NULL: none are kept. */
	const char *artifacts_dir;
	const uint8_t *link_key; /* CBX_LINK_KEY bytes */
	bool artifacts_left; /* there are some, of an earlier day */
	struct cbx_policy *policy; /* a reference of its own is taken; NULL: the built-in values */
	const char *granted; /* the file of directories that the user has said yes to since; NULL: there can be none */
	const struct cbx_err *refusal;   /* code not 0: no session is made, for this reason. May be NULL; copied */
	uid_t service_uid;         /* who runs the sandboxes: the supervisor's last two arguments */
	gid_t service_gid;
	const struct cbx_cgroup_tree *cgroup; /* NULL: none; borrowed for the engine's life */
	unsigned freeze_idle_s;		      /* sessions that were idle for this time are stopped; 0: never */
	void (*on_down)(void *arg, const struct cbx_err *why); /* the supervisor ended after it had been up */
	void (*on_idle)(void *arg); /* the last session has gone */
	/* Optional. Asked at most once, when the supervisor could not start: what this machine lacks, < 0 with *ret. */
	int (*diagnose)(void *arg, struct cbx_err *ret);
	/* Optional. A secret that the policy names, borrowed. -errno: err says why it is not known. */
	int (*secret)(void *arg, const struct cbx_secret_ref *ref, const char **ret, struct cbx_err *err);
	/* Optional. Something worth a line in a log: a session was made, is ready, was closed and why. */
	void (*on_note)(void *arg, const char *session_id, const char *text);
	void *arg;
	const char *node; /* "a.": every id begins with it, so that a proxy finds the machine; NULL: none */
	const struct cbx_observer *observer; /* happened.h; borrowed. NULL: nobody */
	unsigned zygotes_max;  /* interpreters that are warm, for others to be forked from; 0: none */
	unsigned pool_max;     /* sessions kept ready at most; 0: none */
	uint64_t pool_idle_ms; /* and for this time, when nobody asks for their kind */
};

/* Starts the supervisor. A machine that cannot make sandboxes is not a failure here: see cbx_engine_trouble(). */
int cbx_engine_new(struct event_base *base, const struct cbx_engine_config *config, struct cbx_engine **ret,
		   struct cbx_err *err);
/* Kills every session and the supervisor. */
void cbx_engine_free(struct cbx_engine *engine);
/*
 * Another policy, for sessions that are made from now on: those that there are keep what they have, and those that were
 * made ahead of time are given up. A refusal for the old policy's sake ends. granted: see the configuration. True when
 * mounts, which the policy allows, need another supervisor, one that was started with them; all else is in force.
 */
bool cbx_engine_set_policy(struct cbx_engine *engine, struct cbx_policy *policy, const char *granted);

#endif
