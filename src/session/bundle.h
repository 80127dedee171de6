/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_BUNDLE_H
#define CBX_SESSION_BUNDLE_H

/*
 * MIME bundles as an interpreter sends them, made safe to hand to clients: {"data":{MIME: value},"metadata":{}}.
 * Values are strings (base64 for binary types), or for JSON types any JSON, as raw text; so is the metadata. Clients
 * trust the type that they are told and some break on a damaged image, so binary data is decoded and its first bytes are
 * compared with its type.
 */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * A checked copy of frame's "data" and "metadata". Members that are not what they claim to be are left out and counted
 * in *ret_invalid. NULL when nothing is left. *ret_bytes is the size of all values.
 */
cJSON *cbx_bundle_from_frame(const cJSON *frame, size_t *ret_bytes, size_t *ret_invalid);
bool cbx_mime_binary(const char *mime);

#endif
