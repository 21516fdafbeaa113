/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke_why on runs that were made up: every cause planted and found with its evidence and a command, and
 * none of them claimed of a run that has nothing wrong with it.
 */
#include <math.h>
#include <stoke/tools/live.h>
#include <stoke/tools/why.h>
#include <sys/wait.h>

#include "src/base/mem.h"
#include "src/tune/why/why.h"
#include "tests/unit/unit.h"

/* ---- a machine and a run ---- */

static void put(void **state, const char *name, const char *text)
{
    unit_write(unit_path(state, name), text, strlen(text));
}

/* Four cores, of which `load` threads want to run; memory; programs that the kernel killed. */
static void machine(void **state, const char *available_kb, const char *load, const char *kills)
{
    char text[200];
    snprintf(text, sizeof text, "MemTotal: 16000000 kB\nMemAvailable: %s kB\nSwapFree: 0 kB\n", available_kb);
    put(state, "root/proc/meminfo", text);
    put(state, "root/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\n");
    put(state, "root/proc/self/cgroup", "0::/\n");
    put(state, "root/sys/devices/system/cpu/online", "0-3\n");
    snprintf(text, sizeof text, "%s 1.00 1.00 1/200 4711\n", load);
    put(state, "root/proc/loadavg", text);
    snprintf(text, sizeof text, "low 0\noom 0\noom_kill %s\n", kills);
    put(state, "root/sys/fs/cgroup/memory.events", text);
}

/* What differs from a run with nothing wrong; zeros change nothing. */
typedef struct made_run {
    const char *settings;        /* further lines of config.yaml */
    const char *precision, *cpu; /* of the start; NULL = fp32, avx2 */
    int threads, batch;          /* 0 = 4 */
    double wait, eval_seconds,
        seconds;            /* share; s for each evaluation; factor of steps in the last quarter */
    int hole_from, jump_at; /* steps */
    int flat, overfit;
    double lr, norm; /* 0 = 6e-4; norm: of every twelfth line */
    int skips;       /* every so many steps one is left out, and the loss scale falls */
    const char *remark, *iou, *end;
    int no_end;
} made_run;

enum { STEPS = 200 };

static void put_steps(FILE *out, const made_run *m)
{
    double scale = 65536, t = 0;
    for (int i = 1; i <= STEPS; i++) {
        /* Now and then a harder batch, by a third of the loss: that is no jump. */
        const double x = (double)i / STEPS, noise = 0.02 * sin(i * 12.9898) + (i % 40 ? 0 : 0.15);
        double loss = (m->flat ? 2 : 0.4 + 1.6 * exp(-4 * x)) + noise, norm = 1.5 + 10 * noise;
        if (m->jump_at && i == m->jump_at) loss *= 4;
        if (m->norm > 0 && i % 12 == 0) norm = m->norm;
        const double seconds = 0.1 * (m->seconds > 0 && i > STEPS * 3 / 4 ? m->seconds : 1);
        const int skipped = m->skips && i % m->skips == 0;
        if (skipped) scale /= 2;
        t += seconds;
        char number[32] = "null";
        if (!m->hole_from || i < m->hole_from) snprintf(number, sizeof number, "%.6f", loss);
        fprintf(
            out,
            "{\"kind\":\"step\",\"step\":%d,\"epoch\":%d,\"t\":%.3f,\"loss\":%s,\"lr\":%g,\"gradient_norm\":"
            "%.4f,\"loss_scale\":%g,\"skipped\":%d,\"images\":4,\"seconds\":%.4f,\"data_seconds\":%.5f}\n",
            i, i / 50, t, number, m->lr > 0 ? m->lr : 6e-4, norm, m->skips ? scale : 1, skipped, seconds,
            seconds * (m->wait > 0 ? m->wait : 0.01));
        if (i % 25) continue;
        const double worse = m->overfit && i > 75 ? 0.02 * (i - 75) : 0, val = 0.5 + exp(-4 * x) + worse;
        fprintf(
            out,
            "{\"kind\":\"eval\",\"step\":%d,\"t\":%.3f,\"loss\":%.4f,\"miou\":0.5,\"iou\":%s,\"best\":%s,"
            "\"seconds\":%g}\n{\"kind\":\"save\",\"step\":%d,\"t\":%.3f,\"seconds\":0.05,\"bytes\":1000}\n",
            i, t, val, m->iou ? m->iou : "[0.5,0.4,null,0.6]", i == 75 ? "true" : "false",
            m->eval_seconds > 0 ? m->eval_seconds : 0.1, i, t);
    }
    if (!m->no_end)
        fprintf(out, "{\"kind\":\"end\",\"step\":%d,\"t\":%.3f,\"why\":\"%s\"}\n", STEPS, t,
                m->end ? m->end : "all steps are done");
}

