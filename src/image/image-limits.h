/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_LIMITS_H
#define CBX_IMAGE_LIMITS_H

/*
 * Ceilings of the image store. Each line: the value, then who enforces it and what happens when it is hit. All of them
 * hold for one image, whatever number of archives it is made of.
 */
#include "base/limits.h"

/* Unpacking (unpack.c); hitting one refuses the archive, and nothing of it stays. */
#define CBX_UNPACK_ENTRIES_MAX 500000  /* entries of all kinds; `import --max-entries` lowers it */
#define CBX_UNPACK_BYTES_MAX GIB(16)   /* sum of apparent file sizes; `import --max-bytes` lowers it */
#define CBX_UNPACK_FILE_MAX GIB(4)     /* apparent size of one file; also RLIMIT_FSIZE of the worker */
#define CBX_UNPACK_PATH_MAX 1024       /* bytes of a path or a link target, with its NUL */
#define CBX_UNPACK_NAME_MAX 255	       /* bytes of one component */
#define CBX_UNPACK_DEPTH_MAX 64	       /* components of a path */
#define CBX_UNPACK_RATIO_MAX 200       /* unpacked bytes for each compressed byte… */
#define CBX_UNPACK_RATIO_FLOOR MIB(64) /* …looked at only above this many unpacked bytes */

/* The worker process that unpacks (worker.c); hitting one ends it, which refuses the archive. */
#define CBX_WORKER_MEMORY_MAX GIB(1) /* RLIMIT_AS: largest xz and zstd windows fit several times */
#define CBX_WORKER_CPU_S 900	     /* RLIMIT_CPU, seconds for one archive */
#define CBX_WORKER_FILES 32	     /* RLIMIT_NOFILE */

/* What the store and the builder read. */
#define CBX_MANIFEST_MAX MIB(4)	    /* store.c: manifest.json; longer: the image is damaged */
#define CBX_LISTING_MAX MIB(512)    /* scan.c: files.txt; longer: the image is damaged */
#define CBX_RECIPE_MAX KIB(256)	    /* recipe.c: a recipe file; longer: refused */
#define CBX_RECIPE_ITEMS_MAX 1000   /* recipe.c: elements of one list of a recipe; more: refused */
#define CBX_PACKAGES_MAX 4000	    /* fetch.c: packages of one image; more: refused */
#define CBX_IMAGES_MAX 1000	    /* store.c: images listed; the rest is left out */
#define CBX_COPY_BYTES_MAX MIB(512) /* host.c: bytes copied from the machine for a "host" image; more: refused */
#define CBX_COMPILED_MAX GIB(1)	    /* finish.c: archive of compiled files read from the sandbox; more: refused */

/* Steps that wait for others. */
#define CBX_FINISH_TIMEOUT_S 1200 /* finish.c: the compile step's time in the sandbox */
#define CBX_FINISH_DISK GIB(2)	  /* finish.c: its work area */

#endif
