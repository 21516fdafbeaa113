/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans in words.
 */
#include <stoke/tools/augment.h>

const char *stoke_color_name(stoke_color_kind kind)
{
    static const char *const names[STOKE_COLOR_KINDS] = { "brightness", "contrast", "saturation",
                                                          "hue",        "gamma",    "blur",
                                                          "noise",      "clahe",    "erase" };
    return (unsigned)kind < STOKE_COLOR_KINDS ? names[kind] : "unknown";
}
