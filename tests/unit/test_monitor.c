/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor: sums of readings that are made up, a machine of files written by hand, and the made-up NVML.
 */
#include "tests/unit/unit.h"

#include <dlfcn.h>

#include "src/base/mem.h"
#include "src/tune/monitor/monitor.h"
#include "src/tune/machine/tree.h"
#include "tests/fake/fake_nvml.h"

#define assert_figure(figure, wanted, from)                                                                  \
    do {                                                                                                     \
        const stoke_figure got_ = (figure);                                                                  \
        assert_string_equal(stoke_source_name(got_.source), stoke_source_name(from));                        \
        assert_true(got_.value - (double)(wanted) < 1e-9 && (double)(wanted)-got_.value < 1e-9);             \
    } while (0)
#define assert_na(figure) assert_int_equal((figure).source, STOKE_SOURCE_NA)

static const stoke_figure na;

static stoke_figure nvml(double value)
{
    return stk_figure(value, STOKE_SOURCE_NVML);
}

/* ---- sums ---- */

static void mean_and_percentiles(void **state)
{
    (void)state;
    stk_monitor_gpu_sums *sums = calloc(1, sizeof *sums);
    stoke_gpu_summary *summary = calloc(1, sizeof *summary);
    /* 1 to 100 in its own order: every rank is its value. */
    for (int i = 0; i < 100; i++) {
        const stoke_gpu gpu = { .name = "card", .busy_percent = nvml(1 + i * 37 % 100) };
        stk_gpu_sums_add(sums, &gpu, 0.1);
    }
    const stoke_gpu unknown = { .name = "card" };
    stk_gpu_sums_add(sums, &unknown, 0.1); /* not known is not 0 */
    stk_gpu_sums_finish(sums, summary);
    assert_string_equal(summary->name, "card");
    assert_int_equal(summary->busy_percent.readings, 100);
    assert_figure(summary->busy_percent.mean, 50.5, STOKE_SOURCE_NVML);
    assert_figure(summary->busy_percent.p5, 5, STOKE_SOURCE_NVML);
    assert_figure(summary->busy_percent.p95, 95, STOKE_SOURCE_NVML);
    assert_figure(summary->busy_percent.peak, 100, STOKE_SOURCE_NVML);
    assert_figure(summary->idle_share, 0.09, STOKE_SOURCE_NVML); /* 1 to 9: 10 is not below 10 */
    assert_na(summary->memory_used.mean);
    assert_na(summary->memory_used.peak);
    assert_na(summary->energy_joule);
    assert_na(summary->reason_share[0]);
    assert_na(summary->clock_sm_mhz.mean);
    free(summary);
    free(sums);
}

static void few_readings(void **state)
{
    (void)state;
    stk_monitor_gpu_sums *sums = calloc(1, sizeof *sums);
    stoke_gpu_summary *summary = calloc(1, sizeof *summary);
    stk_gpu_sums_finish(sums, summary);
    assert_na(summary->busy_percent.mean);
    assert_na(summary->busy_percent.p95);
    assert_na(summary->idle_share);
    assert_na(summary->idle_bursts);
    const stoke_gpu gpu = { .busy_percent = nvml(33.3), .energy_joule = nvml(7) };
    stk_gpu_sums_add(sums, &gpu, 0.1);
    stk_gpu_sums_finish(sums, summary);
    assert_figure(summary->busy_percent.p5, 33.3, STOKE_SOURCE_NVML);
    assert_figure(summary->busy_percent.p95, 33.3, STOKE_SOURCE_NVML);
    assert_na(summary->energy_joule); /* one look at a counter is no difference */
    /* What a driver should not say is kept within the table. */
    const stoke_gpu odd = { .busy_percent = nvml(37100) }, below = { .busy_percent = nvml(-3) };
    stk_gpu_sums_add(sums, &odd, 0.1);
    stk_gpu_sums_add(sums, &below, 0.1);
    stk_gpu_sums_finish(sums, summary);
    assert_figure(summary->busy_percent.p95, 100, STOKE_SOURCE_NVML);
    assert_figure(summary->busy_percent.p5, 0, STOKE_SOURCE_NVML);
    free(summary);
    free(sums);
}

