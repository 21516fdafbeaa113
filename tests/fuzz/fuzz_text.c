/* SPDX-License-Identifier: Apache-2.0
 *
 * Small languages, and texts of the kernel that have names of files and processes in them: the first byte
 * chooses one, the rest is its text. Each says no with a reason, or gives what its header promises.
 */
#include "tests/fuzz/fuzz.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/pix/pix.h"
#include "src/source/quarantine.h"
#include "src/source/dataset_internal.h"
#include "src/tune/machine/disk.h"
#include "src/tune/machine/gpus.h"
#include <stoke/tools/diagnose.h>

/* /proc/PID/fdinfo/N of a graphics card. */
static void try_fdinfo(const char *text)
{
    stk_drm_client client = { 0 };
    if (!stk_drm_parse(&client, text, "0000:03:00.0")) return;
    insist(client.n_engines <= STK_DRM_ENGINES && !(client.memory_bytes < 0));
    for (uint32_t i = 0; i < client.n_engines; i++)
        insist(memchr(client.engine[i].name, 0, sizeof client.engine[i].name) && client.engine[i].capacity);
}

/* /proc/self/mountinfo, where anyone who may mount writes names. */
static void try_mounts(const char *text)
{
    stoke_disk_facts facts = { 0 };
    if (!stk_disk_mount(&facts, text, "/data/set")) return;
    insist(memchr(facts.mount, 0, sizeof facts.mount) && memchr(facts.device, 0, sizeof facts.device));
    insist(*facts.mount == '/' && memchr(facts.filesystem, 0, sizeof facts.filesystem));
}

/* A million names are allowed, and take seconds here: of more than two braces, or long numbers in them,
 * nothing new is learnt. */
static int has_many(const char *text)
{
    int braces = 0;
    if (strlen(text) > 256) return 1;
    for (; *text; text++) {
        braces += *text == '{';
        if (braces > 2 || strspn(text, "0123456789") > 2) return 1;
    }
    return 0;
}

static void try_shards(const char *text)
{
    if (has_many(text)) return;
    stk_string_arena arena = { 0 };
    stk_shard_list shards = { 0 };
    stoke_error err = { 0 };
    if (stk_shards_expand(text, &arena, &shards, &err)) insist(*err.message != 0);
    for (size_t i = 0; i < shards.count; i++) insist(strlen(shards.items[i].path) < PATH_MAX);
    stk_free(shards.items);
    stk_string_arena_free(&arena);
}

static void try_setup(const char *text)
{
    stoke_setup setup = stoke_setup_defaults();
    const stoke_setup before = setup;
    stoke_error err = { 0 };
    char said[256];
    if (stoke_setup_change(&setup, text, &err))
        insist(*err.message && !memcmp(&setup, &before, sizeof setup));
    insist(stoke_setup_text(&setup, said, sizeof said) < (int)sizeof said);
}

static void try_fuse(const char *text)
{
    uint64_t limit = 0;
    stoke_error err = { 0 };
    if (stk_max_bad_limit(text, 1000, &limit, &err)) insist(*err.message != 0);
}

static void try_window(const char *text)
{
    stk_pix_window window;
    stoke_error err = { 0 };
    if (stk_window_parse(text, &window, &err)) insist(*err.message != 0);
}

FUZZ_TARGET(text)
{
    static void (*const readers[])(const char *) = { try_fdinfo, try_mounts, try_shards,
                                                     try_setup,  try_fuse,   try_window };
    if (!size) return 0;
    char *text = malloc(size);
    insist(text != NULL);
    memcpy(text, bytes + 1, size - 1);
    text[size - 1] = 0;
    readers[(bytes[0] - (unsigned)'0') % (sizeof readers / sizeof *readers)](text);
    free(text);
    return 0;
}
