/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_OBJECTS_JOB_H
#define CBX_OBJECTS_JOB_H

/*
 * Between codeboxd and codebox-upload, as with codebox-store (artifacts/job.h): a socket for each job, which is an
 *object of JSON. The answer is one as well, with "kind" and "message" where the job failed. When codeboxd closes the
 *socket, the job ends, and nothing of it is left in the store.
 *
 *   {"job":"upload","store","secret","key","tenant","id","size","mime_type","timeout_ms"}  the file of an artifact is
 *						      copied to the store: {"tries"}, of requests that failed
 *   {"job":"remove","store","secret","key","timeout_ms"}  {}
 *
 * store: as in the canonical form of a policy (policy/objects.h).
 */
#define CBX_UPLOAD_SOCKET 3

#endif
