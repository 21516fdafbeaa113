/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke_optimize: opens the file, asks for advice, lets the rules decide; and writes the result. Nothing is
 * written before stoke_optimization_write.
 */
#include "src/tune/optimize/optimize.h"

#include <stdio.h>
#include <string.h>

#include <errno.h>
#include <sys/stat.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/settings/keys.h"
#include "src/tune/advice/advice.h"
#include <stoke/tools/machine.h>

stoke_optimize_params stoke_optimize_defaults(void)
{
    return (stoke_optimize_params){ .struct_size = sizeof(stoke_optimize_params) };
}

/* configs/x_config.yaml -> configs/x_gpu_optimized.yaml; x.yml -> x_gpu_optimized.yml. By trials:
 * x_gpu_optimized.yaml -> x_gpu_optimized_optimized.yaml. */
static char *target_of(const char *config, int measured)
{
    static const char dropped[] = "_config";
    const char *added = measured ? "_optimized" : "_gpu_optimized";
    const size_t n = strlen(config);
    const char *slash = strrchr(config, '/'), *name = slash ? slash + 1 : config, *dot = strrchr(name, '.');
    const char *ending = dot && dot != name ? dot : ".yaml";
    size_t stem = dot && dot != name ? (size_t)(dot - config) : n;
    const size_t d = sizeof dropped - 1;
    if (!measured && stem - (size_t)(name - config) > d && !memcmp(config + stem - d, dropped, d)) stem -= d;
    char *target = stk_alloc(stem + strlen(added) + strlen(ending) + 1);
    if (!target) return NULL;
    memcpy(target, config, stem);
    strcpy(target + stem, added);
    strcat(target, ending);
    return target;
}

/* The network that the file names: what the estimate is asked about. */
static int read_network(stoke_optimization *o, stoke_error *err)
{
    stoke_preflight_params ask = stoke_preflight_defaults();
    stk_run_config config;
    o->p = stoke_estimate_defaults();
    o->p.precision = STOKE_PRECISION_FP32;
    o->p.height = o->p.width = 0; /* usual, unless said */
    if (o->dialect == STOKE_DIALECT_OWN) return STOKE_OK;
    ask.config = o->params.config;
    ask.map = o->params.map;
    const int r = stk_run_config_read(&config, &ask, err);
    if (!r) {
        stk_run_config_see_size(&config);
        o->size = config.size_seen ? STK_SIZE_SEEN : config.height > 0 ? STK_SIZE_SAID : STK_SIZE_UNKNOWN;
        /* Many networks have base_channels; under another name it takes both to be the small one. */
        const int small = stk_is_resnet(config.model);
        const int other = small && *config.model_said && !stk_is_resnet(config.model_said) &&
                          !(config.base_channels > 0 && config.num_blocks > 0);
        snprintf(o->model, sizeof o->model, "%s", other ? "" : config.model);
        if (!*o->model) snprintf(o->network, sizeof o->network, "%s", config.model_said);
        config.batch = STK_UNSAID; /* it is what is looked for */
        o->p.model = config.model; /* until complete_network */
        o->classes_assumed = (stk_run_config_take(&o->p, &config) & STOKE_ASSUMED_CLASSES) != 0;
    }
    stk_run_config_free(&config);
    return r;
}

/* What the file leaves open is what is usual. */
static void complete_network(stoke_optimization *o)
{
    const int small = stk_is_resnet(o->model);
    const stoke_recommendation *model = stk_optimize_advised(o, "model");
    const stoke_recommendation *size = stk_optimize_advised(o, small ? "patch_size" : "image_size");
    unsigned side = 0;
    o->p.model = *o->model ? o->model : model ? model->value : "b0";
    if (size) sscanf(size->value, "%u", &side);
    if (!o->p.height) o->p.height = side ? side : 288;
    if (!o->p.width) o->p.width = o->p.height;
}

/* Values that stand there twice, of which one section's counts. */
static void say_outvoted(stoke_optimization *o)
{
    static const char *const settings[] = { "batch_size", "num_workers", "pin_memory" };
    uint32_t found[STK_CANDIDATES], others[STK_CANDIDATES];
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const stk_setting *s = stk_setting_named(settings[i]);
        if (stk_candidates(o->yaml, s, found) != 1) continue;
        const size_t n = stk_outvoted(o->yaml, s, others);
        for (size_t j = 0; j < n; j++)
            stk_remark(&o->remarks, "%s counts and is judged; %s is left", o->yaml->nodes[found[0]].path,
                       o->yaml->nodes[others[j]].path);
    }
}

