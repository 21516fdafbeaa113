/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis of small loops: what must hold whatever the machine does. Times are not judged, but for those
 * of a simulated GPU.
 */
#include "tests/unit/fixture_pairs.h"

#include "tests/unit/fixture_markup.h"

#include <math.h>

#include "src/base/mem.h"
#include "src/tune/diagnose/diagnose.h"

enum { STEPS = 8, WARM_UP = 2 };

typedef struct subject {
    stoke_dataset *dataset;
    stoke_device *device;
    stoke_diagnose_params params;
    double step_ms[1];
} subject;

/* Eleven pairs in batches of four: an epoch is three steps. */
static void begin(subject *s, void **state)
{
    stoke_error err = { 0 };
    pairs_write(state, 11, 33, 17);
    s->params = stoke_diagnose_defaults();
    s->params.data = pairs_params(state);
    s->params.data.dtype = stoke_data_defaults().dtype;
    s->params.data.augment = "standard";
    if (stoke_dataset_open(&s->dataset, &s->params.data, &err)) fail_msg("%s", err.message);
    if (stoke_device_open(&s->device, "sim:rtx3090", NULL, &err)) fail_msg("%s", err.message);
    s->step_ms[0] = 1;
    s->params.dataset = s->dataset;
    s->params.device = s->device;
    s->params.step_ms = s->step_ms;
    s->params.n_steps = 1;
    s->params.steps = STEPS;
    s->params.although_busy = 1; /* as a machine that runs tests may be */
    s->params.warm_up = WARM_UP;
    s->params.setup.batch = 4;
    s->params.setup.workers = 1;
    s->params.setup.prefetch = 2;
    s->params.setup.depth = 2;
    s->params.setup.by_batch = 0;
}

static void end(subject *s)
{
    stoke_dataset_close(&s->dataset);
    stoke_device_close(&s->device);
}

/* Sums are exact, records are in order, costs are what they are said to be. */
static stoke_diagnosis *check(const subject *s)
{
    stoke_diagnosis *d = NULL;
    stoke_error err = { 0 };
    if (stoke_diagnose(&d, &s->params, &err)) fail_msg("%s", err.message);
    const stoke_attribution *a = &d->attribution;
    uint64_t sum = 0, input = 0;
    for (int k = 0; k < STOKE_IDLES; k++) sum += a->idle[k];
    for (int k = 0; k < STOKE_IDLE_INPUTS; k++) input += a->idle[k];
    assert_int_equal(a->steps, s->params.steps);
    assert_int_equal(sum, a->idle_ns);
    assert_int_equal(input, a->input_ns);
    assert_int_equal(a->busy_ns + a->idle_ns, a->elapsed_ns);
    assert_int_equal(d->n_records, s->params.steps + WARM_UP);
    assert_int_equal(d->from, WARM_UP);
    for (size_t i = 0; i < d->n_records; i++) assert_int_equal(d->records[i].number, i);
    const stoke_costs *c = &d->costs;
    assert_true(c->cores > 0 && c->cores <= stoke_machine_cores().usable);
    assert_true(c->restart_ms > 0 && c->host_ms >= 0 && c->launch_ms >= 0);
    assert_int_equal(c->steps_per_epoch, (11 + s->params.setup.batch - 1) / s->params.setup.batch);
    char verdict[512];
    assert_true(stoke_diagnosis_verdict(d, verdict, sizeof verdict) < (int)sizeof verdict);
    assert_non_null(
        strstr(verdict, s->device ? "The simulated RTX 3090 was busy" : "The processor was busy"));
    return d;
}

static void a_loop_with_every_fault(void **state)
{
    subject s;
    begin(&s, state);
    s.params.setup.transfer = STOKE_TRANSFER_PAGEABLE;
    s.params.setup.placement = STOKE_PLACEMENT_HOST;
    s.params.setup.persistent = 0;
    s.params.setup.sync = 1;
    s.params.setup.batch = 2; /* an epoch is six steps */
    s.params.steps = 3 * STEPS;
    stoke_diagnosis *d = check(&s);
    const stoke_fixes *f = &d->fixes;
    const stoke_costs *c = &d->costs;
    static const int there[] = { STOKE_CAUSE_CPU_AUGMENT, STOKE_CAUSE_NO_PINNING, STOKE_CAUSE_SYNC_COPIES,
                                 STOKE_CAUSE_RESTARTED_WORKERS, STOKE_CAUSE_SYNC_LOOP };
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        assert_int_equal(f->fix[there[i]].applies, 1);
        assert_int_equal(f->fix[there[i]].measured.pairs, 0);
        assert_true(isfinite(f->fix[there[i]].gain_ms));
    }
    /* Epochs end within the steps, and their first batches are the ones of new workers. */
    const stk_diagnose_whole *whole = (const stk_diagnose_whole *)d;
    assert_true(whole->run.restarts >= 3);
    size_t first = 0;
    for (size_t i = 0; i < d->n_records; i++) first += d->records[i].first_of_epoch;
    assert_int_equal(first, whole->run.restarts + 1);
    /* Both sides and both ways to copy are known; the card's model says which is the slower one. */
    for (int side = 0; side < 2; side++) {
        assert_true(c->side[side].n > 0);
        assert_true(c->side[side].pageable_ms > 0 && c->side[side].pinned_ms > 0);
    }
    assert_true(whole->other.records[whole->other.from].augment_end > 0);
    for (size_t i = 0; i < c->n_steps; i++) assert_float_equal(c->step_ms[i], 1, 1e-6);
    stoke_diagnosis_free(&d);
    assert_null(d);
    end(&s);
}

