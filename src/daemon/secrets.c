/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: secrets are read with the ids and the view of files that codeboxd was started with, so root's
 * own files and systemd's credentials will do. What comes from the environment is wiped there: processes that codeboxd
 * starts inherit nothing of it. A later reading that fails keeps what there is.
 *
 * From here a secret goes to one process, through a socket: when a query (session/sql.c, sql/main.c) or an upload needs
 * it (session/upload.c, objects/main.c), or when a session begins whose requests it is added to (session/life.c,
 * proxy/secrets.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "policy/policy.h"

struct cbx_secret {
	enum cbx_secret_kind kind;
	char *name, *value; /* value NULL: it could not be read */
	struct cbx_err why;
};

static int read_variable(const char *name, char **ret, struct cbx_err *err)
{
	char *value = getenv(name);

	if (!value || !value[0])
		return cbx_refuse(
			err, "no_password", ENOENT,
			"the environment variable %s was not set when codeboxd started; set it and restart codeboxd",
			name);
	if (strlen(value) > CBX_SECRET_MAX)
		return cbx_refuse(err, "no_password", EFBIG,
				  "the environment variable %s is too long; give up to %zu bytes", name,
				  CBX_SECRET_MAX);
	*ret = cbx_xstrdup(value);
	explicit_bzero(value, strlen(value)); /* /proc would show it */
	unsetenv(name);
	return 0;
}

static int check_file(int fd, const char *path, struct cbx_err *err)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "read %s", path);
	if (!S_ISREG(st.st_mode))
		return cbx_refuse(err, "no_password", EINVAL, "%s is not a regular file; name one that is", path);
	if (st.st_mode & 077 && st.st_uid != 0)
		return cbx_refuse(err, "no_password", EPERM, "others may use %s; chmod 600 it", path);
	if (st.st_mode & 07)
		return cbx_refuse(err, "no_password", EPERM, "everybody may use %s; chmod 600 it", path);
	return 0;
}

static int read_file(const char *path, char **ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r = check_file(fd, path, err);

	if (r < 0)
		return r;
	r = cbx_read_whole(fd, CBX_SECRET_MAX + 1, &text);
	if (r < 0)
		return cbx_fail(err, -r, "read %s", path);
	if (text.len && text.data[text.len - 1] == '\n')
		text.data[--text.len] = '\0';
	if (!text.len || memchr(text.data, '\0', text.len) || strpbrk(text.data, "\r\n"))
		return cbx_refuse(err, "no_password", EINVAL,
				  "%s does not hold one line of text; write the secret on one line", path);
	*ret = cbx_xstrdup(text.data);
	cbx_buf_wipe(&text);
	return 0;
}

static int read_credential(const char *name, char **ret, struct cbx_err *err)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	_cleanup_free_ char *path = dir ? cbx_xasprintf("%s/%s", dir, name) : NULL;

	if (!path)
		return cbx_refuse(err, "no_password", ENOENT,
				  "codeboxd was not started with credentials; add LoadCredential=%s:PATH to its unit",
				  name);
	return read_file(path, ret, err);
}

static int read_secret(const struct cbx_secret_ref *c, char **ret, struct cbx_err *err)
{
	switch (c->kind) {
	case CBX_SECRET_ENVIRONMENT:
		return read_variable(c->name, ret, err);
	case CBX_SECRET_FILE:
		return read_file(c->name, ret, err);
	default:
		return read_credential(c->name, ret, err);
	}
}

static struct cbx_secret *find(const struct cbx_daemon *d, const struct cbx_secret_ref *c)
{
	for (size_t i = 0; i < d->nsecrets; i++)
		if (d->secrets[i].kind == c->kind && strcmp(d->secrets[i].name, c->name) == 0)
			return &d->secrets[i];
	return NULL;
}

static void read_one(struct cbx_daemon *d, const struct cbx_secret_ref *c, const char *whose)
{
	struct cbx_secret *s = find(d, c);
	char *value = NULL;
	struct cbx_err err;

	if (s && s->kind == CBX_SECRET_ENVIRONMENT && s->value) /* it is there once */
		return;
	if (!s) {
		d->secrets = cbx_xrealloc(d->secrets, (d->nsecrets + 1) * sizeof(*d->secrets));
		s = &d->secrets[d->nsecrets++];
		*s = (struct cbx_secret){ .kind = c->kind, .name = cbx_xstrdup(c->name) };
	}
	if (read_secret(c, &value, &err) < 0) {
		cbx_warn("%s: its secret %s: %s", whose, s->value ? "is not read again" : "is not known", err.msg);
		s->why = err;
		return;
	}
	cbx_str_wipe(&s->value);
	s->value = value;
}

void cbx_daemon_read_secrets(struct cbx_daemon *d, const struct cbx_policy *policy)
{
	for (size_t i = 0; i < policy->sql.n; i++) {
		_cleanup_free_ char *whose = cbx_xasprintf("connection %s", policy->sql.all[i].name);

		if (policy->sql.all[i].string.kind)
			read_one(d, &policy->sql.all[i].string, whose);
		if (policy->sql.all[i].secret.kind)
			read_one(d, &policy->sql.all[i].secret, whose);
	}
	if (policy->objects.json)
		read_one(d, &policy->objects.secret, "artifacts.store");
	for (size_t i = 0; i < policy->network.n; i++) {
		const struct cbx_net_rule *rule = &policy->network.rules[i];

		for (size_t k = 0; k < rule->nsecrets; k++) {
			_cleanup_free_ char *whose =
				cbx_xasprintf("network: %s: %s", rule->host, rule->secrets[k].header);

			read_one(d, &rule->secrets[k].place, whose);
		}
	}
}

int cbx_daemon_secret(void *arg, const struct cbx_secret_ref *ref, const char **ret, struct cbx_err *err)
{
	const struct cbx_secret *s = find(arg, ref);

	if (s && s->value) {
		*ret = s->value;
		return 0;
	}
	return cbx_refuse(err, "no_password", ENOENT, "the password or key is not known: %.300s",
			  s ? s->why.msg : "it was not read");
}

void cbx_daemon_forget_secrets(struct cbx_daemon *d)
{
	for (size_t i = 0; i < d->nsecrets; i++) {
		free(d->secrets[i].name);
		cbx_str_wipe(&d->secrets[i].value);
	}
	free(take_ptr(&d->secrets));
	d->nsecrets = 0;
}
