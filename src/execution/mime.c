/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: a file of a session is shown with a URI, and with a type that the end of its name gives. */
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "execution/execution.h"

static const struct {
	const char *ending, *type;
} types[] = {
	{ "txt", "text/plain" },
	{ "log", "text/plain" },
	{ "md", "text/markdown" },
	{ "csv", "text/csv" },
	{ "tsv", "text/tab-separated-values" },
	{ "html", "text/html" },
	{ "htm", "text/html" },
	{ "css", "text/css" },
	{ "py", "text/x-python" },
	{ "js", "text/javascript" },
	{ "mjs", "text/javascript" },
	{ "sh", "application/x-sh" },
	{ "json", "application/json" },
	{ "jsonl", "application/jsonl" },
	{ "ipynb", "application/x-ipynb+json" },
	{ "geojson", "application/geo+json" },
	{ "xml", "application/xml" },
	{ "yaml", "application/yaml" },
	{ "yml", "application/yaml" },
	{ "toml", "application/toml" },
	{ "sql", "application/sql" },
	{ "tex", "application/x-tex" },
	{ "pdf", "application/pdf" },
	{ "rtf", "application/rtf" },
	{ "doc", "application/msword" },
	{ "docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document" },
	{ "xls", "application/vnd.ms-excel" },
	{ "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
	{ "ppt", "application/vnd.ms-powerpoint" },
	{ "pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation" },
	{ "parquet", "application/vnd.apache.parquet" },
	{ "sqlite", "application/vnd.sqlite3" },
	{ "sqlite3", "application/vnd.sqlite3" },
	{ "db", "application/vnd.sqlite3" },
	{ "zip", "application/zip" },
	{ "gz", "application/gzip" },
	{ "tar", "application/x-tar" },
	{ "png", "image/png" },
	{ "jpg", "image/jpeg" },
	{ "jpeg", "image/jpeg" },
	{ "gif", "image/gif" },
	{ "webp", "image/webp" },
	{ "svg", "image/svg+xml" },
	{ "bmp", "image/bmp" },
	{ "tif", "image/tiff" },
	{ "tiff", "image/tiff" },
	{ "mp3", "audio/mpeg" },
	{ "wav", "audio/wav" },
	{ "ogg", "audio/ogg" },
	{ "mp4", "video/mp4" },
	{ "webm", "video/webm" },
	{ "woff2", "font/woff2" },
};

/* "": it has none. */
static const char *ending_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash + 1 : path, '.');

	return dot ? dot + 1 : "";
}

const char *cbx_mime_by_name(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcasecmp(ending_of(path), types[i].ending) == 0)
			return types[i].type;
	return "application/octet-stream";
}

static void add_uri(struct cbx_buf *out, const char *session_id, const char *what, const char *path)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";

	cbx_buf_addf(out, "codebox://sessions/%s/%s/", session_id, what);
	for (; *path; path++) {
		if (strchr(plain, *path))
			cbx_buf_addc(out, *path);
		else
			cbx_buf_addf(out, "%%%02X", (unsigned)(unsigned char)*path);
	}
}

void cbx_file_uri(struct cbx_buf *out, const char *session_id, const char *path)
{
	add_uri(out, session_id, "files", path);
}

bool cbx_file_database_uri(struct cbx_buf *out, const char *session_id, const char *path)
{
	static const char *const endings[] = { "db", "sqlite", "sqlite3", "duckdb" };

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		if (strcasecmp(ending_of(path), endings[i]) != 0)
			continue;
		add_uri(out, session_id, "databases", path);
		return true;
	}
	return false;
}
