/* SPDX-License-Identifier: Apache-2.0
 *
 * The list before a training, on machines that are made up: one where all is right, and from there one thing
 * wrong, or unseen, at a time.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/mem.h"
#include "src/tune/preflight/preflight_ranks.h"

#define GIB (1024.0 * 1024 * 1024)

typedef struct scene {
    stk_run_config wish;
    stk_preflight_surroundings here;
    stoke_preflight list;
} scene;

static scene s; /* 30 KB: a card's facts and the lines */

static stoke_figure nvml(double value)
{
    return (stoke_figure){ value, STOKE_SOURCE_NVML };
}

static stoke_figure measured(double value)
{
    return (stoke_figure){ value, STOKE_SOURCE_MEASURED };
}

/* A trainer whose file says everything right, on a machine that has enough of everything. */
static void all_is_right(void)
{
    memset(&s, 0, sizeof s);
    s.wish = (stk_run_config){ .config = "x.yaml",
                               .dialect = "flat",
                               .engine = STOKE_ENGINE_TORCH,
                               .model = "b0",
                               .batch = 8,
                               .height = 64,
                               .width = 64,
                               .classes = 5,
                               .base_channels = -1,
                               .num_blocks = -1,
                               .epochs = 10,
                               .workers = 7,
                               .prefetch = 2,
                               .ranks = 1,
                               .pin_memory = 1,
                               .persistent_workers = 1,
                               .mixed_precision = 1,
                               .drop_last = 1,
                               .train = { .precision = STOKE_PRECISION_BF16 },
                               .has_data = 1 };
    s.here.machine.usable = measured(8);
    s.here.machine.available_bytes = measured(32 * GIB);
    s.here.machine.shm_bytes = measured(8 * GIB);
    s.here.n_gpus = 1;
    strcpy(s.here.gpu.name, "Fake");
    strcpy(s.here.gpu.vendor, "nvidia");
    s.here.gpu.memory_total = nvml(24 * GIB);
    s.here.gpu.memory_free = nvml(23 * GIB);
    s.here.gpu.compute_capability = nvml(8.6);
    s.here.gpu.busy_percent = nvml(0);
    s.here.gpu.pcie_generation = s.here.gpu.pcie_generation_max = nvml(4);
    s.here.gpu.pcie_width = s.here.gpu.pcie_width_max = nvml(16);
    s.here.gpu.clocks_reasons = nvml(STOKE_CLOCKS_IDLE);
    s.here.data_there = s.here.has_partners = 1;
    s.here.pairs = s.here.train_pairs = 100;
    s.here.data_bytes = measured(GIB);
    s.here.disk.rotational = s.here.disk.network = measured(0);
    s.here.omp_threads = "1";
    s.here.machine.numa_nodes = measured(1);
    strcpy(s.here.huge_pages, "madvise");
}

static const stoke_preflight_line *line(const char *key)
{
    for (size_t i = 0; i < s.list.n; i++)
        if (!strcmp(s.list.line[i].key, key)) return &s.list.line[i];
    return NULL;
}

/* Judged, the line has this verdict and (where something is wrong) a remedy; and the machine is right again.
 */
static void expect(const char *key, int verdict)
{
    stk_preflight_judge(&s.list, &s.wish, &s.here);
    const stoke_preflight_line *l = line(key);
    if (!l) fail_msg("there is no line %s", key);
    if (l->verdict != verdict)
        fail_msg("%s: %s, not %s: %s", key, stoke_verdict_name(l->verdict), stoke_verdict_name(verdict),
                 l->figure);
    assert_true(*l->figure);
    assert_int_equal(verdict == STOKE_VERDICT_PASS && *l->fix, 0);
    if (verdict == STOKE_VERDICT_WARN || verdict == STOKE_VERDICT_FAIL) assert_true(*l->fix);
    if (verdict != STOKE_VERDICT_NA) assert_int_not_equal(l->source, STOKE_SOURCE_NA);
    all_is_right();
}

static void expect_no(const char *key)
{
    stk_preflight_judge(&s.list, &s.wish, &s.here);
    assert_null(line(key));
    all_is_right();
}

enum {
    PASS = STOKE_VERDICT_PASS,
    NA = STOKE_VERDICT_NA,
    WARN = STOKE_VERDICT_WARN,
    FAIL = STOKE_VERDICT_FAIL
};

