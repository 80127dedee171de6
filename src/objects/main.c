/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd starts this program with the first upload, before which it is a process that waits
 * (session/jobs.c). It takes jobs from its one socket, each a socket of its own, and forks for each: such a process
 * reads its job, which has the store's secret, opens the file, confines itself, and is gone when it has answered. As
 * root the program becomes the service's account first. It has no environment.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "objects/job.h"
#include "objects/worker.h"
#include "sandbox/worker.h"

struct setting {
	const struct cbx_filter *filter;
	const char *certificates;
	int store;
};

static int incomplete(struct cbx_err *err)
{
	return cbx_refuse(err, "protocol", EINVAL, "the job is not complete");
}

static int open_file(int store, const cJSON *job, struct cbx_upload *u, struct cbx_err *err)
{
	const char *tenant = cbx_json_text(job, "tenant"), *id = cbx_json_text(job, "id");
	_cleanup_fd_ int dir = -1;
	struct stat st;

	if (!tenant || !cbx_name_valid(tenant) || !id || !cbx_name_valid(id) || !u->type)
		return incomplete(err);
	dir = openat(store, tenant, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	u->fd = dir < 0 ? -1 : openat(dir, id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (u->fd < 0 || fstat(u->fd, &st) < 0)
		return cbx_fail(err, errno, "open the artifact");
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != u->size)
		return cbx_refuse(err, "protocol", EINVAL, "the artifact has another size");
	return 0;
}

static int carry_out(struct cbx_upload *u, const struct setting *setting, const cJSON *job, struct cbx_err *err)
{
	const char *what = cbx_json_text(job, "job");
	bool upload = what && strcmp(what, "upload") == 0;
	int r = cbx_objects_read(cbx_json_member(job, "store"), cbx_json_text(job, "secret"),
				 &u->store, err);

	if (r < 0)
		return r;
	u->key = cbx_json_text(job, "key");
	u->type = cbx_json_text(job, "mime_type");
	u->size = cbx_json_u64(job, "size");
	u->deadline = cbx_now_ms() + cbx_json_u64(job, "timeout_ms");
	u->certificates = setting->certificates;
	if (!u->key || (!upload && (!what || strcmp(what, "remove") != 0)))
		return incomplete(err);
	if (upload)
		r = open_file(setting->store, job, u, err);
	close(setting->store);
	if (r >= 0)
		r = cbx_upload_confine(setting->filter, u->certificates, err);
	if (r < 0)
		return r;
	u->easy = curl_easy_init();
	if (!u->easy)
		return cbx_fail(err, ENOMEM, "begin a transfer");
	if (!upload)
		return cbx_upload_remove(u, err);
	return u->store.azure ? cbx_azure_upload(u, err) : cbx_s3_upload(u, err);
}

/* The process of one job. */
static void serve(int sock, void *setting)
{
	struct cbx_upload u = { .sock = sock, .fd = -1 };
	_cleanup_buf_ struct cbx_buf text = { 0 }, line = { 0 };
	_cleanup_json_ cJSON *answer = NULL;
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };
	int r = cbx_read_whole(sock, KIB(64), &text);

	if (r < 0)
		cbx_fail(&err, -r, "read a job");
	else
		r = cbx_json_parse(cbx_buf_str(&text), text.len, &doc, &err);
	cbx_buf_wipe(&text);
	if (r >= 0)
		r = carry_out(&u, setting, doc.root, &err);
	answer = r < 0 ? cbx_json_of_error(&err) : cbx_json_new_obj();
	if (r >= 0)
		cbx_json_set_u64(answer, "tries", u.failures);
	cbx_json_print(&line, answer);
	cbx_buf_addc(&line, '\n');
	(void)cbx_write_all(sock, line.data, line.len);
	_exit(0);
}

int main(int argc, char **argv)
{
	_cleanup_free_ char *certificates = NULL;
	struct cbx_filter filter = { 0 };
	struct setting setting = { .filter = &filter, .store = -1 };
	struct cbx_err err;
	int r;

	if (argc != 2 || fcntl(CBX_UPLOAD_SOCKET, F_GETFD) < 0) {
		fprintf(stderr, "codebox-upload is started by codeboxd; see codeboxd(8).\n");
		return 2;
	}
	r = cbx_worker_begin("registry", &filter, &err);
	if (r >= 0 && (setting.store = open(argv[1], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		r = cbx_fail(&err, errno, "open %s", argv[1]);
	if (r < 0) {
		fprintf(stderr, "codebox-upload: %s\n", err.msg);
		return 1;
	}
	setting.certificates = certificates = getenv("SSL_CERT_FILE") ? cbx_xstrdup(getenv("SSL_CERT_FILE")) : NULL;
	clearenv();
	curl_global_init(CURL_GLOBAL_DEFAULT);
	/* When codeboxd goes, uploads see that by themselves, and remove what they began. */
	cbx_worker_take_jobs(CBX_UPLOAD_SOCKET, serve, &setting);
	return 0;
}
