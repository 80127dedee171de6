/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_FILES_H
#define CBX_PACKAGES_FILES_H

/*
 * Files that say which packages somebody needs. Each requirement is pushed as text; one that could not be installed, and
 * whatever would change where packages come from, is refused by the line where it is: "requirements.txt:3: …". The text
 * ends with a NUL; name: of the file, for messages.
 */
#include "base/err.h"
#include "base/json.h"

/* pyproject.toml (project.dependencies) by its ending, else lines as pip reads them. */
int cbx_requirements_read(const char *name, const char *text, cJSON *ret, struct cbx_err *err);
/* The comment of a script that says what it needs (PEP 723). 1: it has one. */
int cbx_requirements_of_script(const char *name, const char *text, cJSON *ret, struct cbx_err *err);

#endif