static void two_nodes(double allowed, double near)
{
    s.here.machine.numa_nodes = measured(2);
    s.here.gpu.numa_node = nvml(1);
    s.here.cpus_allowed = measured(allowed);
    s.here.cpus_near = measured(near);
}

static void nodes_and_pages(void **state)
{
    all_is_right();
    two_nodes(8, 4);
    stk_preflight_judge(&s.list, &s.wish, &s.here);
    assert_non_null(strstr(line("numa")->fix, "--cpunodebind=1"));
    expect("numa", WARN);
    two_nodes(8, 0);
    expect("numa", WARN);
    two_nodes(4, 4);
    expect("numa", PASS);
    s.here.machine.numa_nodes = measured(2); /* where the card is, is not known */
    expect("numa", NA);
    two_nodes(8, 4);
    s.wish.engine = STOKE_ENGINE_NATIVE;
    expect("numa", NA);
    s.here.machine.numa_nodes = (stoke_figure){ 0 };
    expect("numa", NA);
    strcpy(s.here.huge_pages, "never");
    expect("huge_pages", PASS); /* of PyTorch on a card */
    strcpy(s.here.huge_pages, "never");
    s.wish.engine = STOKE_ENGINE_NATIVE;
    expect("huge_pages", WARN);
    s.here.huge_pages[0] = 0;
    expect("huge_pages", NA);
    /* As they stand in the system's files. */
    static const char STATUS[] = "Name:\tx\nCpus_allowed_list:\t0-3,9\n", NEAR[] = "2-7,9\n",
                      PAGES[] = "always [madvise] never\n";
    unit_write(unit_path(state, "proc/self/status"), STATUS, sizeof STATUS - 1);
    unit_write(unit_path(state, "sys/devices/system/node/node1/cpulist"), NEAR, sizeof NEAR - 1);
    unit_write(unit_path(state, "sys/kernel/mm/transparent_hugepage/enabled"), PAGES, sizeof PAGES - 1);
    memset(&s.here, 0, sizeof s.here);
    s.here.gpu.numa_node = nvml(1);
    stk_look_at_nodes(&s.here, unit_folder(state));
    assert_true(s.here.cpus_allowed.value == 5 && s.here.cpus_near.value == 3);
    assert_string_equal(s.here.huge_pages, "madvise");
    memset(&s.here, 0, sizeof s.here);
    stk_look_at_nodes(&s.here, unit_path(state, "nowhere"));
    assert_int_equal(s.here.cpus_allowed.source, STOKE_SOURCE_NA);
    assert_string_equal(s.here.huge_pages, "");
}

static void nothing_wrong(void **state)
{
    (void)state;
    all_is_right();
    stk_preflight_judge(&s.list, &s.wish, &s.here);
    for (size_t i = 0; i < s.list.n; i++) { /* PyTorch's own version cannot be seen, ever */
        const int wanted = strcmp(s.list.line[i].key, "versions") ? PASS : NA;
        if (s.list.line[i].verdict != wanted) fail_msg("%s: %s", s.list.line[i].key, s.list.line[i].figure);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(s.list.line[i].key, s.list.line[j].key);
    }
    assert_int_equal(s.list.n, 20);
    assert_true(s.list.n < sizeof s.list.line / sizeof *s.list.line);
}

/* The rule of the whole list: a machine that tells nothing has no line about itself that passes. */
static void nothing_seen(void **state)
{
    (void)state;
    all_is_right();
    memset(&s.here, 0, sizeof s.here);
    stk_preflight_judge(&s.list, &s.wish, &s.here);
    for (size_t i = 0; i < s.list.n; i++) {
        const stoke_preflight_line *l = &s.list.line[i];
        const int of_the_file = !strcmp(l->key, "pin_memory") || !strcmp(l->key, "persistent_workers");
        if (l->verdict == PASS && !of_the_file) fail_msg("%s passes unseen: %s", l->key, l->figure);
    }
    all_is_right();
    s.here.n_gpus = 0;
    s.here.gpu = (stoke_gpu){ 0 };
    expect_no("pcie");
    s.here.gpu.pcie_width_max = (stoke_figure){ 0 };
    expect("pcie", NA);
    s.here.gpu.clocks_reasons = (stoke_figure){ 0 };
    expect("clocks", NA);
    s.here.gpu.memory_free = s.here.gpu.memory_total = (stoke_figure){ 0 };
    expect("memory", NA);
    s.here.disk.network = (stoke_figure){ 0 };
    expect("disk", NA);
    s.here.gpu.mig = 1;
    expect("others", NA);
    s.here.gpu.memory_total = (stoke_figure){ 0 }; /* known to the kernel, and NVML is not there */
    expect("others", NA);
    s.here.gpu.memory_total = (stoke_figure){ 0 };
    strcpy(s.here.gpu.problem, "NVML is not there");
    expect("driver", WARN);
    strcpy(s.here.gpu.vendor, "amd"); /* other users' are not seen there */
    expect("others", NA);
}

