/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of a run's setup share: small sets, ears for what is said, a setup that must or
 * must not be made.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_RESOLVE_H
#define STOKE_TESTS_UNIT_FIXTURE_RESOLVE_H

#include "tests/unit/fixture_pairs.h"

#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/train/setup.h"

/* What was said, and how often progress was heard of. */
typedef struct settling_heard {
    char text[8192];
    unsigned calls;
    uint64_t done, total;
    int cancel;
} settling_heard;

static inline void settling_say(void *context, const char *sentence)
{
    settling_heard *h = context;
    const size_t used = strlen(h->text);
    snprintf(h->text + used, sizeof h->text - used, "%s\n", sentence);
}

static inline int settling_progress(void *context, uint64_t done, uint64_t total)
{
    settling_heard *h = context;
    h->calls++;
    h->done = done;
    h->total = total;
    return h->cancel;
}

static settling_heard settling_ears;

/* Of the test's folder, everything chosen, but small. */
static inline stoke_data_params settling_plain(void **state)
{
    stoke_data_params data = stoke_data_defaults();
    data.data = unit_folder(state);
    data.batch = -1;
    data.workers = 1;
    data.quarantine = "";
    return data;
}

static inline stk_setup settling_make(const stoke_data_params *data, const stoke_train_params *params)
{
    stk_setup setup;
    stoke_error err = { 0 };
    settling_ears = (settling_heard){ 0 };
    if (stk_setup_make(&setup, data, params, settling_say, settling_progress, &settling_ears, &err))
        fail_msg("%s", err.message);
    return setup;
}

static inline void settling_refused(const stoke_data_params *data, const stoke_train_params *params, int code,
                                    const char *message)
{
    stk_setup setup;
    stoke_error err = { 0 };
    settling_ears = (settling_heard){ 0 };
    const int r = stk_setup_make(&setup, data, params, settling_say, settling_progress, &settling_ears, &err);
    if (r != code || !strstr(err.message, message)) fail_msg("%d: %s", r, err.message);
    assert_null(setup.train_set);
    assert_null(setup.strings.last);
}

static inline void settling_said(const char *part)
{
    if (!strstr(settling_ears.text, part))
        fail_msg("\"%s\" was not said, but:\n%s", part, settling_ears.text);
}

static inline void settling_not_said(const char *part)
{
    if (strstr(settling_ears.text, part)) fail_msg("\"%s\" was said:\n%s", part, settling_ears.text);
}

/* The same picture under several names. Copied: the library's writer waits for the disk each time. */
static inline void settling_copies(void **state, const char *folder, const stoke_image *image, uint32_t count)
{
    char name[64];
    stk_mem_buffer file = { 0 };
    size_t size;
    snprintf(name, sizeof name, "%s/v0.png", folder);
    assert_int_equal(stoke_image_write_png(unit_path(state, name), image, NULL), 0);
    assert_int_equal(stk_file_read(unit_path(state, name), 1 << 20, &file, &size, NULL), 0);
    for (uint32_t i = 1; i < count; i++) {
        snprintf(name, sizeof name, "%s/v%u.png", folder, i);
        unit_write(unit_path(state, name), file.data, size);
    }
    stk_buffer_free(&file);
}

/* `count` pictures of 32 x 32 whose masks have these values in stripes. */
static inline void settling_write(void **state, uint32_t count, const uint16_t *values, uint32_t n)
{
    uint8_t rgb[32 * 32 * 3];
    uint16_t ids[32 * 32];
    int wide = 0;
    for (uint32_t i = 0; i < n; i++) wide |= values[i] > 255;
    for (uint32_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * 7);
    for (uint32_t i = 0; i < 32 * 32; i++)
        if (wide)
            ids[i] = values[i / 32 % n];
        else
            ((uint8_t *)ids)[i] = (uint8_t)values[i / 32 % n];
    const stoke_image image = { rgb, 96, 32, 32, 3, 1 };
    const stoke_image mask = { ids, wide ? 64 : 32, 32, 32, 1, wide ? 2 : 1 };
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    settling_copies(state, "images", &image, count);
    settling_copies(state, "masks", &mask, count);
}

#endif