static const char *make_run(void **state, const made_run *m)
{
    char config[600];
    snprintf(config, sizeof config,
             "model: b0\nbatch: %d\nsize: 64\nclasses: 4\nworkers: auto\nprecision: fp32\nmax_bad: 1%%\n%s",
             m->batch ? m->batch : 4, m->settings ? m->settings : "clip_norm: 1\nlr: 0.0006\n");
    put(state, "run/config.yaml", config);
    put(state, "run/log.jsonl", "");
    FILE *out = fopen(unit_path(state, "run/log.jsonl"), "w");
    assert_non_null(out);
    fprintf(
        out,
        "{\"kind\":\"start\",\"step\":0,\"t\":0,\"model\":\"b0\",\"classes\":4,\"size\":[64,64],\"batch\":%d,"
        "\"accumulate\":1,\"steps\":%d,\"epochs\":4,\"precision\":\"%s\",\"threads\":%d,\"cpu\":\"%s\"}\n",
        m->batch ? m->batch : 4, STEPS, m->precision ? m->precision : "fp32", m->threads ? m->threads : 4,
        m->cpu ? m->cpu : "avx2");
    if (m->remark) fprintf(out, "{\"kind\":\"remark\",\"step\":0,\"t\":0,\"text\":\"%s\"}\n", m->remark);
    put_steps(out, m);
    fclose(out);
    return unit_path(state, "run");
}

/* ---- asking ---- */

static stoke_answer *ask(void **state, int trouble, const char *run, const char *config)
{
    stoke_why_params params = stoke_why_defaults();
    stoke_answer *answer = NULL;
    stoke_error err = { 0 };
    params.trouble = trouble;
    params.run = run;
    params.config = config;
    params.root = unit_path(state, "root");
    if (stoke_why(&answer, &params, &err)) fail_msg("%s", err.message);
    return answer;
}

/* The reason whose cause has these words. */
static stoke_reason about(const stoke_answer *answer, const char *words)
{
    for (size_t i = 0; i < answer->n; i++)
        if (strstr(answer->reason[i].cause, words)) return answer->reason[i];
    fail_msg("no cause speaks of '%s'", words);
    return (stoke_reason){ 0 };
}

static void found(const stoke_answer *answer, const char *words, const char *evidence, const char *remedy)
{
    const stoke_reason r = about(answer, words);
    if (r.found != 1) fail_msg("'%s' was not found: %s", r.cause, r.evidence);
    if (!strstr(r.evidence, evidence))
        fail_msg("'%s': evidence '%s' lacks '%s'", r.cause, r.evidence, evidence);
    if (!strstr(r.remedy, remedy)) fail_msg("'%s': remedy '%s' lacks '%s'", r.cause, r.remedy, remedy);
}

/* Nothing is claimed, and what is found comes before what is not. */
static void nothing_found(const stoke_answer *answer)
{
    for (size_t i = 0; i < answer->n; i++) {
        const stoke_reason r = answer->reason[i];
        if (r.found == 1) fail_msg("claimed: %s (%s)", r.cause, r.evidence);
        assert_true(*r.cause && *r.evidence);
    }
}

static void sorted(const stoke_answer *answer)
{
    static const int place[] = { 1, 2, 0 };
    for (size_t i = 0, last = 0; i < answer->n; i++) {
        const stoke_reason r = answer->reason[i];
        assert_true((size_t)place[r.found + 1] >= last);
        last = (size_t)place[r.found + 1];
        if (r.found == 1) assert_true(*r.remedy);
    }
}

/* ---- tests ---- */

