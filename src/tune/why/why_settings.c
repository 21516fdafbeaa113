/* SPDX-License-Identifier: Apache-2.0
 *
 * What a settings file says by itself, with no run and no card to look at: workers that are not there,
 * numbers of 32 bits, gradients that are not clipped, a learning rate that is high and begins at its height.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/number.h"
#include "src/settings/keys.h"
#include "src/tune/decide/decide.h"
#include "src/tune/optimize/optimize.h"
#include "src/tune/why/why.h"

/* Rates above these are rare, and seldom by intent. Adam and AdamW: 6e-5 (pretrained) to 1e-3; SGD: to 0.1.
 */
static const double ADAM_MOST = 1e-3, SGD_MOST = 0.1;
/* Fewer pictures in a step make its direction a matter of luck. */
enum { STEP_LEAST = 4 };
/* A figure shown so often makes the loop wait for the card. */
enum { OFTEN = 5 };

/* ---- what the file says ---- */

/* The text of a setting that counts for a PyTorch trainer: the file's, or its framework's default (*whose:
 * said in the file NULL, else whose it is). NULL = neither is known. */
static const char *text_of(const stk_why_evidence *e, const char *setting, const char **whose)
{
    const char *path;
    int exists = 0;
    stoke_yaml_value value;
    *whose = NULL;
    if (e->yaml && !stoke_config_find(e->yaml, setting, NULL, &path, &exists, NULL) && exists)
        return stoke_yaml_get(e->yaml, path, &value) ? value.text : NULL;
    const char *otherwise = e->yaml ? stk_setting_default(e->config.framework, setting) : NULL;
    if (otherwise) *whose = stk_whose_default(e->config.framework, setting);
    return otherwise;
}

/* ---- settings that cost time ---- */

/* A setting that is not as it should be: what it means, how much of the trouble it is as a rule, and why it
 * is wrong by itself. */
typedef enum settings_rule {
    RULE_SWITCH, /* it is off: else only the rules of optimize tell */
    RULE_NUMBER, /* these alone tell */
    RULE_WORKERS,
    RULE_PRECISION,
    RULE_PINNED,
    RULE_PERSISTENT,
    RULE_LOG,
    RULE_CLIPPING
} settings_rule;

static const struct {
    const char *setting, *cause;
    double weight;
    settings_rule rule;
    const char *why;
} meanings[] = {
    { "num_workers", "the number of workers does not suit the cores", 0.55, RULE_WORKERS,
      "the training makes every batch itself, and the card waits meanwhile" },
    { "gpu_augmentation", "the processor augments, not the card", 0.45, RULE_SWITCH, "" },
    { "mixed_precision", "the card computes with numbers of 32 bits", 0.4, RULE_PRECISION,
      "mixed precision is off: cards since Volta compute 16 bits several times as fast" },
    { "log_every", "the loop waits for the loss at almost every step", 0.35, RULE_LOG,
      "to show a figure the loop waits until the card has computed it" },
    { "pin_memory", "batches lie where the card cannot copy them from by itself", 0.3, RULE_PINNED,
      "copies to the card wait for the processor" },
    { "device_prefetch", "copies do not run while the card computes", 0.32, RULE_SWITCH, "" },
    { "non_blocking", "the loop waits for every copy", 0.3, RULE_SWITCH, "" },
    { "grad_clip", "large gradients are not clipped", 0.3, RULE_CLIPPING,
      "one odd batch can throw the weights far off" },
    { "persistent_workers", "workers are started again at every epoch", 0.25, RULE_PERSISTENT,
      "every epoch begins with processes that start and read nothing yet" },
    { "batch_size", "the batch is small for the card", 0.2, RULE_NUMBER, "" },
    { "prefetch_factor", "few batches are made ahead", 0.15, RULE_NUMBER, "" },
    { "compile", "small kernels are not fused", 0.1, RULE_SWITCH, "" },
};

/* 1: wrong by itself; 0: right; -1: the file alone does not tell. `text` is the setting's, or NULL; `why` has
 * the reason for 1, which is another one where there are too many workers. */
