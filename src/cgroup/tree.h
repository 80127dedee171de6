/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CGROUP_TREE_H
#define CBX_CGROUP_TREE_H

/*
 * The part of the cgroup v2 tree that is ours: the group that systemd (a unit with Delegate=, or the scope that the
 * codebox command made) or a container gave to codeboxd. cgroup v2 allows processes in leaves only, and one writer for
 * each part, so codeboxd moves to a group "supervisor" below it and makes a group for all sessions beside that:
 *
 *     codeboxd.service            nothing but cgroup.subtree_control is ever written here
 *       supervisor                codeboxd, codebox-supervisor
 *       sessions                  the memory that all of them may use
 *         tenant-local            the share of one tenant in processor time (cpu.weight); there while it has sessions
 *           session-1             limits of a session
 *             init                its first process
 *             work                everything else: killed as one when memory runs out
 *           session-2 ...
 *         tenant-research ...
 *
 * Where there is no such group, codeboxd works without, and `reason` says why and what to do about it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/dirs.h"
#include "base/err.h"
#include "cgroup/disks.h"

enum cbx_cgroup_backend {
	CBX_CGROUP_NONE,
	CBX_CGROUP_INHERIT, /* the group that codeboxd was started in */
	CBX_CGROUP_SCOPE,   /* the same, and it is a scope of systemd's */
};

struct cbx_cgroup_tree {
	enum cbx_cgroup_backend backend;
	int sessions;		/* that group; -1: none */
	int lock;		/* "supervisor", held so that no other codeboxd takes the same group; -1: none */
	unsigned controllers;	/* enum cbx_controller, those in force for sessions */
	struct cbx_disks disks; /* of the machine; none without the io controller */
	char reason[600];	/* NONE: why, and the remedy; else what was found, e.g. that a controller is missing */
};

#define CBX_CGROUP_TREE_NONE ((struct cbx_cgroup_tree){ .sessions = -1, .lock = -1 })

const char *cbx_cgroup_backend_name(enum cbx_cgroup_backend backend); /* "none", "inherit", "scope" */

/*
 * Find out where we are, and take the group when it is ours: called by codeboxd before it starts any process, and as
 * root before it gives root up (the group is given to the service id). Removes what a predecessor left there. Having
 * none is not an error.
 */
void cbx_cgroup_tree_open(struct cbx_cgroup_tree *tree, const struct cbx_service *service);
/* Likewise, where `dir` (taken) is the group; `name` is the last part of its path. */
void cbx_cgroup_tree_take(struct cbx_cgroup_tree *tree, int dir, const char *name, const struct cbx_service *service);
/* Only find out: which directory, or an error with cause and remedy. Nothing is changed. */
int cbx_cgroup_tree_find(const struct cbx_service *service, char *ret_dir, size_t cap, struct cbx_err *err);
/* What all sessions may use from now on; 0: no limit. Where they use more, the kernel kills one as a whole. */
int cbx_cgroup_tree_limit(const struct cbx_cgroup_tree *tree, uint64_t memory_bytes, struct cbx_err *err);
/* The group of a tenant's sessions, made if need be; a descriptor of the caller's. It goes when it is empty. */
int cbx_cgroup_tenant_open(const struct cbx_cgroup_tree *tree, const char *tenant, struct cbx_err *err);
void cbx_cgroup_tenant_remove(const struct cbx_cgroup_tree *tree, const char *tenant);
/* Its share, where the controller is there. */
int cbx_cgroup_tenant_weigh(const struct cbx_cgroup_tree *tree, int dir, uint32_t weight, struct cbx_err *err);
void cbx_cgroup_tree_release(struct cbx_cgroup_tree *tree);

#endif