static void sound_run(void **state)
{
    machine(state, "8000000", "0.20", "0");
    const char *run = make_run(state, &(made_run){ 0 });
    for (int trouble = STOKE_TROUBLE_OOM; trouble <= STOKE_TROUBLE_LOADING; trouble++) {
        stoke_answer *answer = ask(state, trouble, run, NULL);
        nothing_found(answer);
        assert_non_null(
            strstr(answer->text, trouble == STOKE_TROUBLE_LOADING ? "They do not" : "nothing is there"));
        stoke_answer_free(&answer);
        stoke_answer_free(&answer);
        assert_null(answer);
    }
}

/* One fault each; the cause is found, with these words in its evidence and its command. */
static void planted(void **state)
{
    static const struct {
        int trouble;
        made_run run;
        const char *load, *cause, *evidence, *remedy;
    } all[] = {
        { STOKE_TROUBLE_SLOW,
          { .wait = 0.6 },
          "0.2",
          "wait for batches 60 %",
          "of 20.0 s",
          "why loading --run" },
        { STOKE_TROUBLE_SLOW, { .eval_seconds = 2 }, "0.2", "evaluation takes", "16.0 s", "--eval-every" },
        { STOKE_TROUBLE_SLOW, { .seconds = 3 }, "0.2", "became slower", "13.5 in the last", "stoke monitor" },
        { STOKE_TROUBLE_SLOW, { .threads = 1 }, "0.2", "fewer threads", "1 thread;", "--threads 0" },
        { STOKE_TROUBLE_SLOW, { .precision = "bf16" }, "0.2", "for bf16", "avx2", "--precision auto" },
        { STOKE_TROUBLE_SLOW,
          { .settings = "memory: min\nclip_norm: 1\n" },
          "0.2",
          "computed twice",
          "min",
          "--memory plain" },
        { STOKE_TROUBLE_SLOW, { 0 }, "9.5", "want the processor", "9.5 threads", "ps " },
        { STOKE_TROUBLE_UNSTABLE,
          { .hole_from = 120 },
          "0.2",
          "not a number",
          "81 of 200 lines, the first at "
          "step 120",
          "--lr 6e-05" },
        { STOKE_TROUBLE_UNSTABLE,
          { .jump_at = 90 },
          "0.2",
          "the loss jumps",
          "1 of 200 lines, the first at step "
          "90",
          "--lr" },
        { STOKE_TROUBLE_UNSTABLE,
          { .flat = 1 },
          "0.2",
          "does not fall",
          "median 2",
          "stoke find-lr --config" },
        { STOKE_TROUBLE_UNSTABLE, { .overfit = 1 }, "0.2", "overfits", "at step 200", "--patience" },
        { STOKE_TROUBLE_UNSTABLE,
          { .settings = "clip_norm: 0\nlr: 0.0006\n", .norm = 400 },
          "0.2",
          "not clipped",
          "clip_norm 0",
          "--clip-norm 1.6" },
        { STOKE_TROUBLE_UNSTABLE,
          { .skips = 10, .precision = "fp16" },
          "0.2",
          "overflow in fp16",
          "20 of 200 steps skipped",
          "--precision auto" },
        { STOKE_TROUBLE_UNSTABLE,
          { .lr = 0.05, .jump_at = 90, .settings = "lr: 0.05\nclip_norm: 1\n" },
          "0.2",
          "learning rate is high",
          "0.05 at its highest",
          "stoke find-lr" },
        { STOKE_TROUBLE_UNSTABLE,
          { .jump_at = 20, .settings = "warmup: 0\nclip_norm: 1\n" },
          "0.2",
          "begins at its height",
          "warm-up of 0 of 200",
          "--warmup 0.1" },
        { STOKE_TROUBLE_UNSTABLE,
          { .jump_at = 90, .batch = 1 },
          "0.2",
          "too few pictures",
          "= 1",
          "--accumulate 8" },
        { STOKE_TROUBLE_UNSTABLE,
          { .remark = "9 classes, of which 3 occur in none." },
          "0.2",
          "odd about the "
          "labels",
          "3 occur in none",
          "stoke verify" },
        { STOKE_TROUBLE_UNSTABLE,
          { .iou = "[0.5,0,null,0.6]" },
          "0.2",
          "never found",
          "IoU 0 for 1 of 4",
          "--class-weights balanced" },
        { STOKE_TROUBLE_LOADING, { .wait = 0.3 }, "0.2", "steps wait", "30.0 %", "stoke diagnose --config" },
        { STOKE_TROUBLE_LOADING,
          { .wait = 0.3, .remark = "training: bad files at 9 places of its batches" },
          "0.2",
          "bad files",
          "9 places",
          "stoke verify" },
        { STOKE_TROUBLE_LOADING,
          { .wait = 0.3, .settings = "workers: 16\nclip_norm: 1\n" },
          "0.2",
          "workers",
          "16; 4 cores: 3 usual, up to 4",
          "--workers auto" },
        { STOKE_TROUBLE_OOM,
          { .end = "the network needs 9 GB of memory, there are 8 GB" },
          "0.2",
          "for want of memory",
          "9 GB",
          "--batch auto" },
        { STOKE_TROUBLE_OOM, { .no_end = 1 }, "0.2", "killed, or it is still going", "step 200", "--resume" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        machine(state, "8000000", all[i].load, "0");
        made_run m = all[i].run;
        if (m.settings && strstr(m.settings, "workers:")) m.settings = "clip_norm: 1\n";
        const char *run = make_run(state, &m);
        if (m.settings != all[i].run.settings)
            put(state, "run/config.yaml",
                "model: b0\nbatch: 4\nsize: 64\nclasses: 4\nworkers: 16\nclip_norm: 1\n");
        stoke_answer *answer = ask(state, all[i].trouble, run, NULL);
        found(answer, all[i].cause, all[i].evidence, all[i].remedy);
        sorted(answer);
        stoke_answer_free(&answer);
    }
}

/* What would hold up others is no cause where steps do not wait. */
static void loading_that_does_not_wait(void **state)
{
    machine(state, "8000000", "0.2", "0");
    const char *run =
        make_run(state, &(made_run){ .remark = "training: bad files at 9 places of its batches" });
    stoke_answer *answer = ask(state, STOKE_TROUBLE_LOADING, run, NULL);
    nothing_found(answer);
    assert_non_null(strstr(answer->text, "They do not: steps waited for them 1.0 %"));
    stoke_answer_free(&answer);
}

/* Too large for the memory there is: the number that fits, and what takes less. */
static void too_large(void **state)
{
    machine(state, "3000000", "0.2", "0");
    put(state, "big.yaml", "model: b2\nbatch: 48\nsize: 256\nclasses: 12\nprecision: fp32\nclip_norm: 1\n");
    stoke_answer *answer = ask(state, STOKE_TROUBLE_OOM, NULL, unit_path(state, "big.yaml"));
    found(answer, "batches of 48 need", "activations", "--batch ");
    const stoke_reason r = about(answer, "batches of 48 need");
    long batch = 0, times = 0;
    const char *flags = strstr(r.remedy, "--batch");
    assert_int_equal(sscanf(flags, "--batch %ld --accumulate %ld", &batch, &times), 2);
    assert_true(batch >= 1 && batch < 48 && batch * times >= 48);
    found(answer, "more activations are kept", "--memory min", "--memory min");
    found(answer, "numbers of 32 bits", "bf16", "--precision bf16");
    assert_int_equal(about(answer, "decoded pictures").found, 0);
    assert_true(!strncmp(answer->text, "Batches of 48", 13));
    stoke_answer_free(&answer);
    /* The batch that was named does fit. */
    char config[200];
    snprintf(config, sizeof config,
             "model: b2\nbatch: %ld\nsize: 256\nclasses: 12\nclip_norm: 1\nprecision: fp32\n", batch);
    put(state, "fits.yaml", config);
    answer = ask(state, STOKE_TROUBLE_OOM, NULL, unit_path(state, "fits.yaml"));
    nothing_found(answer);
    stoke_answer_free(&answer);
}

/* ---- evidence that no folder of a test can hold ---- */

static stoke_figure measured(double value)
{
    return (stoke_figure){ value, STOKE_SOURCE_MEASURED };
}

/* A run that waits for the pictures of a large set. */
static stk_why_evidence *large_set(void)
{
    stk_why_evidence *e = calloc(1, sizeof *e);
    assert_non_null(e);
    e->state = STK_RUN_ENDED;
    e->log.step = 500;
    e->log.step_seconds = 100;
    e->log.data_seconds = 40;
    e->here.data_there = e->here.has_partners = e->config.has_data = 1;
    e->here.pairs = 50000;
    e->here.data_bytes = measured(50000.0 * 2 * 200000);
    e->here.disk.cached_share = measured(0.9);
    e->list.line[e->list.n++] = (stoke_preflight_line){ .key = "disk",
                                                        .title = "disk of the data",
                                                        .figure = "it turns",
                                                        .fix = "stoke pack",
                                                        .verdict = STOKE_VERDICT_WARN,
                                                        .source = STOKE_SOURCE_SYSFS };
    strcpy(e->config.data_name, "faces");
    return e;
}

static void files_of_a_large_set(void **state)
{
    (void)state;
    stk_why_evidence *e = large_set();
    stoke_answer *a = calloc(1, sizeof *a);
    assert_non_null(a);
    stk_why_loading(a, e);
    assert_int_equal(about(a, "many small files").found, 0);
    assert_int_equal(about(a, "read from the disk").found, 0);
    assert_int_equal(about(a, "slow at many small reads").found, 0);
    e->here.data_bytes = measured(50000.0 * 2 * 9000);
    e->here.disk.cached_share = measured(0.1);
    a->n = 0;
    stk_why_loading(a, e);
    found(a, "many small files", "100000 files of 9.0 kB", "stoke pack faces --out shards");
    found(a, "read from the disk", "10 % of the pictures", "stoke doctor --data faces");
    found(a, "slow at many small reads", "it turns", "stoke pack");
    e->here.disk.cached_share = (stoke_figure){ 0 };
    e->here.pairs = 1000; /* few, however small */
    a->n = 0;
    stk_why_loading(a, e);
    assert_int_equal(about(a, "many small files").found, 0);
    assert_int_equal(about(a, "read from the disk").found, -1);
    free(a);
    free(e);
}

/* A card that nobody uses is idle for no fault of the settings; the list of reasons has an end. */
static void idle_card_and_full_list(void **state)
{
    (void)state;
    stk_why_evidence *e = calloc(1, sizeof *e);
    stoke_answer *a = calloc(1, sizeof *a);
    assert_true(e && a);
    e->config.engine = STOKE_ENGINE_TORCH;
    e->here.n_gpus = 1;
    e->here.gpu.busy_percent = measured(0);
    stk_why_slow(a, e);
    assert_int_equal(about(a, "the card is not busy").found, -1);
    e->here.gpu.n_processes = 1;
    a->n = 0;
    stk_why_slow(a, e);
    assert_int_equal(about(a, "the card is not busy").found, 1);
    e->here.gpu.busy_percent = measured(93);
    a->n = 0;
    stk_why_slow(a, e);
    assert_int_equal(about(a, "the card is not busy").found, 0);
    for (int i = 0; i < 2 * STOKE_REASONS; i++) assert_non_null(stk_reason(a, 0, 0, "", NULL, "%s", ""));
    assert_int_equal(a->n, STOKE_REASONS);
    free(a);
    free(e);
}

/* ---- the live page ---- */

/* By a process that is gone without a word, or by this one. */
static stoke_live *write_page(void **state, int dies)
{
    const char *path = unit_path(state, "run/live");
    stoke_live *live = NULL;
    stoke_error err = { 0 };
    const pid_t child = dies ? fork() : 0;
    assert_true(child >= 0);
    if (child) {
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        return NULL;
    }
    stoke_live_data data = stoke_live_defaults();
    if (stoke_live_create(&live, path, "train b0", &err)) _exit(1);
    data.phase = STOKE_LIVE_TRAINING;
    data.step = 200, data.samples = 800, data.batches = 200, data.epoch = 4;
    for (int i = 0; i < STOKE_STAGES; i++)
        data.stage_wall_ns[i] = data.stage_cpu_ns[i] = data.stage_count[i] = 0;
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++)
        data.stage_wall_ns[i] = 800000000, data.stage_count[i] = 800;
    data.stage_wall_ns[STOKE_STAGE_DECODE_IMAGE] = 8000000000;
    data.cache_hits = 100, data.cache_misses = 700, data.bad_samples = 0;
    stoke_live_write(live, &data);
    if (dies) _exit(0);
    return live;
}