static int decide(stoke_optimization *o, stoke_error *err)
{
    stoke_recommend_params ask = stoke_recommend_defaults();
    char said[32];
    int r = stoke_yaml_open_checked(&o->yaml, o->params.config, err);
    if (r) return r;
    o->dialect = stoke_config_dialect(o->yaml);
    stk_optimize_recognize(o);
    /* Whose cores count: those given, or those here unless the card is elsewhere. The processes of the cards
     * that the file asks for share them. */
    o->cores_source = o->params.cores       ? STOKE_SOURCE_GIVEN
                      : o->params.elsewhere ? STOKE_SOURCE_NA
                                            : STOKE_SOURCE_MEASURED;
    if (!o->params.cores) o->params.cores = stoke_machine_cores().usable;
    const int64_t cards = stk_cards_asked(o->yaml, said);
    if (o->params.ranks < 2) o->params.ranks = cards > 0 ? (uint32_t)cards : 1;
    r = read_network(o, err);
    ask.gpu = o->params.gpu;
    ask.memory = o->params.memory;
    ask.some_card = o->place == STK_ON_SOME_CARD;
    ask.task = stk_is_resnet(o->model) ? "resnet" : "segformer";
    ask.cores = o->params.cores;
    ask.cores_source = o->cores_source;
    ask.ranks = o->params.ranks;
    if (o->params.host_memory) ask.host_memory = o->params.host_memory;
    if (!r) r = stoke_recommend(&o->advice, &ask, err);
    if (r) return r;
    complete_network(o);
    if (o->place == STK_ON_CARD)
        stk_remark(&o->remarks, "the values are those for %s, all of its memory but 1 GiB",
                   o->advice.subject);
    else if (o->place == STK_ON_SOME_CARD)
        stk_remark(&o->remarks, "the values are those for any card: none is seen or named here");
    else
        stk_remark(&o->remarks, "the values are those for the processor");
    say_outvoted(o);
    r = stk_optimize_precision(o, err); /* memory depends on it, and on the size of the network */
    if (!r) r = stk_optimize_model(o, err);
    if (!r) r = stk_optimize_batch(o, err);
    if (!r) r = stk_optimize_loading(o, err);
    return r ? r : stk_optimize_training(o, err);
}

int stoke_optimize(stoke_optimization **out, const stoke_optimize_params *params, stoke_error *err)
{
    *out = NULL;
    if (params->struct_size != sizeof *params || !params->config || !*params->config)
        return stk_fail(err, STOKE_E_INVALID, "no settings file is named; give one with --config FILE");
    stoke_optimization *o = stk_calloc(1, sizeof *o);
    if (!o) return stk_fail(err, STOKE_E_NOMEM, "out of memory");
    o->params = *params;
    o->target = target_of(params->config, params->by_trials || params->measured_batch);
    int r = o->target ? decide(o, err) : stk_fail(err, STOKE_E_NOMEM, "out of memory");
    /* The caller's strings are borrowed for this call only. */
    o->params.config = o->params.gpu = o->params.measured_why = NULL;
    o->params.map = NULL;
    if (r) stoke_optimization_destroy(&o);
    *out = o;
    return r;
}

void stoke_optimization_destroy(stoke_optimization **optimization)
{
    stoke_optimization *o = optimization ? *optimization : NULL;
    if (!o) return;
    stoke_yaml_close(&o->yaml);
    stk_remarks_free(&o->remarks);
    stk_free(o->target);
    stk_free(o);
    *optimization = NULL;
}

int stoke_optimization_change(const stoke_optimization *optimization, size_t index, stoke_change *change)
{
    if (index >= optimization->n_changes) return 0;
    *change = optimization->changes[index];
    return 1;
}

const char *stoke_optimization_remark(const stoke_optimization *optimization, size_t index)
{
    return stk_remark_at(&optimization->remarks, index);
}

const char *stoke_optimization_target(const stoke_optimization *optimization)
{
    return optimization->target;
}

/* ---- the result ---- */

/* New keys that somebody's own code reads get one comment line above them: they count only where that code
 * reads them. A comment changes no value, which is proved by reading the result again. */
static const char MARK[] = "# added by stoke optimize: your trainer must read these";

static size_t parent_length(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? (size_t)(dot - path) : 0;
}

/* Whether an earlier change is new in the same mapping: the comment stands above that one. */
static int is_marked(const stoke_optimization *o, size_t index)
{
    const char *path = o->changes[index].path;
    const size_t n = parent_length(path);
    for (size_t i = 0; i < index; i++)
        if (!*o->changes[i].from && parent_length(o->changes[i].path) == n &&
            !strncmp(o->changes[i].path, path, n))
            return 1;
    return 0;
}

/* The line of a new key in the text with all changes; NULL: the key does not begin its line (braces). */
static const char *line_of_key(const stoke_yaml *result, const char *text, const char *path)
{
    stoke_yaml_value value;
    const char *key = stk_last_key(path);
    if (!stoke_yaml_get(result, path, &value)) return NULL;
    const char *line = text;
    for (uint32_t i = 1; line && i < value.line; i++) {
        line = strchr(line, '\n');
        if (line) line++;
    }
    return line && !strncmp(line + strspn(line, " "), key, strlen(key)) ? line : NULL;
}

