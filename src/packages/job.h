/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_JOB_H
#define CBX_PACKAGES_JOB_H

/*
 * Between codeboxd and codebox-packages. codeboxd sends one byte and a stream socket for each job, writes the job into
 * it, a line of JSON, and shuts that direction down. The answer is a line of JSON, with "kind" and "message" where
 * the job failed; the end of the file is its end.
 *
 *   {"job":"answer","index"?,"registry"?,"npm"?,"channels"?:[addresses],"cache"}
 * answers questions of one resolver, one after the other, so that its connections are used again. Each is a line that
 * follows, and codeboxd waits for an answer before it writes the next: a line with the number of bytes that come, a line
 * of JSON in them, {"type":"json" or "html","url"}, or "kind" and "message", and what was asked for.
 *     {"project"}	 the page of a project, or of an npm package: "npm:…"
 *     {"url"}		 a file that a page named; with channels, a list of packages of one of them
 *     {"built":"built:…","at","data"}	a piece of a wheel that a resolver has built, in base64
 *   {"job":"install","token","index"?,"registry"?,"bytes_max","cache","python","packages":[…],"advisories":[paths],
 * "on_advisory":"refuse" or "warn","asked":[names],"known":[names],"scripts"?}	 see packages/rules.h:
 * {"token","warnings"?:[texts],"scripts"?}. scripts: those that packages of npm have are to run; the answer says
 * whether any has one, and then node_modules leads to a copy that the session is to make of packed/node_modules. The
 * token, a random name, is that of the directory that is made. Hanging up gives the installation up.
 * Packages of conda have "channels" in the job, too, and "at", where the session will see the directory, and the
 * "version" of its Python ("3.11").
 *   {"job":"drop","tokens":[…]}	 directories of sessions that are gone: {}
 */
#define CBX_JOB_SOCKET 3
/* Inside, where such copies are, a directory for each token; runtimes/javascript/scripts.js makes them. */
#define CBX_NPM_COPIES "/home/user/.local/share/codebox/npm"
#define CBX_JOB_MAX    (4u << 20) /* bytes of a job */

#endif