static void energy_reasons_and_bursts(void **state)
{
    (void)state;
    stk_monitor_gpu_sums *sums = calloc(1, sizeof *sums), *counter = calloc(1, sizeof *counter);
    stoke_gpu_summary *summary = calloc(1, sizeof *summary);
    static const double busy[] = { 5, 9, 80, 9.9, 10, -1, 0, 0 }; /* -1: not known, which ends a burst */
    static const double seconds[] = { 0.25, 0.5, 1, 0.25, 1, 1, 0.5, 0.5 };
    for (size_t i = 0; i < 8; i++) {
        stoke_gpu gpu = { .busy_percent = busy[i] < 0 ? na : nvml(busy[i]),
                          .power_watt = nvml(100),
                          .clock_sm_mhz = nvml(i < 4 ? 1000 : 2000),
                          .memory_used = nvml(i == 3 ? 800 : 0),
                          .memory_total = nvml(1000) };
        /* The display's bit, 0x100, is none of ours. */
        gpu.clocks_reasons = i < 2 ? nvml(0x104) : i < 4 ? nvml(0x44) : i < 6 ? na : nvml(0);
        stk_gpu_sums_add(sums, &gpu, seconds[i]);
        gpu.energy_joule = nvml(1000 + 10 * (double)i);
        stk_gpu_sums_add(counter, &gpu, seconds[i]);
    }
    stk_gpu_sums_finish(sums, summary);
    assert_figure(summary->energy_joule, 500, STOKE_SOURCE_ESTIMATED); /* 100 W x 5 s */
    assert_figure(summary->clock_sm_mhz.mean, 1500, STOKE_SOURCE_NVML);
    assert_figure(summary->memory_used.mean, 100, STOKE_SOURCE_NVML);
    assert_figure(summary->memory_used.peak, 800, STOKE_SOURCE_NVML);
    assert_figure(summary->memory_total, 1000, STOKE_SOURCE_NVML);
    assert_figure(summary->reason_share[2], 4.0 / 6, STOKE_SOURCE_NVML); /* power cap, of six known */
    assert_figure(summary->reason_share[6], 2.0 / 6, STOKE_SOURCE_NVML);
    assert_figure(summary->reason_share[0], 0, STOKE_SOURCE_NVML);
    assert_figure(summary->idle_share, 5.0 / 7, STOKE_SOURCE_NVML);
    assert_figure(summary->idle_bursts, 3, STOKE_SOURCE_NVML);
    assert_figure(summary->longest_idle, 1.0, STOKE_SOURCE_NVML);
    stk_gpu_sums_finish(counter, summary);
    assert_figure(summary->energy_joule, 70, STOKE_SOURCE_NVML);
    free(summary);
    free(counter);
    free(sums);
}

static void peaks_of_programs(void **state)
{
    (void)state;
    stk_monitor_gpu_sums *sums = calloc(1, sizeof *sums);
    stoke_gpu_summary *summary = calloc(1, sizeof *summary);
    for (uint32_t i = 0; i < STOKE_MONITOR_PROCESSES + 6; i++) {
        stoke_gpu gpu = { .n_processes = 2 };
        gpu.process[0] = (stoke_gpu_process){ .pid = 7, .name = "train", .memory_bytes = nvml(100 - i) };
        gpu.process[1] = (stoke_gpu_process){ .pid = 100 + i, .busy_percent = nvml(i) };
        stk_gpu_sums_add(sums, &gpu, 0.1);
    }
    stk_gpu_sums_finish(sums, summary);
    assert_int_equal(summary->n_processes, STOKE_MONITOR_PROCESSES);
    assert_true(summary->more_processes);
    assert_int_equal(summary->process[0].pid, 7);
    assert_string_equal(summary->process[0].name, "train");
    assert_figure(summary->process[0].memory_bytes, 100, STOKE_SOURCE_NVML);
    assert_na(summary->process[0].busy_percent);
    assert_int_equal(summary->process[63].pid, 162);
    free(summary);
    free(sums);
}

/* ---- verdicts ---- */