static int judge(const stk_why_evidence *e, settings_rule rule, const char *text, char why[160])
{
    const stk_run_config *config = &e->config;
    const stoke_figure cores = stk_cores(&e->here), capability = e->here.gpu.compute_capability;
    switch (rule) {
    case RULE_SWITCH: return text ? stk_is_off(text) : -1;
    case RULE_NUMBER: return text ? 0 : -1;
    case RULE_PRECISION:
        return config->mixed_precision != 1 && !(capability.source && capability.value < STK_MIXED_SINCE);
    case RULE_PINNED: return config->pin_memory != 1;
    case RULE_PERSISTENT:
        if (stk_run_config_no_workers(config) || config->epochs == 1) return -1;
        return config->persistent_workers != 1;
    case RULE_LOG: return config->log_every < 0 ? -1 : config->log_every >= 1 && config->log_every < OFTEN;
    case RULE_CLIPPING: return !text || stk_is_off(text);
    case RULE_WORKERS: break;
    }
    if (*config->workers_said) return -1;
    if (config->workers < 1) return 1;
    if (!cores.source) return -1;
    const uint32_t ranks = (uint32_t)config->ranks, all = (uint32_t)cores.value;
    const uint32_t most = stk_decide_workers_most(all, ranks, stk_slow_files(&e->here));
    snprintf(why, 160, "%" PRIu32 " core%s: %" PRIu32 " usual, up to %" PRIu32, all, all == 1 ? "" : "s",
             stk_decide_workers(all, ranks), most);
    return config->workers > (int64_t)most;
}

/* What optimize leaves to the user: the section is handed to a class of theirs, which may not take the key.
 */
static int is_of_class(const stk_why_evidence *e, const char *setting)
{
    const char *path;
    int exists = 0;
    return e->yaml && !stoke_config_find(e->yaml, setting, NULL, &path, &exists, NULL) && !exists &&
           stoke_config_of_class(e->yaml, setting, path);
}

static void one_setting(stoke_answer *answer, const stk_why_evidence *e, size_t m)
{
    const char *setting = meanings[m].setting, *whose, *text = text_of(e, setting, &whose);
    const settings_rule rule = meanings[m].rule;
    char why[160], otherwise[80] = "";
    STK_SAY(why, "%s", meanings[m].why);
    stoke_change c;
    int changes = 0;
    for (size_t i = 0; !changes && e->plan && stoke_optimization_change(e->plan, i, &c); i++)
        changes = !strcmp(c.setting, setting);
    /* The plan was given this machine's cores: where they are from is known here. */
    const int of_cores =
        changes && rule == RULE_WORKERS && !e->here.cores_given && stk_cores(&e->here).source;
    const int source = of_cores ? stk_cores(&e->here).source : changes ? c.source : STOKE_SOURCE_NA;
    const int wrong = judge(e, rule, text, why);
    /* On cards before Volta it saves memory: no cause of lost time. */
    if (rule == RULE_PRECISION && !wrong) changes = 0;
    if (!changes && wrong < 0) return;
    if (!changes && rule == RULE_NUMBER && !(e->plan && stk_has_card(&e->here)))
        return; /* nobody judged it */
    const int none = rule == RULE_WORKERS && stk_run_config_no_workers(&e->config);
    const char *cause = none ? "no workers make batches" : meanings[m].cause;
    const stk_preflight_command remedy =
        !changes && is_of_class(e, setting)
            ? STK_REMEDY("add %s to your class where it has none, and set it in %s", setting,
                         e->config.config)
            : stk_optimize_command(&e->config, &e->here);
    if (changes) {
        const char *because = wrong == 1 && *why ? why : c.why;
        stk_reason(answer, 1, meanings[m].weight, cause, remedy.text,
                   "%.100s: %.60s%s%.60s, better %.40s [%.16s]%s%.150s", e->config.config, c.path,
                   *c.from ? " is " : " is not there", c.from, c.to, stoke_source_name(source),
                   *because ? ": " : "", because);
        return;
    }
    if (whose) STK_SAY(otherwise, ", so %.30s by %s default", text, whose);
    stk_reason(answer, wrong == 1, meanings[m].weight, cause, remedy.text, "%.200s: %s%s%.60s%s%s%s",
               e->config.config, setting, text && !whose ? " is " : " is not there",
               text && !whose ? text : "", otherwise, wrong == 1 ? ": " : "", wrong == 1 ? why : "");
}

void stk_reason_settings(stoke_answer *answer, const stk_why_evidence *e, const char *const *settings)
{
    if (!e->has_config || e->config.engine != STOKE_ENGINE_TORCH) return;
    for (; *settings; settings++)
        for (size_t m = 0; m < sizeof meanings / sizeof *meanings; m++)
            if (!strcmp(meanings[m].setting, *settings)) one_setting(answer, e, m);
}

