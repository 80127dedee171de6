/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_STREAM_H
#define CBX_INTERP_STREAM_H

/* What an interpreter prints, it prints to one of these. */
enum cbx_stream { CBX_STDOUT, CBX_STDERR, CBX_STREAMS };

#endif