static void the_card(void **state)
{
    (void)state;
    all_is_right();
    s.here.gpu.lost = 1;
    expect("driver", FAIL);
    strcpy(s.here.gpu.problem, "no power figures");
    expect("driver", WARN);
    s.here.gpu.n_processes = 1;
    s.here.gpu.process[0] = (stoke_gpu_process){ .pid = 7, .name = "python3", .memory_bytes = nvml(GIB) };
    stk_preflight_judge(&s.list, &s.wish, &s.here);
    assert_non_null(strstr(line("others")->figure, "1 (python3) with 1."));
    assert_non_null(strstr(line("others")->fix, "ps -fp 7 "));
    expect("others", WARN);
    s.here.gpu.n_processes = 1;
    s.here.gpu.process[0].own = 1;
    expect("others", PASS);
    s.here.gpu.n_processes = STOKE_GPU_PROCESSES; /* more than there is room to name */
    s.here.gpu.more_processes = 9;
    for (int i = 0; i < STOKE_GPU_PROCESSES; i++) {
        s.here.gpu.process[i].pid = UINT32_MAX;
        memset(s.here.gpu.process[i].name, 'p', sizeof s.here.gpu.process[i].name - 1);
    }
    expect("others", WARN);
    s.here.gpu.pcie_width = nvml(8);
    expect("pcie", WARN);
    s.here.gpu.pcie_generation = nvml(1);
    expect("pcie", NA); /* idle: it may be saving power */
    s.here.gpu.pcie_generation = nvml(1);
    s.here.gpu.busy_percent = nvml(90);
    expect("pcie", WARN);
    s.here.gpu.clocks_reasons = nvml(0);
    expect("clocks", PASS);
    s.here.gpu.clocks_reasons = nvml(0xff);
    expect("clocks", WARN);
}

static void precision(void **state)
{
    (void)state;
    all_is_right();
    s.wish.mixed_precision = 0;
    expect("mixed_precision", WARN);
    s.wish.mixed_precision = STK_UNSAID;
    expect("mixed_precision", WARN);
    s.here.gpu.compute_capability = nvml(6.1); /* it saves memory there, too */
    expect("mixed_precision", PASS);
    s.here.gpu.compute_capability = nvml(6.1);
    s.wish.mixed_precision = 0;
    expect("mixed_precision", WARN);
    s.here.gpu.compute_capability = nvml(7.5);
    expect("bf16", FAIL);
    s.here.gpu.compute_capability = (stoke_figure){ 0 };
    expect("bf16", NA);
    s.wish.train.precision = STOKE_PRECISION_FP16;
    expect_no("bf16");
}

/* By the ends of the estimate's range, and 1 GB to spare. */
static void memory(void **state)
{
    (void)state;
    all_is_right();
    stoke_estimate_params p = stoke_estimate_defaults();
    stoke_estimate e;
    p.model = "b0";
    p.height = p.width = 64;
    p.classes = 5;
    p.precision = STOKE_PRECISION_BF16;
    assert_int_equal(stoke_estimate_make(&e, STOKE_ENGINE_TORCH, &p, NULL), STOKE_OK);
    assert_true(e.low < e.high);
    s.here.gpu.memory_total = nvml((double)e.high + GIB);
    expect("memory", PASS);
    s.here.gpu.memory_total = nvml((double)e.high + GIB - 1);
    expect("memory", WARN);
    s.here.gpu.memory_total = nvml((double)e.low + GIB);
    expect("memory", WARN);
    s.here.gpu.memory_total = nvml((double)e.low + GIB - 1);
    expect("memory", FAIL);
    s.here.gpu.memory_free = nvml((double)e.low); /* the card will do, and others hold the rest just now */
    expect("memory", WARN);
    s.wish.model[0] = 0;
    expect("memory", NA);
    s.wish.height = STK_UNSAID;
    expect("memory", NA);
    s.wish.batch = INT32_MAX;
    expect("memory", NA); /* no estimate of that, and a reason */
    s.wish.engine = STOKE_ENGINE_NATIVE;
    expect("memory", PASS);
    s.wish.engine = STOKE_ENGINE_NATIVE;
    s.here.machine.limit_bytes = measured(GIB / 2); /* of a container */
    expect("memory", FAIL);
    s.wish.engine = STOKE_ENGINE_NATIVE;
    expect_no("driver");
}

