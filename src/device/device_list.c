/* SPDX-License-Identifier: Apache-2.0
 *
 * What there is: every kind adds what it finds, or itself with the reason why nothing was found.
 */
#include "src/device/device.h"

#include <string.h>
#include <stoke/tools/device.h>

#include "src/base/error.h"
#include "src/base/mem.h"

const stk_device_fns *const stk_device_kinds[] = {
    &stk_device_host, &stk_device_cuda, &stk_device_opencl, &stk_device_sim, NULL,
};

struct stoke_device_list {
    stoke_device_info *info;
    size_t count, capacity;
    int incomplete; /* no memory for one of them */
};

int stk_device_list_add(stoke_device_list *list, const stoke_device_info *info)
{
    if (!stk_grow((void **)&list->info, &list->capacity, list->count + 1, sizeof *list->info)) {
        list->incomplete = 1;
        return STOKE_E_NOMEM;
    }
    list->info[list->count++] = *info;
    return STOKE_OK;
}

/* kind NULL: all. */
static int create(stoke_device_list **out, const char *kind, stoke_error *err)
{
    int known = 0;
    *out = NULL;
    stoke_device_list *list = stk_calloc(1, sizeof *list);
    for (size_t i = 0; list && stk_device_kinds[i]; i++) {
        if (kind && strcmp(kind, stk_device_kinds[i]->kind) != 0) continue;
        stk_device_kinds[i]->discover(list);
        known = 1;
    }
    if (!list || list->incomplete) {
        stoke_device_list_destroy(&list);
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the list of devices");
    }
    if (!known) {
        stoke_device_list_destroy(&list);
        return stk_fail(err, STOKE_E_NOTFOUND, "no kind of device is called '%.40s'", kind);
    }
    *out = list;
    return STOKE_OK;
}

int stoke_device_list_create(stoke_device_list **out, stoke_error *err)
{
    return create(out, NULL, err);
}

int stoke_device_list_create_kind(stoke_device_list **out, const char *kind, stoke_error *err)
{
    return create(out, kind, err);
}

void stoke_device_list_destroy(stoke_device_list **list)
{
    if (!*list) return;
    stk_free((*list)->info);
    stk_free(*list);
    *list = NULL;
}

int stoke_device_list_at(const stoke_device_list *list, size_t index, stoke_device_info *info)
{
    if (index >= list->count) return 0;
    *info = list->info[index];
    return 1;
}
