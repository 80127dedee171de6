/* SPDX-License-Identifier: Apache-2.0 */
#include "base/frame.h"

#include <errno.h>
#include <stdint.h>

void cbx_frame_append(struct cbx_buf *out, const void *p, size_t len)
{
	uint32_t n = (uint32_t)len;
	unsigned char h[CBX_FRAME_HEADER] = { (unsigned char)n, (unsigned char)(n >> 8), (unsigned char)(n >> 16),
					      (unsigned char)(n >> 24) };

	cbx_buf_add(out, h, sizeof(h));
	cbx_buf_add(out, p, len);
}

int cbx_frame_peek(const struct cbx_buf *in, size_t max, const char **ret_data, size_t *ret_len, struct cbx_err *err)
{
	const unsigned char *h = (const unsigned char *)in->data;
	size_t len;

	if (in->len < CBX_FRAME_HEADER)
		return 0;
	len = (size_t)h[0] | (size_t)h[1] << 8 | (size_t)h[2] << 16 | (size_t)h[3] << 24;
	if (len > max)
		return cbx_refuse(err, "frame_too_long", EMSGSIZE, "frame of %zu bytes is over the limit of %zu", len,
				  max);
	if (in->len - CBX_FRAME_HEADER < len)
		return 0;
	*ret_data = in->data + CBX_FRAME_HEADER;
	*ret_len = len;
	return 1;
}