static void workers(void **state)
{
    (void)state;
    all_is_right();
    s.wish.workers = 8; /* as many as a diagnosis may propose */
    expect("workers", PASS);
    s.wish.workers = 9;
    expect("workers", WARN);
    s.wish.workers = 9; /* where files come slowly, more of them than cores help */
    s.here.disk.network = measured(1);
    expect("workers", PASS);
    s.wish.workers = 0;
    expect("workers", WARN);
    s.wish.workers = STK_UNSAID;
    expect("workers", WARN);
    s.wish.workers = STK_UNSAID;
    s.wish.engine = STOKE_ENGINE_NATIVE;
    expect("workers", PASS); /* auto */
    s.wish.ranks = 2;
    expect("workers", WARN);
    s.wish.ranks = 2;
    s.wish.workers = 3;
    expect("workers", PASS);
    s.here.machine.usable = measured(1);
    s.wish.workers = 1;
    expect("workers", PASS);
    s.wish.workers = 0;
    expect("persistent_workers", FAIL);
    s.wish.workers = 0;
    expect("prefetch", FAIL);
    s.wish.workers = 0;
    expect_no("shm");
    s.wish.persistent_workers = 0;
    expect("persistent_workers", WARN);
    s.wish.epochs = 1;
    expect_no("persistent_workers");
    s.wish.pin_memory = STK_UNSAID;
    expect("pin_memory", WARN);
    s.wish.pin_memory = STK_UNSAID;
    s.here.n_gpus = 0;
    expect("pin_memory", NA);
    s.here.omp_threads = NULL;
    expect("omp_threads", WARN);
    s.here.omp_threads = "8";
    expect("omp_threads", WARN);
}

/* 7 workers, 2 batches each of 8 pictures of 64 x 64, 20 bytes a pixel. */
static void batches_held_ready(void **state)
{
    (void)state;
    const double bytes = 7.0 * 2 * 8 * 64 * 64 * 20;
    all_is_right();
    s.here.machine.shm_bytes = measured(bytes * 2);
    expect("shm", PASS);
    s.here.machine.shm_bytes = measured(bytes);
    expect("shm", WARN);
    s.here.machine.shm_bytes = measured(bytes - 1);
    expect("shm", FAIL);
    s.here.machine.available_bytes = measured(bytes * 2);
    expect("prefetch", PASS);
    s.here.machine.available_bytes = measured(bytes);
    expect("prefetch", WARN);
    s.here.machine.available_bytes = measured(bytes - 1);
    expect("prefetch", FAIL);
    s.wish.width = STK_UNSAID;
    expect("prefetch", NA);
    s.wish.width = STK_UNSAID;
    expect("shm", NA);
    s.wish.width = STK_UNSAID;
    s.here.machine.shm_bytes = measured(64.0 * 1024 * 1024); /* a container's default */
    expect("shm", WARN);
}