static void verdicts(void **state)
{
    (void)state;
    static const struct {
        double busy, cpu, disk, heat;
        uint32_t programs;
        int lost;
        const char *part, *next;
    } cases[] = {
        { 95, 50, 10, 0, 1, 0, "it is fed", "stoke devices" },
        { 30, 95, 10, 0, 1, 0, "waits for decoding", "stoke diagnose --config FILE" },
        { 30, 95, 90, 0, 1, 0, "waits for the disk", "stoke doctor --data DIR" },
        { 30, 20, 10, 0, 1, 0, "power to spare", "stoke diagnose --config FILE" },
        { 89, 20, 10, 0, 1, 0, "busy 89 %", "stoke diagnose --config FILE" },
        { 2, 20, 10, 0, 0, 0, "no work", "stoke monitor 60" },
        { 2, 20, 10, 0, 1, 0, "power to spare", "stoke diagnose --config FILE" },
        { 95, 50, 10, 0.5, 1, 0, "50 % of the readings: too hot (hardware)", "stoke doctor" },
        { 95, 50, 10, 0.05, 1, 0, "it is fed", "stoke devices" },
        { -1, 50, 10, 0, 1, 0, "does not tell", "stoke doctor" },
        { 95, 50, 10, 0, 1, 1, "fell off the bus", "stoke doctor" },
    };
    stoke_monitor_verdict verdict;
    stoke_gpu_summary *gpu = calloc(1, sizeof *gpu);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stoke_monitor_summary machine = {
            .cpu_percent.mean = stk_figure(cases[i].cpu, STOKE_SOURCE_PROC),
            .disk_busy_percent.mean = stk_figure(cases[i].disk, STOKE_SOURCE_PROC),
        };
        gpu->busy_percent.mean = cases[i].busy < 0 ? na : nvml(cases[i].busy);
        gpu->reason_share[6] = nvml(cases[i].heat);
        gpu->n_processes = cases[i].programs;
        gpu->lost = cases[i].lost;
        stoke_monitor_judge(&machine, gpu, &verdict);
        if (!strstr(verdict.text, cases[i].part)) fail_msg("case %zu: %s", i, verdict.text);
        assert_string_equal(verdict.next, cases[i].next);
    }
    const stoke_monitor_summary unknown = { 0 };
    stoke_monitor_judge(&unknown, NULL, &verdict);
    assert_string_equal(verdict.next, "stoke doctor");
    free(gpu);
}

/* ---- the kernel's counters ---- */

static void put(void **state, const char *name, const char *text)
{
    unit_write(unit_path(state, name), text, strlen(text));
}

static void counters(void **state)
{
    stk_monitor_load_count before, after;
    stoke_load load;
    put(state, "proc/stat", "cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 1 1 1\n");
    put(state, "proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n");
    put(state, "proc/diskstats",
        "   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9\n"
        "   8       0 sda 1 0 1000 0 1 0 2000 0 0 100 0\n"
        "   8       1 sda1 1 0 1000 0 1 0 2000 0 0 100 0\n"
        " 259       0 nvme0n1 1 0 0 0 1 0 0 0 0 0 0\n"
        " 259       1 nvme0n1p1 1 0 0 0 1 0 0 0 0 0 0\n"
        " 259       2 nvme0n10 1 0 0 0 1 0 0 0 0 0 0\n");
    stk_load_count_read(&before, unit_folder(state));
    assert_int_equal(before.n_disks, 3); /* sda, nvme0n1, nvme0n10 */
    put(state, "proc/stat", "cpu  130 0 110 750 110 0 0 0 90 0\n");
    put(state, "proc/diskstats",
        "   8       0 sda 1 0 1010 0 1 0 2004 0 0 150 0\n"
        "   8       1 sda1 1 0 1010 0 1 0 2004 0 0 150 0\n"
        " 259       0 nvme0n1 1 0 100 0 1 0 0 0 0 400 0\n"
        "   8      16 sdb 1 0 99999 0 1 0 0 0 0 9999 0\n");
    stk_load_count_read(&after, unit_folder(state));
    stk_load_between(&load, &before, &after, 0.5, unit_folder(state));
    assert_figure(load.cpu_percent, 40, STOKE_SOURCE_PROC); /* 40 of 100 ticks; waiting is not busy */
    assert_figure(load.memory_total, 1000 * 1024, STOKE_SOURCE_PROC);
    assert_figure(load.memory_used, 600 * 1024, STOKE_SOURCE_PROC);
    assert_figure(load.disk_busy_percent, 80, STOKE_SOURCE_PROC); /* 400 ms of 500; sdb came just now */
    assert_string_equal(load.disk, "nvme0n1");
    assert_figure(load.disk_read, 110 * 512 / 0.5, STOKE_SOURCE_PROC);
    assert_figure(load.disk_write, 4 * 512 / 0.5, STOKE_SOURCE_PROC);
    /* Backwards: nothing is known. */
    stk_load_between(&load, &after, &before, 0.5, unit_folder(state));
    assert_na(load.cpu_percent);
    assert_na(load.disk_busy_percent);
    assert_string_equal(load.disk, "");
}

