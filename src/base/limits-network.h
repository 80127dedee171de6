/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LIMITS_NETWORK_H
#define CBX_BASE_LIMITS_NETWORK_H

/* Ceilings of what sessions reach through codebox-proxy. limits.h, which includes this file, says what the form is. */

/* The network. */
#define CBX_NETWORK_RULES_MAX 64         /* policy: rules of "network"; more: error
					 * [unit/test_network.c:refusals] */
#define CBX_NETWORK_LIST_MAX 16          /* policy: ports, methods, paths and addresses of one rule, each; more: error
					 * [unit/test_network.c:refusals] */
#define CBX_NETWORK_SECRETS_MAX 4        /* policy: secrets of one rule; more: error [unit/test_secrets.c:rules] */
#define CBX_TOKEN_MIN 8                  /* proxy: bytes of a secret that is added to requests; fewer: these are
					 * refused, since an answer's text could be the secret by chance
					 * [integration/secrets.py:what_is_missing] */
#define CBX_TRUST_MAX MIB(1)             /* session: certificates that its programs are given; more: those of the
					 * machine are not among them */
#define CBX_NETWORK_CONNECTIONS_DEFAULT 64 /* proxy: connections of a session at once, unless its policy says otherwise;
					 * one that stands still gives way, others wait
					 * [integration/network.py:slow_peers_cost_others_nothing] */
#define CBX_NETWORK_CONNECTIONS_MAX 1024 /* policy: most that "connections" may say; more: error
					 * [unit/test_network.c:refusals] */
#define CBX_NETWORK_TIME_DEFAULT_MS 3600000 /* proxy: life of one connection, unless its policy says otherwise; then it
					 * is closed [integration/network.py:limits] */
#define CBX_NETWORK_DECISIONS_MAX 64     /* session: kinds of decisions of its proxy that are kept; more: the one that came
					 * longest ago is forgotten [integration/network.py:decisions_are_kept] */
#define CBX_RESOLV_CONF_MAX KIB(64)      /* sandbox: the machine's /etc/resolv.conf; longer: as if there were none */
#define CBX_OPEN_ADDRESSES_MAX 128       /* sandbox: public addresses of the machine's own that a session with the network
					 * "open" is kept from; more: there is no such session */
#define CBX_PASTA_FILES 4096             /* sandbox: descriptors of its pasta, two or more for a connection; more: connections
					 * are not made [integration/open.py:it_ends_with_its_session] */
#define CBX_PASTA_MEMORY GIB(1)          /* sandbox: address space of its pasta; more: it ends, and the route with it
					 * [integration/open.py:it_ends_with_its_session] */
#define CBX_DOWNLOAD_MAX MIB(512)        /* session: a file that upload_file fetches; more: error, and nothing is left
					 * [integration/network.py:uploads_from_addresses] */
#define CBX_DOWNLOAD_MS 300000           /* session: for that; then it is ended, and nothing is left */

#endif