static void page_of_a_killed_run(void **state)
{
    machine(state, "8000000", "0.2", "3");
    const char *run = make_run(state, &(made_run){ .no_end = 1, .wait = 0.5 });
    write_page(state, 1);
    stoke_answer *answer = ask(state, STOKE_TROUBLE_OOM, run, NULL);
    found(answer, "the kernel has killed", "oom_kill of the control group: 3", "--resume");
    found(answer, "more activations are kept", "--memory min", "--memory min");
    stoke_answer_free(&answer);
    answer = ask(state, STOKE_TROUBLE_LOADING, run, NULL);
    found(answer, "decoding pictures takes 71 %", "decoding pictures 10.00 ms", "--cache");
    found(answer, "the cache has few", "12 %", "--cache-disk");
    stoke_answer_free(&answer);
    machine(state, "8000000", "0.2", "0");
    answer = ask(state, STOKE_TROUBLE_OOM, unit_path(state, "run"), NULL);
    found(answer, "the run was killed", "its process is gone", "dmesg");
    assert_int_equal(about(answer, "more activations are kept").found,
                     0); /* nothing shows that memory was short */
    stoke_answer_free(&answer);
}

static void page_of_a_run_that_goes_on(void **state)
{
    machine(state, "100000", "4.2", "3"); /* it has taken the memory itself, and the cores */
    const char *run = make_run(state, &(made_run){ .no_end = 1 });
    stoke_live *live = write_page(state, 0);
    stoke_answer *answer = ask(state, STOKE_TROUBLE_OOM, run, NULL);
    nothing_found(answer);
    assert_non_null(strstr(about(answer, "the run was killed").evidence, "still going"));
    stoke_answer_free(&answer);
    answer = ask(state, STOKE_TROUBLE_SLOW, run, NULL);
    nothing_found(answer);
    stoke_answer_free(&answer);
    stoke_live_close(&live);
}

