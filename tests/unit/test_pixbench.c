/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stoke/tools/pixbench.h>

#include "src/base/mem.h"
#include "src/pix/check/check.h"

typedef struct seen {
    size_t figures, measured, stop_after;
    const char *prefix;
    double *memory;
} seen;

static int look(void *context, const stoke_pix_figure *f)
{
    seen *s = context;
    assert_true(*s->memory > 0); /* known before the first figure */
    assert_true(!strncmp(f->function, s->prefix, strlen(s->prefix)));
    assert_string_equal(f->table, stk_cpu_level_name((stk_cpu_level)(s->figures % 3)));
    const int lacks = s->figures % 3 > (size_t)stk_cpu_detected();
    assert_int_equal(f->state == STOKE_PIX_ABSENT, lacks);
    if (f->state == STOKE_PIX_MEASURED) {
        s->measured++;
        assert_true(f->ns_per_pixel > 0 && f->speedup > 0 && f->gb_per_s > 0 && f->bytes > 0 && f->place);
        if (s->figures % 3 == 0) assert_true(f->speedup > 0.999 && f->speedup < 1.001);
    } else {
        assert_true(f->ns_per_pixel == 0 && f->bytes == 0);
    }
    s->figures++;
    return s->stop_after && s->figures >= s->stop_after;
}

static int scratch(const char *only, seen *s, stoke_error *err)
{
    stoke_pix_bench_params p = stoke_pix_bench_defaults();
    double memory = 0;
    p.only = only;
    p.quick = 1;
    *s = (seen){ .prefix = only ? only : "", .memory = &memory, .stop_after = s->stop_after };
    return stoke_pix_bench(&p, look, s, &memory, err);
}

static void every_function_comes_once_per_table(void **state)
{
    size_t trials = 0;
    seen s = { 0 };
    while (stk_kernel_check_at(trials)) trials++;
    assert_int_equal(scratch(NULL, &s, NULL), 0);
    assert_int_equal(s.figures, 3 * trials);
    assert_true(s.measured >= trials); /* C at least */
}

static void names_choose(void **state)
{
    seen s = { 0 };
    stoke_error err;
    assert_int_equal(scratch("reverse_", &s, &err), 0);
    assert_int_equal(s.figures, 3 * 4);
    assert_int_equal(scratch("nothing", &s, &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "nothing"));
    assert_int_equal(s.figures, 0);
}

static void it_stops_when_asked_and_fails_cleanly(void **state)
{
    seen s = { .stop_after = 2 };
    stoke_error err;
    assert_int_equal(scratch(NULL, &s, &err), STOKE_E_CANCELLED);
    assert_int_equal(s.figures, 2);
    stoke_pix_bench_params p = { 0 };
    double memory;
    assert_int_equal(stoke_pix_bench(&p, look, &s, &memory, &err), STOKE_E_INVALID);
    s.stop_after = 0;
    for (int i = 0; i < 5; i++) {
        stk_mem_fail_after(i);
        int status = scratch("write_u8_u8_chw", &s, &err);
        stk_mem_fail_after(-1);
        assert_int_equal(status, STOKE_E_NOMEM);
    }
}

UNIT_GROUP(pixbench)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_comes_once_per_table),
        cmocka_unit_test(names_choose),
        cmocka_unit_test(it_stops_when_asked_and_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