static void data(void **state)
{
    (void)state;
    all_is_right();
    s.here.data_there = 0;
    strcpy(s.here.why_no_data, "nowhere: there is no such folder");
    expect("data", FAIL);
    s.wish.has_data = 0;
    expect("data", NA);
    s.here.left_out = 1;
    expect("data", WARN);
    s.here.has_partners = 0;
    expect("data", WARN);
    s.here.data_bytes = measured(1e13); /* what fits into memory is read once, wherever it lies */
    s.here.disk.network = measured(1);
    expect("disk", WARN);
    s.here.data_bytes = measured(1e13);
    s.here.disk.rotational = measured(1);
    expect("disk", WARN);
    s.here.disk.rotational = measured(1);
    expect("disk", PASS);
    s.here.data_bytes = measured(16 * GIB + 1);
    expect("page_cache", WARN);
    s.wish.epochs = 1;
    expect_no("page_cache");
    s.wish.batch = 101;
    expect("drop_last", FAIL);
    s.wish.batch = 33;
    s.wish.drop_last = STK_UNSAID;
    expect("drop_last", WARN); /* 100 = 3 * 33 + 1 */
    s.wish.drop_last = 0;
    expect("drop_last", PASS);
    s.wish.engine = STOKE_ENGINE_NATIVE;
    expect_no("drop_last");
}

/* ---- files ---- */

static stk_run_config *read_text(void **state, const char *text)
{
    stoke_preflight_params p = stoke_preflight_defaults();
    stoke_error err = { 0 };
    unit_write(unit_path(state, "c.yaml"), text, strlen(text));
    p.config = unit_path(state, "c.yaml");
    stk_run_config_free(&s.wish); /* of the text before */
    if (stk_run_config_read(&s.wish, &p, &err)) fail_msg("%s", err.message);
    return &s.wish;
}

static void dialects(void **state)
{
    const stk_run_config *w =
        read_text(state, "batch_size: 8\nnum_workers: 4\nuse_mixed_precision: true\nbackbone: mit_b2\n"
                         "image_size: 288x320\ndrop_last: yes\n");
    assert_int_equal(w->engine, STOKE_ENGINE_TORCH);
    assert_string_equal(w->model, "b2");
    assert_int_equal(w->batch, 8);
    assert_int_equal(w->workers, 4);
    assert_int_equal(w->height, 288);
    assert_int_equal(w->width, 320);
    assert_int_equal(w->mixed_precision, 1);
    assert_int_equal(w->train.precision, STOKE_PRECISION_FP16);
    assert_int_equal(w->drop_last, 1);
    assert_int_equal(w->pin_memory, 0);
    assert_string_equal(stk_run_config_default(w, "pin_memory"), "PyTorch's");
    assert_null(stk_run_config_default(w, "num_workers"));
    w = read_text(state,
                  "args:\n  num_train_epochs: 3\n  gradient_accumulation_steps: 2\n  logging_steps: 5\n");
    assert_int_equal(w->batch, 8);
    assert_int_equal(w->workers, 0);
    assert_int_equal(w->pin_memory, 1);
    assert_string_equal(stk_run_config_default(w, "pin_memory"), "TrainingArguments'");
    w = read_text(state, "trainer:\n  max_epochs: 3\n");
    assert_int_equal(w->mixed_precision, 0);
    assert_int_equal(w->log_every, 50);
    assert_int_equal(w->batch, STK_UNSAID);
    assert_string_equal(stk_run_config_default(w, "mixed_precision"), "Trainer's");
    w = read_text(
        state, "train_ds:\n  batch_size: 4\n  pin_memory: false\nval_ds:\n  batch_size: 1\n  image_size: 9\n"
               "trainer:\n  precision: bf16-mixed\nmodel:\n  name: nvidia/segformer-b5-finetuned\n");
    assert_string_equal(w->dialect, "train_ds");
    assert_string_equal(w->model, "b5");
    assert_int_equal(w->batch, 4);
    assert_int_equal(w->pin_memory, 0);
    assert_int_equal(w->height, STK_UNSAID); /* of validation */
    assert_int_equal(w->mixed_precision, 1);
    assert_int_equal(w->train.precision, STOKE_PRECISION_BF16);
    assert_false(w->has_data);
    w = read_text(state, "batch_size: 1\ndata_root: ~\nimages_dir: a b\nmask_dir: m\n");
    assert_true(w->has_data);
    assert_null(w->data.data);
    assert_string_equal(w->data.images, "a b");
    assert_string_equal(w->data.masks, "m");
    assert_string_equal(w->data_name, "'a b'");
    w = read_text(state,
                  "base_channels: 64\nnum_blocks: 6\npatch_size: 128\nbatch_size: 16\noptimizer: SGD\n");
    assert_string_equal(w->model, "resnet");
    assert_int_equal(w->height, 128);
    assert_int_equal(w->train.optimizer, STOKE_OPTIMIZER_SGD);
    assert_string_equal(read_text(state, "model: SmallNet\nbatch_size: 4\n")->model, "resnet");
    assert_string_equal(read_text(state, "model: resnet50\nbatch_size: 4\n")->model, "");
    assert_string_equal(read_text(state, "model: smallnet\nbatch: 4\nworkers: 1\n")->model, "resnet");
    w = read_text(state, "model: b3\nbatch: 6\nsize: 96x64\nworkers: 2\n");
    assert_int_equal(w->engine, STOKE_ENGINE_NATIVE);
    assert_string_equal(w->model, "b3");
    assert_int_equal(w->batch, 6);
    assert_int_equal(w->height, 96);
    w = read_text(state, "batch_size: lots\nnum_workers: -3\nimage_size: wide\nmodel_name: resnet50\n");
    assert_int_equal(w->batch, STK_UNSAID);
    assert_int_equal(w->workers, STK_UNSAID);
    assert_int_equal(w->height, STK_UNSAID);
    assert_string_equal(w->model, "");
    stk_run_config_free(&s.wish);
}

