/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_BUNDLE_H
#define CBX_INTERP_BUNDLE_H

/*
 * MIME bundles as an interpreter sends them, made safe to hand to clients: {"data":{MIME: value},"metadata":{}}. Values
 * are strings (base64 for binary types), or for JSON types any JSON, as raw text; so is the metadata. Clients trust the
 * type that they get and some break on a damaged image, so binary data is decoded and its first bytes are compared with
 * its type.
 */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A checked copy of frame's "data" and "metadata". Members that are not what they claim to be are omitted and counted
 * in *ret_invalid. NULL when nothing is left. *ret_bytes is the size of all values.
 */
cJSON *cbx_bundle_from_frame(const cJSON *frame, size_t *ret_bytes, size_t *ret_invalid);
bool cbx_mime_binary(const char *mime);
/*
 * What a session remembers of a bundle, as further members of it: where in the output it was made ("at"), and the name
 * by which code updates it ("display_id"; without one, or with one that is too long, it is not updated).
 */
void cbx_bundle_mark(cJSON *bundle, const cJSON *frame, uint64_t at);
uint64_t cbx_bundle_place(const cJSON *bundle);
/* How many bundles of a list have another's display_id, and their bytes; let them have its data and metadata. */
size_t cbx_bundle_updates(const cJSON *list, const cJSON *bundle, size_t *ret_bytes);
void cbx_bundle_update(cJSON *list, const cJSON *bundle);
/* Whether the frame is an update at all. */
bool cbx_bundle_is_update(const cJSON *frame);

#endif
