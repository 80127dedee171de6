/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_LIMITS_H
#define CBX_IMAGE_LIMITS_H

/*
 * Ceilings of the image store, in the form of base/limits.h. All of them hold for one image, whatever number of
 * archives it is made of.
 */
#include "base/limits.h"

/* Unpacking (unpack.c); hitting one refuses the archive, and nothing of it stays. */
#define CBX_UNPACK_ENTRIES_MAX 500000    /* unpack: entries of all kinds, and directories made on the way to
					 * them; `import --max-entries` lowers it
					 * [hostile/archives.py:too_many_entries] */
#define CBX_UNPACK_BYTES_MAX GIB(16)     /* unpack: sum of apparent file sizes; `import --max-bytes` lowers it
					 * [hostile/archives.py:too_many_bytes] */
#define CBX_UNPACK_FILE_MAX GIB(4)       /* unpack: apparent size of one file; also RLIMIT_FSIZE of the worker
					 * [hostile/archives.py:size_of_an_exabyte] */
#define CBX_UNPACK_PATH_MAX 1024         /* unpack: bytes of a path or a link target, with its NUL
					 * [unit/test_image_recipe.c:long_names_in_archives] */
#define CBX_UNPACK_NAME_MAX 255          /* unpack: bytes of one component
					 * [unit/test_image_recipe.c:long_names_in_archives] */
#define CBX_UNPACK_DEPTH_MAX 64          /* unpack: components of a path
					 * [unit/test_image_recipe.c:long_names_in_archives] */
#define CBX_UNPACK_RATIO_MAX 200         /* unpack: unpacked bytes for each compressed byte; more: refused
					 * [hostile/archives.py:bomb_by_ratio] */
#define CBX_UNPACK_RATIO_FLOOR MIB(64)   /* unpack: unpacked bytes above which the ratio is looked at
					 * [hostile/archives.py:bomb_by_ratio] */

/* Images made of layers (oci.c, layout.c); more of any refuses the image. */
#define CBX_LAYERS_MAX 128               /* oci.c: layers of one image, and archives given to `import`
					  * [cli/image.py:too_many_layers] */
#define CBX_INDEX_ENTRIES_MAX 1000       /* oci.c: images named by one index [cli/image.py:too_many_layers] */

/* The worker process that unpacks (worker.c); hitting one ends it, which refuses the archive. */
#define CBX_WORKER_MEMORY_MAX GIB(1)     /* worker: RLIMIT_AS: largest xz and zstd windows fit several times
					 * [hostile/archives.py:the_worker_is_limited] */
#define CBX_WORKER_CPU_S 900             /* worker: RLIMIT_CPU, seconds for one archive
					 * [hostile/archives.py:the_worker_is_limited] */
#define CBX_WORKER_FILES 32              /* worker: RLIMIT_NOFILE [hostile/archives.py:the_worker_is_limited] */

/* Pulling from a registry (src/pull); hitting one ends the pull, whose layers so far are kept for the next. */
#define CBX_PULL_PARALLEL 4              /* blobs.c: layers fetched at once; others wait
					  * [cli/image_pull.py:layers_at_once] */
#define CBX_PULL_TRIES 6                 /* registry.c: failures in a row without a byte; more: an error
					  * [cli/image_pull.py:a_registry_that_fails] */
#define CBX_PULL_STARTS 200              /* blobs.c: transfers of one layer that are cut; more: an error
					  * [cli/image_pull.py:connections_that_are_cut] */
#define CBX_PULL_CONNECT_S 20            /* registry.c: seconds for a connection; then it has failed */
#define CBX_PULL_STALL_S 30              /* registry.c: seconds without a byte; then the transfer is cut */
#define CBX_PULL_FILES 256               /* confine.c: RLIMIT_NOFILE; the transfer that needs more fails
					  * [cli/image_pull.py:the_worker_is_confined] */
#define CBX_CREDENTIALS_MAX MIB(1)       /* credentials.c: a file of credentials; longer: it is refused
					  * [cli/image_pull.py:credentials] */

/* What the store and the builder read. */
#define CBX_MANIFEST_MAX MIB(4)          /* store.c: manifest.json; longer: the image is damaged
					 * [unit/test_image_store.c:damaged_directories] */
#define CBX_LISTING_MAX MIB(512)         /* scan.c: files.txt; longer: the image is damaged
					 * [hostile/archives.py:a_list_of_files_that_is_too_long] */
#define CBX_RECIPE_MAX KIB(256)          /* recipe.c: a recipe file; longer: refused
					 * [unit/test_image_recipe.c:long_recipes] */
#define CBX_RECIPE_ITEMS_MAX 1000        /* recipe.c: elements of one list of a recipe; more: refused
					 * [unit/test_image_recipe.c:long_recipes] */
#define CBX_LOCK_MAX MIB(1)              /* wheellock.c: the lock of a recipe's wheels; longer: refused
					 * [cli/image_wheels.py:locks_that_make_no_sense] */
#define CBX_LOCKED_MAX 4000              /* wheellock.c: wheels in it; more: refused
					 * [cli/image_wheels.py:locks_that_make_no_sense] */
#define CBX_TARGETS_MAX 32               /* wheellock.c: Pythons and machines that it is for; more: refused
					 * [cli/image_wheels.py:locks_that_make_no_sense] */
#define CBX_WHEELS_BYTES GIB(4)          /* wheels.c: files of a recipe's wheels, packed; more, or four times as much
					 * unpacked: refused */
#define CBX_PACKAGES_MAX 4000            /* fetch.c: packages of one image; more: refused */
#define CBX_IMAGES_MAX 1000              /* store.c: images listed; the rest is omitted
					 * [unit/test_image_store.c:too_many_are_not_listed] */
#define CBX_COPY_BYTES_MAX MIB(512)      /* host.c: bytes copied from the machine for a "host" image; more:
					 * refused */
#define CBX_COMPILED_MAX GIB(1)          /* finish.c: archive of compiled files read from the sandbox; more:
					 * refused */

#define CBX_SAVED_MAX 16                 /* saved.c: times that packages of a session were added to an image; more:
					 * refused [cli/saved.py:again_and_again] */

/* Steps that wait for others. */
#define CBX_FINISH_TIMEOUT_S 1200        /* finish.c: the compile step's time in the sandbox */
#define CBX_FINISH_DISK GIB(2)           /* finish.c: for its files */
#define CBX_FINISH_MEMORY GIB(2)         /* finish.c: its memory */

#endif
