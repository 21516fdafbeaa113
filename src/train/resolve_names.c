/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of the classes: as asked for, from the file of colours, or found beside the set.
 */
#include "src/train/resolve.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/source/reader.h"

int stk_resolve_names_beforehand(stk_resolve_ctx *s, stk_names *names)
{
    stoke_labels *labels = NULL;
    int r = stoke_labels_create(&labels, "identity", STK_LABEL_VALUES, -1, s->err);
    if (!r) r = stk_names_add(labels, &s->setup->train, names, s->err);
    stoke_labels_destroy(&labels);
    return r;
}

/* What belongs to the run, not to a file that may change: the list as text, where no name has a comma. */
static int keep_list(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    size_t used = 0;
    char list[16384]; /* what a list in YAML may have */
    for (uint32_t i = 0; i < setup->classes; i++) {
        const char *name = setup->class_names[i];
        if (!name) continue;
        if (strchr(name, ',')) return STOKE_OK;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%u:%s", used ? "," : "", i, name);
        if (used >= sizeof list) return STOKE_OK;
    }
    setup->train.names = stk_resolve_keep(s, list);
    return setup->train.names ? STOKE_OK : STOKE_E_NOMEM;
}

static void say_it(void *context, const char *sentence)
{
    stk_resolve_say(context, "%s", sentence);
}

/* Names of classes, as many as are known. */
static int keep_names(stk_resolve_ctx *s, const stoke_labels *labels)
{
    stk_setup *setup = s->setup;
    int any = 0;
    const char **names = stk_calloc(setup->classes, sizeof *names);
    if (!names) return stk_fail(s->err, STOKE_E_NOMEM, "no memory for the names of classes");
    setup->class_names = names;
    for (uint32_t i = 0; i < setup->classes; i++) {
        /* One logit says how much of class 1 there is. */
        const char *name = stoke_labels_name(labels, setup->classes == 1 ? 1 : i);
        if (!name && setup->classes == 1) name = stoke_labels_name(labels, 0);
        if (name && !(names[i] = stk_resolve_keep(s, name))) return STOKE_E_NOMEM;
        any |= name != NULL;
    }
    if (any) return STOKE_OK;
    stk_free(names);
    setup->class_names = NULL;
    return STOKE_OK;
}

int stk_resolve_names(stk_resolve_ctx *s)
{
    stoke_labels *labels = NULL;
    stk_names names;
    int r = stk_labels_of(&labels, &s->setup->train, s->err);
    if (!r) r = stk_names_add(labels, &s->setup->train, &names, s->err);
    const uint32_t classes = s->setup->classes > 1 ? s->setup->classes : 2;
    if (!r) stk_names_judge(labels, &names, classes, say_it, s);
    if (!r) r = keep_names(s, labels);
    if (!r && s->setup->class_names && *names.origin) r = keep_list(s);
    stoke_labels_destroy(&labels);
    return r;
}
