/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of classes for masks of integers, from `names`:
 *
 *   sky,road,car            in order of their ids; or 0:sky,7:car
 *   FILE                    a line each: `sky`, or `7 car`, `7: car` on every line; # begins a comment line
 *   FILE.yaml               the key `names` in it, a list or a mapping from ids, as data.yaml of YOLO has
 *
 * Without the setting, classes.txt, names.txt, labels.txt or data.yaml beside the set.
 */
#ifndef STOKE_SRC_SOURCE_NAMES_H
#define STOKE_SRC_SOURCE_NAMES_H

#include <stoke/data.h>

#include "src/base/error.h"
#include "src/base/remarks.h"
#include "src/source/labels_internal.h"

enum { STK_NAMES_ORIGIN = 4096 };

/* Where names came from. */
typedef struct stk_names {
    uint32_t count; /* one more than the highest id that has a name; 0: none */
    int found;      /* beside the set: nobody asked for them */
    char origin[STK_NAMES_ORIGIN];
} stk_names;

/* Gives the classes of a label map the names that the settings ask for; else, when it has none,
 * those that lie beside the set. Fails for names that were asked for; a file that was only found and is none
 * of ours is passed over. */
int stk_names_add(stoke_labels *labels, const stoke_data_params *params, stk_names *names, stoke_error *err);
/* Names that were found must fit the classes, or they are dropped; says what became of them. Those that were
 * asked for are taken as they are. */
void stk_names_judge(stoke_labels *labels, const stk_names *names, uint32_t classes, stk_say_fn *say,
                     void *context);

/* The parsers on memory, also for the fuzzer; `origin` is the file's name in messages. */
int stk_names_parse_list(stoke_labels *labels, const char *text, stoke_error *err);
int stk_names_parse_text(stoke_labels *labels, const char *origin, const void *bytes, size_t size,
                         stoke_error *err);
int stk_names_parse_yaml(stoke_labels *labels, const char *origin, const void *bytes, size_t size,
                         stoke_error *err);

/* One more than the highest id that has a name. */
uint32_t stk_names_count(const stoke_labels *labels);

#endif
