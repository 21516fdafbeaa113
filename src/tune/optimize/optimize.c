/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke_optimize: opens the file, asks for advice, lets the rules decide. Nothing is written before
 * stoke_optimization_write.
 */
#include "src/tune/optimize/optimize.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include <stoke/machine.h>

stoke_optimize_params stoke_optimize_defaults(void)
{
    return (stoke_optimize_params){ .struct_size = sizeof(stoke_optimize_params) };
}

/* configs/x_config.yaml -> configs/x_gpu_optimized.yaml; x.yml -> x_gpu_optimized.yml. Measured:
 * x_config.yaml
 * -> x_config_optimized.yaml. The documents have both names. */
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

/* The small network of the documents is told by its own settings; everything else is a SegFormer. */
static const char *task_of(const stoke_optimization *o)
{
    static const char *const own[] = { "base_channels", "num_blocks" };
    const char *path;
    int exists;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!stoke_config_find(o->yaml, own[i], o->params.map, &path, &exists, NULL) && exists)
            return "smallnet";
    return "segformer";
}

static int decide(stoke_optimization *o, stoke_error *err)
{
    int r = stoke_yaml_open(&o->yaml, o->params.config, err);
    if (r) return r;
    if (!o->params.cores) o->params.cores = stoke_machine_cores().usable;
    if (!o->params.ranks) o->params.ranks = 1;
    o->dialect = stoke_config_dialect(o->yaml);
    stoke_recommend_params ask = stoke_recommend_defaults();
    ask.gpu = o->params.gpu;
    ask.memory = o->params.memory;
    ask.task = task_of(o);
    ask.cores = o->params.cores;
    ask.ranks = o->params.ranks;
    if (o->params.host_memory) ask.host_memory = o->params.host_memory;
    r = stoke_recommend(&o->advice, &ask, err);
    return r ? r : stk_optimize_rules(o, err);
}

int stoke_optimize(stoke_optimization **out, const stoke_optimize_params *params, stoke_error *err)
{
    *out = NULL;
    if (params->struct_size != sizeof *params || !params->config || !*params->config)
        return stk_fail(err, STOKE_E_INVALID, "no settings file is named; give one with --config FILE");
    stoke_optimization *o = stk_calloc(1, sizeof *o);
    if (!o) return stk_fail(err, STOKE_E_NOMEM, "out of memory");
    o->params = *params;
    o->target = target_of(params->config, params->measured_batch != 0);
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
    return index < optimization->n_remarks ? optimization->remarks[index] : NULL;
}

const char *stoke_optimization_target(const stoke_optimization *optimization)
{
    return optimization->target;
}

int stoke_optimization_write(stoke_optimization *optimization, const char *path, stoke_yaml_proof *proof,
                             stoke_error *err)
{
    return stoke_yaml_write(optimization->yaml, path, proof, err);
}
