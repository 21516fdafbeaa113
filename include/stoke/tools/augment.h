/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/augment.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_AUGMENT_H
#define STOKE_TOOLS_AUGMENT_H

#include <stoke/augment.h>

/* The op or preset that was probably meant by a name that is none: rotate for "roate" and "RandomRotation".
 * NULL when nothing is near. */
STOKE_API const char *stoke_augment_nearest(const char *name);

#endif
