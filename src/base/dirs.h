/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_DIRS_H
#define CBX_BASE_DIRS_H

/*
 * Where things are on the host. All strings are malloc'd once and owned by the struct.
 *
 *            ordinary user                                            root
 * runtime    $CODEBOX_RUNTIME_DIR, $XDG_RUNTIME_DIR/codebox,          /run/codebox
 *            /run/user/UID/codebox, else /tmp/codebox-UID or,
 *            where another user was first at that name,
 *            ~/.local/state/codebox/run
 * data       $CODEBOX_DATA_DIR, $XDG_DATA_HOME/codebox,               /var/lib/codebox
 *            ~/.local/share/codebox
 * state      $CODEBOX_STATE_DIR, $XDG_STATE_HOME/codebox,             /var/log/codebox
 *            ~/.local/state/codebox
 * config     $CODEBOX_CONFIG_DIR, $XDG_CONFIG_HOME/codebox,           /etc/codebox
 *            ~/.config/codebox
 * libexec    $CODEBOX_LIBEXEC_DIR, else as configured
 * share      $CODEBOX_SHARE_DIR, else as configured
 *
 * MCP clients pass neither XDG_RUNTIME_DIR nor the bus address, so /run/user/UID is tried also when no variable names
 * it. HOME is taken from the environment, else from the password database.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define CBX_SYSTEMD_RESOLVE "/run/systemd/resolve" /* its resolv.conf has the resolvers that systemd-resolved asks */

struct cbx_dirs {
	char *runtime; /* sockets, lock */
	char *data;
	char *images;  /* data/images */
	char *state;   /* log file */
	char *config;  /* policy.json */
	char *libexec; /* codebox-supervisor, codebox-init, codebox-image */
	char *share;   /* runtimes/, recipes/, policies/, syscalls/ */
};

int cbx_dirs_init(struct cbx_dirs *dirs, struct cbx_err *err);
void cbx_dirs_release(struct cbx_dirs *dirs);
/* Make a directory (and its parents) with this mode for the last one; it must then be a real directory, owned by us
 * and writable by nobody else. */
int cbx_dirs_make_private(const char *path, mode_t mode, struct cbx_err *err);

/*
 * Root never runs sandboxes or parses anything as root: codeboxd and codebox-image give root up for the service id
 * before they do their work. The service id is the account "codebox" where it exists, else the first of a fixed range
 * (CBX_SERVICE_RANGE) that no distribution assigns. For an ordinary user the service id is the user.
 */
#define CBX_SERVICE_RANGE 0x70000000u /* 65536 ids from here, above systemd's container range */

struct cbx_service {
	uid_t uid;
	gid_t gid;
	int from_root; /* 1: this process is root and must become uid/gid */
};

/* Fails with kind "no_service_id" where root is that of a container which maps none of these. */
int cbx_service_init(struct cbx_service *s, struct cbx_err *err);
/* Whether this user namespace has these ids; map: "/proc/self/uid_map" or gid_map (user_namespaces(7)). */
bool cbx_ids_are_mapped(const char *map, uint32_t first, uint32_t count);
/* Drop to the service id: groups, gid, uid, capabilities, no way back. Nothing to do for an ordinary user. */
int cbx_service_become(const struct cbx_service *s, struct cbx_err *err);
/* As root: make the directory and give it to the service id, readable by root's group. As a user:
 * cbx_dirs_make_private(). */
int cbx_service_make_dir(const struct cbx_service *s, const char *path, mode_t mode, struct cbx_err *err);
/* A descriptor of the run-time directory as it is: the service id's, our own or root's, and writable by no one else.
 * -ENOENT when there is none. */
int cbx_service_open_dir(const struct cbx_service *s, const char *path, struct cbx_err *err);
/* The run-time directory's lock file, made when it is not there: the service id's, as what the daemon is to remove and
 * codebox-image to use must be. The directory is the service id's too, so what has another name is not given away. */
int cbx_service_open_lock(const struct cbx_service *service, const char *dir, struct cbx_err *err);
/* Give it a socket that root has just made in its directory; nothing for another user. */
int cbx_service_give_socket(const struct cbx_service *service, const char *path, struct cbx_err *err);

#endif