/* Items of a list are no pairs of key and value. */
static void lists_are_no_settings(void **state)
{
    static const char *const texts[] = { "- batch_size: 16\n", "[8]\n", "[a, b, c]\n" };
    stoke_preflight_params p = stoke_preflight_defaults();
    p.config = unit_path(state, "list.yaml");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        stoke_error err = { 0 };
        unit_write(p.config, texts[i], strlen(texts[i]));
        assert_int_equal(stk_run_config_read(&s.wish, &p, &err), STOKE_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, "list.yaml:1: settings such as"));
        stk_run_config_free(&s.wish);
    }
}

static void no_memory(void **state)
{
    stoke_preflight_params p = stoke_preflight_defaults();
    stoke_preflight *preflight;
    const char text[] = "batch_size: 8\nroot: /nowhere\n";
    unit_write(unit_path(state, "c.yaml"), text, strlen(text));
    p.config = unit_path(state, "c.yaml");
    p.root = unit_folder(state);
    p.nvml = "/nowhere/libnvidia-ml.so.1";
    int failures = 0;
    for (int64_t after = 0; after < 400; after++) {
        stoke_error err = { 0 };
        stk_mem_fail_after(after);
        const int r = stoke_preflight_run(&preflight, &p, &err);
        stk_mem_fail_after(-1);
        if (r) assert_null(preflight);
        if (r) failures++;
        stoke_preflight_destroy(&preflight);
    }
    assert_true(failures > 2);
    assert_int_equal(stoke_preflight_run(&preflight, &p, NULL), STOKE_OK);
    assert_int_equal(preflight->count[STOKE_VERDICT_FAIL], 1); /* the data */
    stoke_preflight_destroy(&preflight);
}

/* ---- several processes ---- */

static stk_rank_facts facts[4];
static stk_rank_links links;

/* Two hosts with two ranks each, which are alike. */
static void all_ranks_are_alike(void)
{
    all_is_right();
    s.wish.engine = STOKE_ENGINE_NATIVE;
    links = (stk_rank_links){ .library = "Open MPI", .bytes_s = 1e9, .ms = 16, .bytes = 16 << 20 };
    for (uint32_t q = 0; q < 4; q++) {
        facts[q] = (stk_rank_facts){ .data_there = 1,
                                     .cores = 4,
                                     .affinity = 4,
                                     .allowed = 8,
                                     .pairs = 100,
                                     .names = 1,
                                     .sizes = 2,
                                     .free_bytes = 32 * GIB,
                                     .pid = 800 + q };
        strcpy(facts[q].cpu, "avx2");
        strcpy(facts[q].host, q < 2 ? "node-a" : "node-b");
    }
}

static const char *expect_ranks(const char *key, int verdict)
{
    static char figure[384];
    memset(&s.list, 0, sizeof s.list);
    stk_preflight_judge_ranks(&s.list, &s.wish, facts, 4, &links);
    const stoke_preflight_line *l = line(key);
    if (!l || l->verdict != verdict) fail_msg("%s: %s", key, l ? l->figure : "no such line");
    assert_true(*l->figure);
    if (verdict != NA) assert_int_equal(*l->fix != 0, verdict != PASS);
    assert_int_equal(l->source != STOKE_SOURCE_NA, verdict != NA);
    assert_int_equal(s.list.count[verdict] >= 1, 1);
    snprintf(figure, sizeof figure, "%s", l->figure);
    all_ranks_are_alike();
    return figure;
}

