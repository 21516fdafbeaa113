/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans in words.
 */
#include <stoke/plan.h>

const char *stoke_touch_name(stoke_touch_kind kind)
{
    static const char *const names[STOKE_TOUCH_KINDS] = { "brightness", "contrast", "saturation",
                                                          "hue",        "gamma",    "blur",
                                                          "noise",      "clahe",    "erase" };
    return (unsigned)kind < STOKE_TOUCH_KINDS ? names[kind] : "unknown";
}
