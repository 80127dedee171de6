// SPDX-License-Identifier: Apache-2.0
// Loaded before the conformance suite, which knows no tokens: each request that it sends to $CBX_URL's origin has $CBX_TOKEN.
// Both fetch() and undici, which sends the suite's foreign Host headers, announce their requests here.
import { subscribe } from 'node:diagnostics_channel';

const { origin } = new URL(process.env.CBX_URL);

subscribe('undici:request:create', ({ request }) => {
  if (new URL(request.origin).origin === origin) request.addHeader('Authorization', `Bearer ${process.env.CBX_TOKEN}`);
});