static void ranks(void **state)
{
    (void)state;
    all_ranks_are_alike();
    assert_non_null(strstr(expect_ranks("ranks", PASS), "4 ranks on 2 hosts, by Open MPI"));
    for (const char *const *key = (const char *const[]){ "rank_cpu", "rank_cores", "rank_data", "rank_memory",
                                                         "rank_clock", "rank_bandwidth", NULL };
         *key; key++)
        expect_ranks(*key, PASS);
    facts[3].code = STOKE_E_IO;
    strcpy(facts[3].text, "x.yaml: cannot open");
    assert_non_null(strstr(expect_ranks("ranks", FAIL), "rank 3 (node-b, pid 803): x.yaml: cannot open"));
    strcpy(facts[2].cpu, "avx512");
    assert_non_null(strstr(expect_ranks("rank_cpu", FAIL), "rank 2 (node-b, pid 802) computes with avx512"));
    facts[1].cores = 2;
    assert_non_null(strstr(expect_ranks("rank_cores", WARN), "rank 1 (node-a, pid 801) may use 2 cores"));
    for (int q = 0; q < 4; q++) facts[q].cores = facts[q].affinity = 1;
    assert_non_null(strstr(expect_ranks("rank_cores", WARN), "is bound to 1 core of 8"));
    for (int q = 0; q < 4; q++) facts[q].cores = facts[q].affinity = 1, facts[q].allowed = 2;
    expect_ranks("rank_cores", PASS); /* two ranks on two cores */
}

static void sets_of_ranks(void **state)
{
    (void)state;
    all_ranks_are_alike();
    facts[2].names = 7;
    assert_non_null(
        strstr(expect_ranks("rank_data", FAIL), "has another set: 100 pairs, rank 0 has 100 of other names"));
    facts[2].pairs = 99;
    assert_non_null(strstr(expect_ranks("rank_data", FAIL), "99 pairs, rank 0 has 100"));
    facts[1].data_there = 0;
    strcpy(facts[1].text, "faces: no such folder");
    assert_non_null(
        strstr(expect_ranks("rank_data", FAIL), "rank 1 (node-a, pid 801) cannot open it: faces"));
    facts[3].sizes = 9;
    assert_non_null(strstr(expect_ranks("rank_data", WARN), "other sizes than rank 0's"));
    s.wish.has_data = 0;
    expect_ranks("rank_data", NA);
}

static void hosts_of_ranks(void **state)
{
    (void)state;
    all_ranks_are_alike();
    facts[2].free_bytes = facts[3].free_bytes = 0.5 * GIB;
    assert_non_null(strstr(expect_ranks("rank_memory", FAIL), "256.0 MiB for each of 2 ranks on node-b"));
    for (int q = 0; q < 4; q++) facts[q].free_bytes = NAN;
    expect_ranks("rank_memory", NA);
    links.clock[2] = -40;
    assert_non_null(
        strstr(expect_ranks("rank_clock", WARN), "the clock of rank 2 (node-b, pid 802) is 40.0 s behind"));
    for (int q = 0; q < 4; q++) links.clock[q] = NAN;
    expect_ranks("rank_clock", NA);
    links.bytes_s = 1.2e7;
    assert_non_null(strstr(expect_ranks("rank_bandwidth", WARN), "each sends 12 MB/s"));
    links.bytes_s = 0;
    strcpy(links.why_not, "no memory");
    expect_ranks("rank_bandwidth", NA);
}

UNIT_GROUP(preflight)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_wrong),
        unit_test_with_folder(nodes_and_pages),
        cmocka_unit_test(nothing_seen),
        cmocka_unit_test(the_card),
        cmocka_unit_test(precision),
        cmocka_unit_test(memory),
        cmocka_unit_test(workers),
        cmocka_unit_test(batches_held_ready),
        cmocka_unit_test(data),
        unit_test_with_folder(dialects),
        unit_test_with_folder(lists_are_no_settings),
        cmocka_unit_test(ranks),
        cmocka_unit_test(sets_of_ranks),
        cmocka_unit_test(hosts_of_ranks),
        unit_test_with_folder(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
