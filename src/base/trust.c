/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/trust.h"

const char *cbx_trust_of_machine(void)
{
	static const char *const files[] = { "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
					     "/etc/ssl/ca-bundle.pem" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (access(files[i], R_OK) == 0)
			return files[i];
	return NULL;
}