/* ---- settings of a PyTorch trainer, and a card ---- */

static void foreign_settings(void **state)
{
    machine(state, "8000000", "0.2", "0");
    put(state, "x.yaml",
        "model_name: segformer-b4\nnon_blocking: false\nimage_size: 512\nnum_classes: 19\nbatch_size: "
        "64\nnum_workers: "
        "0\nlog_every: "
        "1\n");
    const char *config = unit_path(state, "x.yaml");
    stoke_answer *answer = ask(state, STOKE_TROUBLE_OOM, NULL, config);
    found(answer, "batches of 64 need", "[nvml]", "stoke estimate --model b4 --batch");
    found(answer, "numbers of 32 bits", "fp16", "stoke optimize --config");
    stoke_answer_free(&answer);
    answer = ask(state, STOKE_TROUBLE_SLOW, NULL, config);
    found(answer, "the card is not busy", "busy 30 %", "stoke diagnose --config");
    found(answer, "no workers make batches", "num_workers is 0", "stoke optimize --config");
    found(answer, "waits for the loss", "log_every is 1", "stoke optimize --config");
    found(answer, "waits for every copy", "non_blocking is false", "stoke optimize");
    sorted(answer);
    stoke_answer_free(&answer);
    answer = ask(state, STOKE_TROUBLE_UNSTABLE, NULL, config);
    found(answer, "not clipped", "grad_clip is not there", "stoke optimize");
    assert_int_equal(about(answer, "jumps or does not fall").found, -1);
    stoke_answer_free(&answer);
    answer = ask(state, STOKE_TROUBLE_LOADING, NULL, config);
    assert_int_equal(about(answer, "one stage").found, -1);
    assert_non_null(strstr(about(answer, "one stage").remedy, "stoke diagnose --config"));
    stoke_answer_free(&answer);
    put(state, "y.yaml",
        "batch_size: 64\nnum_workers: 3\npin_memory: true\nnon_blocking: true\npersistent_workers: true\n"
        "prefetch_factor: 8\nuse_amp: true\ncompile: true\ngrad_clip: 1.0\nlog_every: 50\n");
    answer = ask(state, STOKE_TROUBLE_SLOW, NULL, unit_path(state, "y.yaml"));
    static const char *const right[] = { "the number of workers does not suit",
                                         "waits for the loss",
                                         "waits for every copy",
                                         "32 bits",
                                         "few batches",
                                         "started again" };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        assert_int_equal(about(answer, right[i]).found, 0);
    stoke_answer_free(&answer);
}

