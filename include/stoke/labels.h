/* SPDX-License-Identifier: Apache-2.0
 *
 * From the values in a mask file to class ids. A label map is parsed once and used by all workers.
 *
 *   "identity"            value = class id
 *   "0:0,255:1"           listed values become classes; all others are errors (except ignore_index itself)
 *   "0:0,255:1,*:ignore"  `*` names what happens to the rest: a class id or `ignore`
 *   "colors.txt"          a file: one line per class, `R G B [id] [name]`; id defaults to the line's number
 *                         counted from 0, `ignore` is allowed as id; `#` starts a comment
 */
#ifndef STOKE_LABELS_H
#define STOKE_LABELS_H

#include <stoke/image.h>

typedef struct stoke_labels stoke_labels;

/* spec NULL or "" = identity. classes 0 = not checked (any value that fits the output is a class).
 * ignore_index -1 = none. Errors: STOKE_E_INVALID with the offending part, STOKE_E_NOTFOUND and
 * STOKE_E_IO for the colour file. */
STOKE_API int stoke_labels_create(stoke_labels **out, const char *spec, uint32_t classes,
                                  int32_t ignore_index, stoke_error *err);
STOKE_API void stoke_labels_destroy(stoke_labels **labels);

/* Name of a class, or NULL: from the colour file, or what stoke_data_labels found. */
STOKE_API const char *stoke_labels_name(const stoke_labels *labels, uint32_t id);

STOKE_API int stoke_labels_color(const stoke_labels *labels, uint32_t id, uint8_t rgb[3]);

/* Maps a decoded mask (1 channel u8/u16, or 3 channels u8 for colour tables) to class ids in `out`, which has
 * the same width and height, 1 channel, depth = stoke_labels_depth(). out may be the same buffer as `mask`
 * when both have one channel and the same depth. STOKE_E_LABEL: the message has value and first pixel,
 * "value 37 at (x 120, y 4) is not a class (classes 12, ignore 255)". */
STOKE_API int stoke_labels_apply(const stoke_labels *labels, const stoke_image *mask, stoke_image *out,
                                 stoke_error *err);

#endif
