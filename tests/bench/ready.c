/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest interpreter there can be, for the benchmark of isolation alone: it says on the second of the
 * descriptors that CODEBOX_FD names that it is ready, and ends when the first does. Started without CODEBOX_FD it is /bin/true, for the
 * peers. Static, so that its start costs next to nothing.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	static const char ready[] = "{\"ev\":\"ready\",\"language\":\"python\",\"version\":\"0\",\"kind\":\"plain\"}";
	char *name = getenv("CODEBOX_FD");
	char frame[4 + sizeof(ready) - 1], rest[4096];
	uint32_t n = sizeof(ready) - 1;
	int in, out;

	if (!name)
		return 0;
	in = (int)strtol(name, &name, 10);
	out = *name ? (int)strtol(name + 1, NULL, 10) : in;
	for (int i = 0; i < 4; i++)
		frame[i] = (char)(n >> 8 * i & 0xff); /* little-endian */
	memcpy(frame + 4, ready, n);
	if (write(out, frame, sizeof(frame)) != (ssize_t)sizeof(frame))
		return 1;
	while (read(in, rest, sizeof(rest)) > 0)
		;
	return 0;
}