/* ---- settings that make a training unstable ---- */

static void high_rate(stoke_answer *a, const stk_why_evidence *e)
{
    const int sgd = e->config.train.optimizer == STOKE_OPTIMIZER_SGD;
    const double most = sgd ? SGD_MOST : ADAM_MOST;
    double lr = e->config.train.lr;
    const char *whose, *text = text_of(e, "learning_rate", &whose);
    if (e->config.engine != STOKE_ENGINE_NATIVE && !(text && stk_parse_real(text, &lr))) return;
    if (!(lr > 0)) return;
    const stk_preflight_command remedy =
        e->config.engine == STOKE_ENGINE_NATIVE
            ? STK_REMEDY("stoke find-lr --config %s%s", e->config.config,
                         e->config.has_data ? "" : " --data DIR")
            : STK_REMEDY("set the learning rate to %s in %s, or a tenth of what it is",
                         sgd ? "0.01" : "1.0e-4", e->config.config);
    stk_reason(a, lr > most * 1.0001, 0.6, "the learning rate is high", remedy.text,
               "%.300s: %.2g; usual for %s: %s [table]", e->config.config, lr, sgd ? "SGD" : "Adam and AdamW",
               sgd ? "0.01 to 0.1" : "6e-5 (pretrained) to 1e-3");
}

/* Whether the file speaks of a warm-up: any key of the name with a value, or a schedule that has one. */
static int warms_up(const stk_why_evidence *e)
{
    const char *path;
    stoke_yaml_value value;
    if (e->config.engine == STOKE_ENGINE_NATIVE) return e->config.train.warmup > 0;
    for (size_t i = 0; e->yaml && stoke_yaml_at(e->yaml, i, &path, &value); i++) {
        const char *key = stk_last_key(path);
        if ((strcasestr(key, "warmup") || strcasestr(key, "warm_up")) && !stk_is_off(value.text)) return 1;
        if (strcasestr(value.text, "warmup") || strcasestr(value.text, "onecycle")) return 1;
    }
    return 0;
}

static void no_warm_up(stoke_answer *a, const stk_why_evidence *e)
{
    const int warm = warms_up(e);
    const stk_preflight_command remedy =
        e->config.engine == STOKE_ENGINE_NATIVE
            ? stk_with(stk_train_again(e), " --warmup 0.1")
            : STK_REMEDY("let it rise over the first 5 to 10 %% of the steps, where your trainer can: "
                         "warmup in %s",
                         e->config.config);
    stk_reason(a, !warm, 0.25, "the learning rate begins at its height", remedy.text, "%.300s: %s",
               e->config.config, warm ? "there is a warm-up" : "no warm-up is there");
}

static void not_clipped(stoke_answer *a, const stk_why_evidence *e)
{
    static const char *const clip[] = { "grad_clip", NULL };
    if (e->config.engine != STOKE_ENGINE_NATIVE) {
        stk_reason_settings(a, e, clip);
        return;
    }
    const double norm = e->config.train.clip_norm;
    stk_reason(a, norm <= 0, 0.3, "large gradients are not clipped", STK_AGAIN(e, " --clip-norm 1"),
               "%.300s: clip_norm is %g", e->config.config, norm);
}

static void few_pictures(stoke_answer *a, const stk_why_evidence *e)
{
    const int64_t times = e->config.accumulate > 0 ? e->config.accumulate : 1;
    if (e->config.batch < 1) return;
    const int few = e->config.batch < STEP_LEAST && e->config.batch * times < STEP_LEAST;
    const int64_t wanted = (2 * STEP_LEAST + e->config.batch - 1) / e->config.batch;
    const stk_preflight_command remedy =
        e->config.engine == STOKE_ENGINE_NATIVE
            ? stk_with(stk_train_again(e), " --accumulate %" PRId64, wanted)
            : STK_REMEDY("add up gradients of %" PRId64 " batches: gradient accumulation in %s", wanted,
                         e->config.config);
    stk_reason(a, few, 0.28, "a step sees too few pictures to go by", remedy.text,
               "%.300s: batch %" PRId64 " x accumulation %" PRId64, e->config.config, e->config.batch, times);
}

void stk_why_settings(stoke_answer *a, const stk_why_evidence *e)
{
    if (!e->has_config) return;
    high_rate(a, e);
    not_clipped(a, e);
    no_warm_up(a, e);
    few_pictures(a, e);
}