/* A line of the comment before `at`, as far in as what follows it, with the file's own end of line. */
static char *with_comment(const char *text, const char *at)
{
    const size_t head = (size_t)(at - text), inward = strspn(at, " ");
    const char *first = strchr(text, '\n'), *end = first && first > text && first[-1] == '\r' ? "\r\n" : "\n";
    const size_t room = strlen(text) + inward + sizeof MARK + 2;
    char *out = stk_alloc(room);
    if (!out) return NULL;
    memcpy(out, text, head);
    memcpy(out + head, at, inward);
    strcpy(out + head + inward, MARK);
    strcat(out, end);
    strcat(out, at);
    return out;
}

static int same_values(const stoke_yaml *a, const stoke_yaml *b)
{
    const char *x, *y;
    stoke_yaml_value v, w;
    for (size_t i = 0;; i++) {
        const int there = stoke_yaml_at(a, i, &x, &v);
        if (there != stoke_yaml_at(b, i, &y, &w)) return 0;
        if (!there) return 1;
        if (strcmp(x, y) || strcmp(v.text, w.text)) return 0;
    }
}

/* One more comment, above this key, if it can have one. `name` tells how the text is written: YAML, JSON,
 * Python. */
static int mark(char **text, const char *name, const char *path, int *marked, stoke_error *err)
{
    stoke_yaml *before = NULL, *after = NULL;
    char *out = NULL;
    int r = stoke_yaml_parse(&before, *text, strlen(*text), name, err);
    const char *at = r ? NULL : line_of_key(before, *text, path);
    if (!r && at) {
        out = with_comment(*text, at);
        if (!out) r = stk_fail(err, STOKE_E_NOMEM, "out of memory");
    }
    if (out) r = stoke_yaml_parse(&after, out, strlen(out), name, err);
    if (out && !r && same_values(before, after)) {
        stk_free(*text);
        *text = out;
        out = NULL;
        *marked = 1;
    }
    stk_free(out);
    stoke_yaml_close(&before);
    stoke_yaml_close(&after);
    return r;
}

/* Whether a comment belongs above this change: it is new, and somebody's own code reads it. Of Lightning's
 * files that is all that is no argument of Trainer. */
static int needs_mark(const stoke_optimization *o, size_t i)
{
    const stoke_change *change = &o->changes[i];
    return !*change->from && o->framework != STOKE_FRAMEWORK_STOKE && !stk_is_of_loader(change->path) &&
           !stk_is_argument(o->framework, change->setting) && !is_marked(o, i);
}

int stoke_optimization_marked(const stoke_optimization *optimization)
{
    for (size_t i = 0; i < optimization->n_changes; i++)
        if (needs_mark(optimization, i)) return optimization->marked ? 1 : 2;
    return 0;
}

/* The file with all changes. The text is the yaml's, or for stk_free where *own. */
static int text_of(stoke_optimization *o, const char **text, size_t *bytes, char **own,
                   stoke_yaml_proof *proof, stoke_error *err)
{
    *own = NULL;
    int r = stoke_yaml_text(o->yaml, text, bytes, proof, err);
    for (size_t i = 0; !r && i < o->n_changes; i++) {
        if (!needs_mark(o, i)) continue;
        if (!*own) {
            if (!(*own = stk_alloc(*bytes + 1))) return stk_fail(err, STOKE_E_NOMEM, "out of memory");
            memcpy(*own, *text, *bytes);
            (*own)[*bytes] = 0;
        }
        r = mark(own, o->yaml->name, o->changes[i].path, &o->marked, err);
    }
    if (r || !*own) return r;
    *text = *own;
    proof->bytes_after += strlen(*own) - *bytes;
    *bytes = strlen(*own);
    return STOKE_OK;
}

int stoke_optimization_is_at(stoke_optimization *optimization, const char *path)
{
    const char *text;
    char *own = NULL;
    size_t bytes, there;
    stk_mem_buffer file = { 0 };
    stoke_yaml_proof proof;
    const int same = !text_of(optimization, &text, &bytes, &own, &proof, NULL) &&
                     !stk_file_read(path, bytes, &file, &there, NULL) && there == bytes &&
                     !memcmp(file.data, text, bytes);
    stk_buffer_free(&file);
    stk_free(own);
    return same;
}

int stoke_optimization_write(stoke_optimization *optimization, const char *path, stoke_yaml_proof *proof,
                             stoke_error *err)
{
    const char *text;
    char *own;
    size_t bytes;
    struct stat st;
    stoke_output file;
    int r = text_of(optimization, &text, &bytes, &own, proof, err);
    if (!r) r = stoke_output_open(&file, path, err);
    if (!r) {
        /* Best effort: a file system without modes refuses, and the text is what counts. */
        if (stoke_stat(path, &st) == 0 && fchmod(fileno(file.stream), st.st_mode & 07777) != 0) errno = 0;
        fwrite(text, 1, bytes, file.stream); /* commit looks at the stream's error */
        r = stoke_output_commit(&file, err);
    }
    stk_free(own);
    return r;
}
