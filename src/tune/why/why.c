/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke_why from end to end, and what the four answers share.
 */
#include "src/tune/why/why.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

const char *stoke_trouble_name(int trouble)
{
    static const char *const names[] = { "oom", "slow", "unstable", "loading" };
    return trouble >= 0 && trouble <= STOKE_TROUBLE_LOADING ? names[trouble] : "unknown";
}

stoke_why_params stoke_why_defaults(void)
{
    return (stoke_why_params){ .struct_size = sizeof(stoke_why_params) };
}

/* ---- reasons ---- */

stoke_reason *stk_reason_add(stoke_answer *answer, int found, double weight)
{
    /* Every cause there is stands in one of four files, and the tests count them. */
    if (answer->n == STK_REASONS) answer->n--;
    answer->weight[answer->n] = weight;
    stoke_reason *reason = &answer->reason[answer->n++];
    *reason = (stoke_reason){ .found = found };
    return reason;
}

void stk_reason_line(stoke_answer *answer, const stk_why_evidence *e, const char *key, const char *cause,
                     double weight)
{
    for (size_t i = 0; i < e->list.n; i++) {
        const stoke_preflight_line *line = &e->list.line[i];
        if (strcmp(line->key, key) != 0) continue;
        const int seen = line->verdict != STOKE_VERDICT_NA, wrong = line->verdict > STOKE_VERDICT_NA;
        stoke_reason *r = stk_reason_add(answer, seen ? wrong : -1, weight);
        STK_SAY(r->cause, "%s", cause);
        STK_SAY(r->evidence, "%.60s: %.380s [%.16s]", line->title, line->figure,
                stoke_source_name(line->source));
        STK_SAY(r->remedy, "%s", wrong || !seen ? line->fix : "");
    }
}

stk_preflight_command stk_train_again(const stk_why_evidence *e)
{
    stk_preflight_command command;
    if (e->has_config)
        STK_SAY(command.text, "stoke train --config %s%s", e->config.config,
                e->config.has_data ? "" : " --data DIR");
    else if (e->state != STK_RUN_NONE)
        STK_SAY(command.text, "stoke train --resume %s", e->run);
    else
        STK_SAY(command.text, "stoke train DIR");
    return command;
}

stk_preflight_command stk_go_on(const stk_why_evidence *e)
{
    stk_preflight_command command = stk_train_again(e);
    if (e->state != STK_RUN_ENDED && e->state != STK_RUN_NONE)
        STK_SAY(command.text, "stoke train --resume %s", e->run);
    return command;
}

/* ---- the answer ---- */

/* What was found comes first, the heaviest of it at the top; then what cannot be told; then what is not
 * there. Few enough to sort by hand, and so that equals keep their order. */
static void sort(stoke_answer *a)
{
    static const int place[] = { 1, 2, 0 }; /* of found -1, 0, 1 */
    for (size_t i = 1; i < a->n; i++)
        for (size_t j = i; j; j--) {
            const int before = place[a->reason[j - 1].found + 1], after = place[a->reason[j].found + 1];
            if (before < after || (before == after && (before || a->weight[j - 1] >= a->weight[j]))) break;
            const stoke_reason reason = a->reason[j];
            const double weight = a->weight[j];
            a->reason[j] = a->reason[j - 1], a->weight[j] = a->weight[j - 1];
            a->reason[j - 1] = reason, a->weight[j - 1] = weight;
        }
}

/* Said where nothing was found, since a person then wants to know what else to give. */
static const char *what_else(const stk_why_evidence *e, int trouble)
{
    if (e->state == STK_RUN_NONE && !e->has_config)
        return "; give a run (--run RUN) or a settings file (--config FILE): this is the machine alone";
    if (e->state == STK_RUN_NONE && trouble == STOKE_TROUBLE_UNSTABLE)
        return "; only a run tells (--run RUN)";
    if (e->state == STK_RUN_NONE) return "; a run (--run RUN) tells more";
    return "";
}

static void sum_up(stoke_answer *a, const stk_why_evidence *e, int trouble)
{
    size_t found = 0, untold = 0;
    for (size_t i = 0; i < a->n; i++) found += a->reason[i].found == 1, untold += a->reason[i].found < 0;
    if (!found) {
        if (trouble == STOKE_TROUBLE_OOM && *a->depends)
            STK_SAY(a->text, "%s", a->depends);
        else if (trouble == STOKE_TROUBLE_LOADING && stk_waited(e) >= 0)
            STK_SAY(a->text, "They do not: steps waited for them %.1f %% of the time", 100 * stk_waited(e));
        else
            STK_SAY(a->text, "%s%s",
                    untold < a->n   ? "Of what was looked for nothing is there"
                    : e->has_config ? "Nothing in the settings says so"
                                    : "Nothing can be told from here",
                    what_else(e, trouble));
        return;
    }
    char more[64] = "";
    if (found > 1) STK_SAY(more, " (and %zu more)", found - 1);
    STK_SAY(a->text, "%s%s", a->reason[0].cause, more);
    a->text[0] = (char)toupper((unsigned char)a->text[0]);
}

int stoke_why(stoke_answer **out, const stoke_why_params *params, stoke_error *err)
{
    static void (*const look[])(stoke_answer *, const stk_why_evidence *) = { stk_why_oom, stk_why_slow,
                                                                              stk_why_unstable,
                                                                              stk_why_loading };
    *out = NULL;
    if (!params || params->struct_size != sizeof *params || params->trouble < 0 ||
        params->trouble > STOKE_TROUBLE_LOADING)
        return stk_fail(err, STOKE_E_INVALID, "the trouble is one of oom, slow, unstable and loading");
    stoke_answer *answer = stk_calloc(1, sizeof *answer);
    stk_why_evidence *e = stk_calloc(1, sizeof *e); /* 40 KB with a card's facts and the list */
    int r = answer && e ? stk_evidence_gather(e, params, err)
                        : stk_fail(err, STOKE_E_NOMEM, "no memory for an answer");
    if (!r) {
        look[params->trouble](answer, e);
        sort(answer);
        sum_up(answer, e, params->trouble);
        *out = answer;
    } else {
        stk_free(answer);
    }
    if (e) stk_evidence_free(e);
    stk_free(e);
    return r;
}

void stoke_answer_free(stoke_answer **answer)
{
    if (!answer) return;
    stk_free(*answer);
    *answer = NULL;
}

const char *stoke_answer_text(const stoke_answer *answer)
{
    return answer->text;
}

int stoke_answer_reason(const stoke_answer *answer, size_t index, stoke_reason *reason)
{
    if (index >= answer->n) return 0;
    *reason = answer->reason[index];
    return 1;
}