static void every_kind_of_loop(void **state)
{
    subject s;
    begin(&s, state);
    for (int transfer = STOKE_TRANSFER_STREAM; transfer <= STOKE_TRANSFER_PAGEABLE; transfer++)
        for (uint32_t workers = 0; workers < 3; workers += 2) {
            s.params.setup.transfer = transfer;
            s.params.setup.workers = workers;
            s.params.setup.placement = workers ? STOKE_PLACEMENT_DEVICE : STOKE_PLACEMENT_HOST;
            s.params.setup.persistent = transfer != STOKE_TRANSFER_STREAM;
            stoke_diagnosis *d = check(&s);
            assert_int_equal(d->attribution.unknown_after, -1);
            stoke_diagnosis_free(&d);
        }
    end(&s);
}

/* Every fix and all of them are measured; what was confirmed has its interval on one side of 0. */
static void verified(void **state)
{
    subject s;
    begin(&s, state);
    s.params.setup.transfer = STOKE_TRANSFER_PAGEABLE;
    s.params.setup.sync = 1;
    s.params.pairs = 2;
    stoke_diagnosis *d = check(&s);
    const stoke_fixes *f = &d->fixes;
    for (int i = 0; i < STOKE_CAUSES; i++) {
        const stoke_fix *fix = &f->fix[i];
        assert_int_equal(fix->measured.pairs, fix->applies ? 2 : 0);
        if (!fix->applies) continue;
        assert_true(fix->measured.low <= fix->measured.gain_ms &&
                    fix->measured.gain_ms <= fix->measured.high);
        assert_true(fix->measured.busy > 0 && fix->measured.busy <= 1);
        assert_int_equal(fix->measured.confirmed,
                         fix->gain_ms < 0 ? fix->measured.high < 0 : fix->measured.low > 0);
    }
    assert_int_equal(f->measured.pairs, 2);
    assert_true(f->measured.busy > 0);
    stoke_diagnosis_free(&d);
    end(&s);
}

static void native_engine(void **state)
{
    subject s;
    begin(&s, state);
    stoke_device_close(&s.device);
    s.params.device = NULL;
    s.params.classes = PAIRS_CLASSES;
    stoke_diagnosis *d = check(&s);
    const stoke_fixes *f = &d->fixes;
    assert_int_equal(d->attribution.copy_ns, 0);
    for (int i = 0; i < STOKE_CAUSES; i++) {
        const int sensible = i == STOKE_CAUSE_FEW_WORKERS || i == STOKE_CAUSE_SHORT_PREFETCH ||
                             i == STOKE_CAUSE_RESTARTED_WORKERS;
        if (!sensible) assert_non_null(strstr(f->fix[i].what, "the processor is the device"));
        if (!sensible) assert_int_equal(f->fix[i].applies, 0);
    }
    assert_int_equal(f->all.sync, 1);
    stoke_diagnosis_free(&d);
    s.params.classes = 0;
    stoke_error err = { 0 };
    assert_int_equal(stoke_diagnose(&d, &s.params, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "classes"));
    end(&s);
}

static char *text_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 100);
    fclose(file);
    return text;
}

static void pictures(void **state)
{
    subject s;
    begin(&s, state);
    s.params.setup.transfer = STOKE_TRANSFER_PAGEABLE;
    assert_int_equal(stoke_trace_create(&s.params.trace, 4096, NULL), 0);
    stoke_diagnosis *d = check(&s);
    const char *bars = unit_path(state, "bars.svg"), *page = unit_path(state, "page.html");
    const char *timeline = unit_path(state, "timeline.svg");
    assert_int_equal(stoke_diagnosis_write_bars(d, bars, "A <card> & its \"time\"", NULL), 0);
    assert_int_equal(stoke_trace_write_svg(s.params.trace, timeline, "t", 0, 0, NULL), 0);
    assert_int_equal(stoke_diagnosis_write_html(d, page, NULL, timeline, NULL), 0);
    char *text = text_of(bars);
    assert_well_formed(text);
    assert_non_null(strstr(text, "now, measured"));
    assert_non_null(strstr(text, "transfer=stream"));
    assert_non_null(strstr(text, "all of them"));
    free(text);
    text = text_of(page);
    assert_non_null(strstr(text, "data:image/svg+xml;base64,"));
    assert_non_null(strstr(text, "They do not add"));
    assert_int_equal(count_of(text, "<section"), count_of(text, "</section>"));
    assert_null(strstr(text, "http://www.w3.org/1999"));
    free(text);
    stoke_error err = { 0 };
    assert_int_not_equal(stoke_diagnosis_write_html(d, page, NULL, unit_path(state, "none.svg"), &err), 0);
    assert_non_null(strstr(err.message, "none.svg"));
    assert_int_not_equal(stoke_diagnosis_write_bars(d, unit_path(state, "no/bars.svg"), NULL, &err), 0);
    stoke_diagnosis_free(&d);
    stoke_trace_destroy(&s.params.trace);
    end(&s);
}

