/* SPDX-License-Identifier: Apache-2.0
 *
 * Event files byte for byte against records that TensorBoard's own writer made (make_events_record.py in
 * tests/parity); tests/parity/tensorboard_live.py has TensorBoard read ours.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <math.h>

#include "src/base/mem.h"
#include "src/report/events.h"
#include "tests/unit/fixture_events.h"

static double at_a_fixed_time(void)
{
    return 1700000000.25;
}

/* The only event file of the folder, whole. */
static size_t read_events(const char *folder, uint8_t *bytes, size_t most)
{
    char path[4096];
    size_t size = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (strncmp(e->d_name, "events.out.tfevents.1700000000.", 31) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        assert_int_equal(size, 0);
        size = fread(bytes, 1, most, f);
        fclose(f);
    }
    closedir(dir);
    return size;
}

static void crc_is_castagnoli(void **state)
{
    uint8_t zeros[32] = { 0 };
    assert_int_equal(stk_crc32c(0, "123456789", 9), 0xe3069283); /* RFC 3720, B.4 and the usual check value */
    assert_int_equal(stk_crc32c(0, zeros, 32), 0x8a9136aa);
    assert_int_equal(stk_crc32c(stk_crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
    assert_int_equal(stk_crc32c(0, "", 0), 0);
}

/* The same calls as make_events_record.py. */
static void bytes_are_tensorboards(void **state)
{
    static uint8_t bytes[4096];
    stk_events *events;
    stoke_error err = { 0 };
    const uint64_t after = 90;
    const char *const tags[] = { "train/loss", "train/lr", "train/gradient_norm" };
    const double values[] = { 2.3125, 6e-5, NAN };
    const char *tag = "val/iou/\xc3\xa9tang";
    const double zero = 0;
    unit_write(unit_path(state, "p.png"), events_png, sizeof events_png);
    assert_int_equal(stk_events_open_at(&events, unit_folder(state), &after, at_a_fixed_time, &err), 0);
    assert_int_equal(stk_events_scalars(events, 0, tags, values, 3, &err), 0);
    assert_int_equal(stk_events_scalars(events, 1000000007, &tag, &zero, 1, &err), 0);
    assert_int_equal(stk_events_png(events, 300, "val/predictions", unit_path(state, "p.png"), &err), 0);
    assert_int_equal(stk_events_scalars(events, 301, NULL, NULL, 0, &err), 0); /* nothing to say */
    stk_events_close(&events);
    assert_int_equal(read_events(unit_folder(state), bytes, sizeof bytes), sizeof events_record);
    assert_memory_equal(bytes, events_record, sizeof events_record);
}

static void what_is_no_png_is_refused(void **state)
{
    stk_events *events;
    stoke_error err = { 0 };
    static uint8_t before[4096], behind[4096];
    unit_write(unit_path(state, "p.png"), "GIF89a...........................", 30);
    assert_int_equal(stk_events_open_at(&events, unit_folder(state), NULL, at_a_fixed_time, &err), 0);
    const size_t size = read_events(unit_folder(state), before, sizeof before);
    assert_int_equal(stk_events_png(events, 1, "t", unit_path(state, "p.png"), &err), STOKE_E_FORMAT);
    assert_int_equal(stk_events_png(events, 1, "t", unit_path(state, "absent.png"), &err), STOKE_E_NOTFOUND);
    assert_int_equal(read_events(unit_folder(state), behind, sizeof behind), size);
    stk_events_close(&events);
    assert_null(events);
    stk_events_close(&events);
    assert_int_equal(stk_events_open(&events, unit_path(state, "absent"), NULL, &err), STOKE_E_IO);
    assert_null(events);
}

static void survives_without_memory(void **state)
{
    unit_write(unit_path(state, "p.png"), events_png, sizeof events_png);
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stk_events *events;
        const char *tag = "a";
        const double value = 1;
        stk_mem_fail_after(after);
        status = stk_events_open(&events, unit_folder(state), NULL, NULL);
        if (!status) status = stk_events_scalars(events, 1, &tag, &value, 1, NULL);
        if (!status) status = stk_events_png(events, 1, "b", unit_path(state, "p.png"), NULL);
        stk_mem_fail_after(-1);
        stk_events_close(&events);
        assert_true(after < 20);
    }
}

UNIT_GROUP(events)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_is_castagnoli),
        unit_test_with_folder(bytes_are_tensorboards),
        unit_test_with_folder(what_is_no_png_is_refused),
        unit_test_with_folder(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
