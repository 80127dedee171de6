/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_ARTIFACTS_JOB_H
#define CBX_ARTIFACTS_JOB_H

/*
 * Between codeboxd and codebox-store. codeboxd sends one byte and a stream socket for each job, writes the job into it,
 * an object of JSON on a line, and the bytes that belong to it, and shuts that direction down. The answer is a line of
 * JSON, with "kind" and "message" where the job failed, and then bytes; the end of the file is its end.
 *
 *   {"job":"put","tenant","id","offset","size","quota","about"?}  bytes of an artifact; with "about", the last of them,
 *					     it is complete, and is listed from then on: {}
 *   {"job":"read","tenant"?,"id","offset","length"}   what is known of it, and bytes
 *   {"job":"list","tenant"}		     {"artifacts":[…],"bytes"}, the oldest first
 *   {"job":"stored","tenant","id","about"}  its description has an object now: {}
 *   {"job":"remove","tenant","id"}	     {"object"?}; also one that is not complete
 *   {"job":"sweep"}			     remove what has expired, or was never completed: {}
 *
 * about: {"artifact_id","session_id","path","size","mime_type","created","expires","object"?}, times in seconds since 1970.
 */
#define CBX_STORE_SOCKET  3
#define CBX_STORE_JOB_MAX (4u << 20) /* bytes of a job */

#endif
