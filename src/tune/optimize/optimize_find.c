/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the rules and the file: what a setting is called there, what stands there or counts where nothing
 * does, and how it is changed.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/number.h"
#include "src/base/words.h"
#include "src/tune/optimize/optimize.h"
#include "src/settings/keys.h"

/* ---- words ---- */

int stk_is_on(const char *text)
{
    return stk_truth(text) == 1;
}

int stk_is_off(const char *text)
{
    return !stk_truth(text) || !strcmp(text, "0.0");
}

const char *stk_last_key(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* ---- whose file it is ---- */

/* `device: cpu`, `accelerator: cpu`, `use_cpu: true`. */
static int is_for_processor(const stoke_yaml *yaml)
{
    const char *path;
    stoke_yaml_value value;
    for (size_t i = 0; stoke_yaml_at(yaml, i, &path, &value); i++)
        if ((stk_is_one_of_any_case(stk_last_key(path), "device accelerator") &&
             !strcasecmp(value.text, "cpu")) ||
            (stk_is_one_of_any_case(stk_last_key(path), "use_cpu no_cuda") && stk_is_on(value.text)))
            return 1;
    return 0;
}

void stk_optimize_recognize(stoke_optimization *o)
{
    const int named = (o->params.gpu && *o->params.gpu) || o->params.memory;
    o->framework = stoke_config_framework(o->yaml);
    if (o->framework == STOKE_FRAMEWORK_STOKE || (!named && is_for_processor(o->yaml)))
        o->place = STK_ON_PROCESSOR;
    else
        o->place = named ? STK_ON_CARD : STK_ON_SOME_CARD;
}

/* ---- what stands there ---- */

int stk_optimize_look(const stoke_optimization *o, const char *setting, stk_optimize_key *f, stoke_error *err)
{
    stoke_yaml_value value;
    stoke_error own = { 0 };
    *f = (stk_optimize_key){ .setting = setting, .text = "" };
    const int r = stoke_config_find(o->yaml, setting, o->params.map, &f->path, &f->exists, &own);
    f->none = r == STOKE_E_UNSUPPORTED;
    if (r) return f->none ? STOKE_OK : stk_fail_again(err, r, own.message);
    const char *otherwise = f->exists ? NULL : stk_setting_default(o->framework, setting);
    if (f->exists && stoke_yaml_get(o->yaml, f->path, &value)) f->text = value.text;
    if (otherwise) f->text = otherwise;
    f->is_number = stk_parse_int(f->text, &f->number);
    return STOKE_OK;
}

/* ---- changing ---- */

int stk_optimize_change(stoke_optimization *o, const stk_optimize_key *f, const char *to,
                        stk_optimize_reason because, stoke_error *err)
{
    stoke_error refusal = { 0 };
    if (o->n_changes == STK_CHANGES || strlen(f->path) >= sizeof o->changes[0].path)
        return stk_remark(&o->remarks, "%s is left as it is: its path is too long to show", f->setting);
    if (!f->exists && stoke_config_of_class(o->yaml, f->setting, f->path))
        return stk_remark(&o->remarks,
                          "%s is not added: its section is handed to your class, which stops at an argument "
                          "that it has not; where it has this one, wanted was %s: %s",
                          f->path, f->setting, to);
    const int r = stoke_yaml_set(o->yaml, f->path, to, &refusal);
    if (r == STOKE_E_UNSUPPORTED || r == STOKE_E_NOTFOUND)
        return stk_remark(&o->remarks, "%s; wanted was %s: %s", refusal.message, f->setting, to);
    if (r) return stk_fail_again(err, r, refusal.message);
    stoke_change *c = &o->changes[o->n_changes++];
    *c = (stoke_change){ .setting = f->setting, .source = because.source };
    snprintf(c->path, sizeof c->path, "%s", f->path);
    snprintf(c->from, sizeof c->from, "%.127s", f->exists ? *f->text ? f->text : "(nothing)" : "");
    snprintf(c->to, sizeof c->to, "%s", to);
    snprintf(c->why, sizeof c->why, "%s", because.why);
    snprintf(c->effect, sizeof c->effect, "%s", because.effect);
    return STOKE_OK;
}

int stk_optimize_right(stoke_optimization *o, const stk_optimize_key *f)
{
    if (f->exists) return stk_remark(&o->remarks, "%s: %s is right already", f->path, f->text);
    return stk_remark(&o->remarks, "%s: %s is right already: %s default", f->path, f->text,
                      stk_whose_default(o->framework, f->setting));
}

int stk_optimize_switch_on(stoke_optimization *o, const char *setting, stk_optimize_reason because,
                           stoke_error *err)
{
    stk_optimize_key f;
    const int r = stk_optimize_look(o, setting, &f, err);
    if (r || f.none) return r;
    if (stk_is_on(f.text))
        stk_optimize_right(o, &f);
    else if (f.exists && !stk_is_off(f.text))
        stk_remark(&o->remarks, "%s: %s is neither on nor off; it is left as it is", f.path, f.text);
    else
        return stk_optimize_change(o, &f, "true", because, err);
    return STOKE_OK;
}

const stoke_recommendation *stk_optimize_advised(const stoke_optimization *o, const char *key)
{
    for (size_t i = 0; i < o->advice.n; i++)
        if (!strcmp(o->advice.line[i].key, key)) return &o->advice.line[i];
    return NULL;
}