static void counters_of_nothing(void **state)
{
    stk_monitor_load_count count;
    stoke_load load;
    stk_load_count_read(&count, unit_folder(state));
    stk_load_between(&load, &count, &count, 1, unit_folder(state));
    assert_na(load.cpu_percent);
    assert_na(load.memory_total);
    assert_na(load.memory_used);
    assert_na(load.disk_busy_percent);
    put(state, "proc/stat", "cpu of another kind\n");
    put(state, "proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 11 kB\n");
    put(state, "proc/diskstats", "8 0\n\n8 0 sda x\n");
    stk_load_count_read(&count, unit_folder(state));
    stk_load_between(&load, &count, &count, 1, unit_folder(state));
    assert_na(load.cpu_percent);
    assert_na(load.memory_used);
    assert_na(load.disk_busy_percent);
}

/* ---- the whole ---- */

static const fake_nvml_control *fake;

static stoke_monitor *open_here(void **state, uint32_t history)
{
    stoke_monitor_params params = stoke_monitor_defaults();
    stoke_monitor *monitor;
    stoke_error err = { 0 };
    params.root = unit_folder(state);
    params.history = history;
    params.slow = 0; /* the made-up cards change while they are watched */
    assert_int_equal(stoke_monitor_open(&monitor, &params, &err), STOKE_OK);
    return monitor;
}