static void machine_alone(void **state)
{
    machine(state, "8000000", "0.2", "0");
    for (int trouble = STOKE_TROUBLE_OOM; trouble <= STOKE_TROUBLE_LOADING; trouble++) {
        stoke_answer *answer = ask(state, trouble, NULL, NULL);
        if (trouble != STOKE_TROUBLE_SLOW) { /* the fake card has something to find */
            nothing_found(answer);
            assert_non_null(strstr(answer->text, "--run RUN"));
        }
        stoke_answer_free(&answer);
    }
    put(state, "root/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0\n");
    stoke_answer *answer = ask(state, STOKE_TROUBLE_LOADING, NULL, NULL);
    found(answer, "share a single core", "usable cores: 1", "stoke doctor");
    stoke_answer_free(&answer);
}

/* ---- what cannot be answered ---- */

static void refused(void **state)
{
    stoke_why_params params = stoke_why_defaults();
    stoke_answer *answer = NULL;
    stoke_error err = { 0 };
    params.run = unit_path(state, "nowhere");
    assert_int_equal(stoke_why(&answer, &params, &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "no such run"));
    put(state, "empty/x", "");
    params.run = unit_path(state, "empty");
    assert_int_equal(stoke_why(&answer, &params, &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "no log.jsonl"));
    put(state, "odd/log.jsonl", "\x00\xff{\"kind\":3}\n[[[[\n{\"kind\":\"step\",\"step\":-1}\n");
    params.run = unit_path(state, "odd");
    assert_int_equal(stoke_why(&answer, &params, &err), STOKE_E_FORMAT);
    params.run = NULL;
    params.config = unit_path(state, "none.yaml");
    assert_int_equal(stoke_why(&answer, &params, &err), STOKE_E_NOTFOUND);
    params.config = NULL;
    params.trouble = 4;
    assert_int_equal(stoke_why(&answer, &params, &err), STOKE_E_INVALID);
    params.trouble = 0;
    params.struct_size = 1;
    assert_int_equal(stoke_why(&answer, &params, &err), STOKE_E_INVALID);
    assert_null(answer);
    for (int t = -1; t < 5; t++) assert_non_null(stoke_trouble_name(t));
}