/* What others and the loop take is not the workers', who had at least what they got of what they asked for.
 */
static void cores_left(void **state)
{
    const double usable = stoke_machine_cores().usable, s = 1e9;
    stk_diagnose_load_seen seen = { .elapsed_ns = s, .process_ns = 0.75 * s };
    assert_float_equal(stk_load_cores(&seen, 0, 0.5 * s, 9 * s), usable - 0.25, 1e-9);
    assert_float_equal(stk_load_cores(&seen, 1, 0.75 * s, 0), usable, 1e-9);
    seen.others = 1000;
    assert_float_equal(stk_load_cores(&seen, 1, 0.1 * s, 0.3 * s), 0.25, 1e-9);
    assert_float_equal(stk_load_cores(&seen, 2, 0.1 * s, 0.3 * s), 0.5, 1e-9);
    assert_float_equal(stk_load_cores(&seen, 1000, s, 0), usable, 1e-9);
    assert_true(stk_load_cores(&seen, 1, 0, 0) > 0);
    const stoke_quiet watch = stoke_quiet_begin();
    seen = stk_load_end(&watch);
    assert_true(seen.elapsed_ns > 0 && seen.process_ns >= 0 && seen.others >= 0);
}

/* An epoch of a few steps is nearly all beginning: its start is left out, and is no cause. */
static void too_few_steps_in_an_epoch(void **state)
{
    subject s;
    begin(&s, state);
    s.params.setup.persistent = 0;
    stoke_diagnosis *d = check(&s);
    const stoke_fix *fix = &d->fixes.fix[STOKE_CAUSE_RESTARTED_WORKERS];
    assert_int_equal(fix->applies, 0);
    assert_non_null(strstr(fix->what, "an epoch has 3 steps"));
    assert_int_equal(d->attribution.idle[STOKE_IDLE_EPOCH_START], 0);
    stoke_diagnosis_free(&d);
    end(&s);
}

/* Clocks set back, so that others had all processors since, or none had any. */
static void too_busy_to_tell(void **state)
{
    enum { LONG = 1000 * 1000 * 1000 };
    double had, usable;
    stoke_quiet since = stoke_quiet_begin();
    if (!since.all) unit_skip("no /proc/stat");
    since.began_ns -= UINT64_C(1000) * LONG;
    since.all -= since.busy;
    since.busy = 0;
    assert_int_equal(stoke_quiet_end(&since, &had, &usable), 1);
    assert_true(had < 0.1 * usable);
    since = stoke_quiet_begin();
    since.began_ns -= UINT64_C(1000) * LONG;
    since.all = 0;
    assert_int_equal(stoke_quiet_end(&since, &had, &usable), 0); /* nobody tells */
    assert_true(had == usable);
}

static int stop_at(void *context, uint64_t done, uint64_t total)
{
    return done >= *(const uint64_t *)context || done > total;
}

static void stopped_and_refused(void **state)
{
    subject s;
    stoke_diagnosis *d;
    stoke_error err = { 0 };
    begin(&s, state);
    uint64_t stop = 3;
    s.params.progress = stop_at;
    s.params.context = &stop;
    assert_int_equal(stoke_diagnose(&d, &s.params, &err), STOKE_E_CANCELLED);
    assert_null(d);
    s.params.progress = NULL;
    s.params.n_steps = 0;
    assert_int_equal(stoke_diagnose(&d, &s.params, &err), STOKE_E_INVALID);
    s.params.n_steps = 1;
    s.step_ms[0] = NAN;
    assert_int_equal(stoke_diagnose(&d, &s.params, &err), STOKE_E_INVALID);
    s.step_ms[0] = 1;
    s.params.steps = 1;
    assert_int_equal(stoke_diagnose(&d, &s.params, &err), STOKE_E_INVALID);
    s.params.steps = STEPS;
    s.params.setup.placement = STOKE_PLACEMENT_AUTO;
    assert_int_equal(stoke_diagnose(&d, &s.params, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "placement"));
    s.params.setup.placement = STOKE_PLACEMENT_HOST;
    s.params.setup.batch = 100;
    s.params.data.drop_last = 1;
    assert_int_equal(stoke_diagnose(&d, &s.params, &err), STOKE_E_INVALID);
    assert_null(d);
    end(&s);
}

UNIT_GROUP(diagnose)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(a_loop_with_every_fault),
        unit_test_with_folder(every_kind_of_loop),
        unit_test_with_folder(verified),
        unit_test_with_folder(native_engine),
        unit_test_with_folder(pictures),
        cmocka_unit_test(cores_left),
        unit_test_with_folder(too_few_steps_in_an_epoch),
        cmocka_unit_test(too_busy_to_tell),
        unit_test_with_folder(stopped_and_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
