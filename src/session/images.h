/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_IMAGES_H
#define CBX_SESSION_IMAGES_H

#include "base/json.h"
#include "session/principal.h"

/* Those that this caller may use: [{"name","default","languages":[…],"created"?,"digest"?,"architecture"?,"note"?,
 * "bytes"}] */
cJSON *cbx_engine_images(const struct cbx_caller *caller);

#endif