/* A log that begins and says nothing else; settings that are broken. The rest is told all the same. */
static void little_to_go_by(void **state)
{
    machine(state, "8000000", "0.2", "0");
    put(state, "run/log.jsonl",
        "{\"kind\":\"start\",\"step\":0,\"t\":0,\"size\":[1e9,-3],\"batch\":99999999}\n");
    put(state, "run/config.yaml", "clip_norm: [1\n");
    for (int trouble = STOKE_TROUBLE_OOM; trouble <= STOKE_TROUBLE_LOADING; trouble++) {
        stoke_answer *answer = ask(state, trouble, unit_path(state, "run"), NULL);
        assert_true(*answer->text);
        sorted(answer);
        stoke_answer_free(&answer);
    }
}

static void no_memory(void **state)
{
    machine(state, "8000000", "0.2", "0");
    stoke_why_params params = stoke_why_defaults();
    params.run = make_run(state, &(made_run){ .jump_at = 90 });
    params.root = unit_path(state, "root");
    params.trouble = STOKE_TROUBLE_UNSTABLE;
    int done = 0, failures = 0;
    /* The log makes a few hundred for its lines, one like the other: these are passed in leaps. */
    for (int after = 0; !done && after < 4000; after += after < 40 ? 1 : 97) {
        stoke_answer *answer = NULL;
        stk_mem_fail_after(after);
        const int r = stoke_why(&answer, &params, NULL);
        stk_mem_fail_after(-1);
        assert_true(!r == !!answer);
        done = !r;
        failures += r != STOKE_OK;
        stoke_answer_free(&answer);
    }
    assert_true(done && failures > 10);
}

UNIT_GROUP(why)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(sound_run),
        unit_test_with_folder(planted),
        unit_test_with_folder(loading_that_does_not_wait),
        unit_test_with_folder(too_large),
        cmocka_unit_test(files_of_a_large_set),
        cmocka_unit_test(idle_card_and_full_list),
        unit_test_with_folder(page_of_a_killed_run),
        unit_test_with_folder(page_of_a_run_that_goes_on),
        unit_test_with_folder(foreign_settings),
        unit_test_with_folder(machine_alone),
        unit_test_with_folder(refused),
        unit_test_with_folder(little_to_go_by),
        unit_test_with_folder(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
