/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_PULL_PROTOCOL_H
#define CBX_IMAGE_PULL_PROTOCOL_H

/*
 * codebox-image asks codebox-pull for an image; neither trusts what the other says further than it can check it.
 *
 * Standard input: one JSON object, then end of file:
 *   {"host":"example.org:5000","repository":"a/b","reference":"latest" or "sha256:…","platform":"linux/amd64",
 *    "plain":bool (HTTP and not HTTPS), "loopback":bool (connect to this machine only),
 *    "user":"…","password":"…" (both or neither), "have":["sha256:…"] (layers that are not to be fetched, or absent)}
 * Descriptor 3: a directory, where an OCI layout of the image is made. "NAME.part" are blobs in the making, which a
 * later pull continues.
 * Descriptor 4: the directory of what is shipped (O_PATH), of which the filter of system calls is read.
 * Standard output: lines of JSON. {"got":bytes,"of":bytes,"blobs":N,"done":N} from time to time; the last line is
 *   {"digest":"sha256:…"}, of the index or manifest that the reference named, or {"error":{"kind":"…","message":"…"}}.
 */
#define CBX_PULL_DIR_FD	     3
#define CBX_PULL_SHARE_FD    4
#define CBX_PULL_LINE_MAX    8192
#define CBX_PULL_REQUEST_MAX (1 << 20)
#define CBX_PULL_HAVE_MAX    10000 /* with more, all layers are fetched */

#endif