static void watch_cards(void **state)
{
    fake->reset();
    fake->settings->card[0].processes[0] = 4711;
    fake->settings->card[0].n_processes = 1;
    put(state, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 250 kB\n");
    put(state, "proc/4711/comm", "evil\033[2J\302\233m\n");
    stoke_monitor *monitor = open_here(state, 3);
    assert_int_equal(stoke_monitor_gpus(monitor), 2);
    assert_string_equal(stoke_monitor_why(monitor), "");
    assert_na(stoke_monitor_history(monitor, STOKE_SERIES_GPU, 0, 0, 10));
    fake->settings->card[0].no_samples = 1; /* the figure of now, not of a second */
    static const unsigned busy[] = { 90, 10, 20, 60 };
    for (size_t i = 0; i < 4; i++) {
        fake->settings->card[0].busy = busy[i];
        stoke_monitor_read(monitor);
    }
    assert_figure(stoke_monitor_gpu(monitor, 0)->busy_percent, 60, STOKE_SOURCE_NVML);
    assert_figure(stoke_monitor_history(monitor, STOKE_SERIES_GPU, 0, 0, 1), 60, STOKE_SOURCE_NVML);
    assert_figure(stoke_monitor_history(monitor, STOKE_SERIES_GPU, 0, 1, 2), 15, STOKE_SOURCE_NVML);
    assert_figure(stoke_monitor_history(monitor, STOKE_SERIES_GPU, 0, 0, 10), 30, STOKE_SOURCE_NVML);
    assert_na(stoke_monitor_history(monitor, STOKE_SERIES_GPU, 0, 3, 1)); /* three are kept */
    assert_na(stoke_monitor_history(monitor, STOKE_SERIES_GPU, 2, 0, 1));
    assert_na(stoke_monitor_history(monitor, STOKE_SERIES_CPU, 0, 0, 1));
    assert_figure(stoke_monitor_history(monitor, STOKE_SERIES_MEMORY, 0, 0, 1), 75, STOKE_SOURCE_PROC);
    stoke_monitor_summary machine;
    stoke_gpu_summary *gpu = calloc(1, sizeof *gpu);
    stoke_monitor_summarise(monitor, &machine);
    stoke_monitor_summarise_gpu(monitor, 0, gpu);
    assert_int_equal(machine.readings, 4);
    assert_true(machine.seconds > 0);
    assert_figure(gpu->busy_percent.mean, 45, STOKE_SOURCE_NVML); /* of all four */
    assert_int_equal(gpu->process[0].pid, 4711);
    assert_string_equal(gpu->process[0].name, "evil\033[2J\302\233m"); /* who prints it makes it safe */
    assert_figure(gpu->reason_share[2], 1, STOKE_SOURCE_NVML);
    free(gpu);
    stoke_monitor_close(&monitor);
    assert_null(monitor);
    assert_int_equal(fake->started(), 0);
}

static void what_blocks_holds_up_nobody(void **state)
{
    stoke_monitor_params params = stoke_monitor_defaults();
    stoke_monitor *monitor = NULL;
    fake->reset();
    fake->hold(1);
    params.root = unit_folder(state);
    assert_int_equal(stoke_monitor_open(&monitor, &params, NULL), STOKE_OK);
    while (!fake->slow_calls()) stoke_monitor_read(monitor); /* until the thread sits in the driver */
    for (int i = 0; i < 3; i++) stoke_monitor_read(monitor);
    assert_figure(stoke_monitor_gpu(monitor, 0)->busy_percent, 30, STOKE_SOURCE_NVML);
    assert_na(stoke_monitor_gpu(monitor, 0)->pcie_to_device); /* it still does */
    fake->hold(0);
    do stoke_monitor_read(monitor);
    while (!stoke_monitor_gpu(monitor, 0)->pcie_to_device.source ||
           !stoke_monitor_gpu(monitor, 1)->pcie_to_device.source);
    assert_figure(stoke_monitor_gpu(monitor, 0)->pcie_to_device, 5e6, STOKE_SOURCE_NVML);
    assert_figure(stoke_monitor_gpu(monitor, 1)->pcie_from_device, 7e4, STOKE_SOURCE_NVML);
    stoke_gpu_summary *gpu = calloc(1, sizeof *gpu);
    stoke_monitor_summarise_gpu(monitor, 0, gpu);
    assert_figure(gpu->pcie_to_device.peak, 5e6, STOKE_SOURCE_NVML);
    assert_true(gpu->pcie_to_device.readings < gpu->busy_percent.readings);
    free(gpu);
    stoke_monitor_close(&monitor); /* and the thread is gone */
    assert_int_equal(fake->started(), 0);
}

static void a_card_is_lost(void **state)
{
    fake->reset();
    stoke_monitor *monitor = open_here(state, 10);
    stoke_monitor_read(monitor);
    fake->settings->card[1].lost_after = 0;
    stoke_monitor_read(monitor);
    stoke_monitor_read(monitor);
    stoke_gpu_summary *gpu = calloc(1, sizeof *gpu);
    stoke_monitor_summarise_gpu(monitor, 1, gpu);
    assert_true(gpu->lost);
    assert_int_equal(gpu->busy_percent.readings, 1);
    assert_figure(gpu->busy_percent.mean, 70, STOKE_SOURCE_NVML);
    free(gpu);
    stoke_monitor_close(&monitor);
}

static void refusals(void **state)
{
    stoke_monitor_params params = stoke_monitor_defaults();
    stoke_monitor *monitor;
    stoke_error err = { 0 };
    params.root = unit_folder(state);
    params.history = 0;
    assert_int_equal(stoke_monitor_open(&monitor, &params, &err), STOKE_E_INVALID);
    assert_null(monitor);
    params.history = 10;
    params.struct_size = 4;
    assert_int_equal(stoke_monitor_open(&monitor, &params, &err), STOKE_E_INVALID);
    params = stoke_monitor_defaults();
    params.root = unit_folder(state);
    params.nvml = "/nowhere/libnvidia-ml.so.1";
    assert_int_equal(stoke_monitor_open(&monitor, &params, &err), STOKE_OK);
    assert_int_equal(stoke_monitor_gpus(monitor), 0);
    assert_non_null(strstr(stoke_monitor_why(monitor), "cannot be opened"));
    stoke_monitor_close(&monitor);
    stoke_monitor_close(&monitor); /* a second time is fine */
}

static void out_of_memory(void **state)
{
    stoke_monitor_params params = stoke_monitor_defaults();
    stoke_error err = { 0 };
    params.root = unit_folder(state);
    int r = STOKE_E_NOMEM, tries = 0;
    for (; r && tries < 200; tries++) {
        stoke_monitor *monitor;
        fake->reset();
        stk_mem_fail_after(tries);
        r = stoke_monitor_open(&monitor, &params, &err);
        stk_mem_fail_after(-1);
        if (r) {
            assert_int_equal(r, STOKE_E_NOMEM);
            assert_null(monitor);
            assert_true(*err.message);
        } else {
            stoke_monitor_close(&monitor);
        }
    }
    assert_int_equal(r, STOKE_OK);
    assert_true(tries > 4);
}

UNIT_GROUP(monitor)
{
    const char *file = getenv("STOKE_LIBNVML");
    void *library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    fake = library ? dlsym(library, "fake_nvml") : NULL;
    if (!fake) {
        fputs("STOKE_LIBNVML does not name the made-up library\n", stderr);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_and_percentiles),
        cmocka_unit_test(few_readings),
        cmocka_unit_test(energy_reasons_and_bursts),
        cmocka_unit_test(peaks_of_programs),
        cmocka_unit_test(verdicts),
        unit_test_with_folder(counters),
        unit_test_with_folder(counters_of_nothing),
        unit_test_with_folder(watch_cards),
        unit_test_with_folder(what_blocks_holds_up_nobody),
        unit_test_with_folder(a_card_is_lost),
        unit_test_with_folder(refusals),
        unit_test_with_folder(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
