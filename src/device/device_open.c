/* SPDX-License-Identifier: Apache-2.0
 *
 * From a name to a device and back.
 */
#include <stdio.h>

#include <string.h>
#include <stoke/tools/device.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/device/device.h"

stoke_device_params stoke_device_defaults(void)
{
    return (stoke_device_params){ .struct_size = sizeof(stoke_device_params) };
}

/* Opens one of a kind. `name` is the whole of what was asked for: "opencl:1". */
static int open_kind(stoke_device **out, const stk_device_fns *fns, const char *name,
                     const stoke_device_params *params, stoke_error *err)
{
    stoke_device *device = stk_calloc(1, sizeof *device);
    if (!device) return stk_fail(err, STOKE_E_NOMEM, "no memory to open device %s", name);
    const char *colon = strchr(name, ':');
    pthread_mutex_init(&device->lock, NULL); /* cannot fail on Linux */
    device->limit = params->memory_limit;
    device->fns = fns;
    snprintf(device->info.name, sizeof device->info.name, "%s", name);
    const int r = fns->open(device, colon ? colon + 1 : "", params, err);
    *out = device;
    if (r) stoke_device_close(out);
    return r;
}

/* "; usable here: host, opencl:0, sim" behind a message. */
static void append_what_there_is(stoke_error *err)
{
    stoke_device_list *list;
    if (stoke_device_list_create(&list, NULL)) return;
    stoke_device_info info;
    const char *before = "; usable here: ";
    for (size_t i = 0; stoke_device_list_at(list, i, &info); i++) {
        if (*info.problem) continue;
        stk_error_add(err, "%s%s", before, info.name);
        before = ", ";
    }
    stoke_device_list_destroy(&list);
}

static const stk_device_fns *find_kind(const char *name)
{
    const size_t length = strcspn(name, ":");
    for (size_t i = 0; stk_device_kinds[i]; i++) {
        const char *kind = stk_device_kinds[i]->kind;
        if (strlen(kind) == length && !memcmp(kind, name, length)) return stk_device_kinds[i];
    }
    return NULL;
}

static int unknown_name(const char *name, stoke_error *err)
{
    char kind[32];
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(name, ":"), name);
    if (!strcmp(kind, "virtual")) /* its name in version 0.1 */
        return stk_fail(err, STOKE_E_NOTFOUND, "'%.40s' is now called sim%.40s", name, name + strlen(kind));
    stk_did_you_mean nearest = stk_did_you_mean_to(kind);
    for (size_t i = 0; stk_device_kinds[i]; i++) stk_did_you_mean_try(&nearest, stk_device_kinds[i]->kind);
    stk_did_you_mean_try(&nearest, "auto");
    stk_fail(err, STOKE_E_NOTFOUND, "no device is called '%.40s'%s%s%s", name,
             nearest.best ? ": did you mean " : "", nearest.best ? nearest.best : "",
             nearest.best ? "?" : "");
    return STOKE_E_NOTFOUND;
}

/* The first real accelerator that opens, else the host. One that is listed and does not open (another program
 * has it, its driver is broken) is passed over: the next may be sound. */
static int open_auto(stoke_device **out, const stoke_device_params *params, stoke_error *err)
{
    stoke_device_list *list;
    int r = stoke_device_list_create(&list, err);
    if (r) return r;
    stoke_device_info info;
    r = STOKE_E_NOTFOUND;
    for (size_t i = 0; r && stoke_device_list_at(list, i, &info); i++)
        if (!*info.problem && !info.shares_cores && !info.emulated)
            r = open_kind(out, find_kind(info.name), info.name, params, err);
    stoke_device_list_destroy(&list);
    return r ? open_kind(out, &stk_device_host, stk_device_host.kind, params, err) : STOKE_OK;
}

int stoke_device_open(stoke_device **out, const char *name, const stoke_device_params *params,
                      stoke_error *err)
{
    const stoke_device_params defaults = stoke_device_defaults();
    stoke_error unwanted;
    *out = NULL;
    if (!err) err = &unwanted;
    if (!params) params = &defaults;
    if (params->struct_size != sizeof *params) return stk_fail_struct(err, "stoke_device_defaults");
    if (!name || !strcmp(name, "auto")) return open_auto(out, params, err);
    const stk_device_fns *kind = find_kind(name);
    const int r = kind ? open_kind(out, kind, name, params, err) : unknown_name(name, err);
    if (r == STOKE_E_NOTFOUND) append_what_there_is(err);
    return r;
}

void stoke_device_close(stoke_device **device)
{
    if (!*device) return;
    (*device)->fns->close(*device);
    pthread_mutex_destroy(&(*device)->lock);
    stk_free(*device);
    *device = NULL;
}

const stoke_device_info *stoke_device_describe(const stoke_device *device)
{
    return &device->info;
}

/* What there is: every kind adds what it finds, or itself with the reason why nothing was found. */

const stk_device_fns *const stk_device_kinds[] = {
    &stk_device_host, &stk_device_cuda, &stk_device_opencl, &stk_device_sim, NULL,
};

struct stoke_device_list {
    stoke_device_info *info;
    size_t count, capacity;
    int incomplete; /* no memory for one of them */
};

int stk_device_list_add(stoke_device_list *list, const stoke_device_info *info, const stoke_error *err)
{
    if (!stk_grow((void **)&list->info, &list->capacity, list->count + 1, sizeof *list->info)) {
        list->incomplete = 1;
        return STOKE_E_NOMEM;
    }
    stoke_device_info *added = &list->info[list->count++];
    *added = *info;
    if (err)
        snprintf(added->problem, sizeof added->problem, "%.*s", (int)sizeof added->problem - 1, err->message);
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
