/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LIMITS_ARTIFACTS_H
#define CBX_BASE_LIMITS_ARTIFACTS_H

/* Ceilings of what is kept after its session. limits.h, which includes this file, says what the form is. */

/* Artifacts. */
#define CBX_ARTIFACT_PIECE MIB(1)	 /* session: bytes of an artifact that are in memory at once
					 * [http/artifacts.py:large_files_take_no_memory] */
#define CBX_ARTIFACT_PATH_MAX 1000	 /* session: bytes of its path; a longer one is not kept, and its file says so
					 * [http/artifacts.py:what_is_not_kept_says_so] */
#define CBX_ARTIFACTS_MAX 2000		 /* codebox-store: artifacts of one tenant; more: not kept, and the file says so */
#define CBX_ARTIFACTS_ANSWER_MAX MIB(8)	 /* session: what codebox-store answers at once; more: error */
#define CBX_ARTIFACT_LINKS_MAX MIB(1)	 /* session: bytes of links in a list of artifacts; the others have none there */
#define CBX_ARTIFACT_REQUESTS_MAX 64	 /* session: lists, reads and removals under way; more: error "busy" */
#define CBX_ARTIFACT_REQUESTS_TENANT 16	 /* session: likewise of one tenant; and links leave as many to tenants */
#define CBX_ARTIFACT_RETRY_MS 50	 /* rest: a download that finds no place for its next piece asks again after that */
#define CBX_ARTIFACTS_WAIT_MS 300000	 /* execution: its end waits so long for its artifacts; then the rest is not kept */
#define CBX_ARTIFACTS_SWEEP_S 60	 /* session: between two looks for what has expired; then it goes
					 * [http/artifacts.py:artifacts_expire] */
#define CBX_ARTIFACTS_FIRST_MS 1000	 /* session: from the start to the first look, where there are some; then it goes
					 * [http/artifacts.py:artifacts_expire] */
#define CBX_ARTIFACT_ABANDONED_S 3600	 /* codebox-store: an incomplete one of this age is removed */
#define CBX_ARTIFACTS_KEEP_MAX_S (90 * 86400) /* policy: most that "keep" may say; more: error
					 * [http/artifacts.py:values_that_are_too_large] */
#define CBX_LINK_EXPIRY_MAX_S (7 * 86400) /* policy: most that "link_expiry" may say; more: error
					 * [http/artifacts.py:values_that_are_too_large] */
#define CBX_LINK_EXPIRY_DEFAULT_S 86400	 /* policy: a link's time; asking for more gets this
					 * [http/artifacts.py:links_expire] */
#define CBX_ARTIFACT_SIZE_DEFAULT MIB(64) /* policy: a larger file is not kept, and says so
					 * [http/artifacts.py:what_is_not_kept_says_so] */
#define CBX_ARTIFACT_SIZE_MAX GIB(64)	 /* policy: most that "file_size" may say; more: error
					 * [http/artifacts.py:values_that_are_too_large] */
#define CBX_ARTIFACTS_QUOTA_DEFAULT GIB(1) /* policy: bytes of all artifacts of a tenant; more: not kept, and the file says so
					 * [http/artifacts.py:quota] */
#define CBX_ARTIFACTS_QUOTA_MAX GIB(16384) /* policy: most that "quota" may say; more: error
					 * [http/artifacts.py:values_that_are_too_large] */

/* Copies of artifacts in object stores. */
#define CBX_UPLOAD_PART MIB(16)		 /* codebox-upload: bytes of one request; a larger file is sent in parts
					 * [http/objects.py:large_files_go_in_parts] */
#define CBX_UPLOAD_TRIES 6		 /* codebox-upload: of one request, where failures pass; then not uploaded
					 * [http/objects.py:errors_that_pass_are_waited_out] */
#define CBX_UPLOAD_PAUSE_MS 200		 /* codebox-upload: before the second; twice that before each further one */
#define CBX_UPLOAD_CONNECT_S 15		 /* codebox-upload: for a connection; then the try has failed */
#define CBX_UPLOAD_STALL_S 30		 /* codebox-upload: without a byte; then the try has failed */
#define CBX_UPLOAD_REMOVE_MS 60000	 /* session: for the removal of a copy; then error, and the copy stays */
#define CBX_UPLOAD_MEMORY_MAX MIB(512)	 /* codebox-upload: addresses of the process of an upload; more: it fails
					 * [http/objects.py:large_files_go_in_parts] */

#endif
