/* SPDX-License-Identifier: Apache-2.0
 *
 * From what people write to what our options take: ranges, tuples, quoted numbers, names of classes of torch.
 * What is not understood is said to be so, and never replaced by a guess.
 */
#include "src/settings/keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/number.h"
#include "src/base/option_table.h"
#include "src/base/words.h"

int stk_truth(const char *text)
{
    if (!text || !*text || stk_is_one_of_any_case(text, "false no off 0 none null ~")) return 0;
    return stk_is_one_of_any_case(text, "true yes on 1") ? 1 : -1;
}

static stk_value_meant say(char out[STK_MEANING], const char *text)
{
    snprintf(out, STK_MEANING, "%s", text);
    return strlen(text) < STK_MEANING ? STK_MEANT : STK_MEANT_UNKNOWN;
}

static int is_within(const char *text, const char *word)
{
    return strcasestr(text, word) != NULL;
}

/* ---- numbers ---- */

/* 16-32: two whole numbers. */
static int is_range(const char *text, int64_t *low)
{
    char first[32];
    int64_t high;
    const char *dash = strchr(text, '-');
    size_t n = dash ? (size_t)(dash - text) : 0;
    if (!n || n >= sizeof first) return 0;
    memcpy(first, text, n);
    first[n] = 0;
    while (n && first[n - 1] == ' ') first[--n] = 0;
    return stk_parse_int(first, low) && stk_parse_int(dash + 1 + strspn(dash + 1, " "), &high) &&
           high >= *low;
}

static stk_value_meant read_whole(const char *text, char out[STK_MEANING], char remark[160])
{
    int64_t whole;
    double real;
    if (!strcasecmp(text, "auto")) return say(out, "auto");
    if (is_range(text, &whole)) {
        snprintf(out, STK_MEANING, "%lld", (long long)whole);
        snprintf(remark, 160, "is a range: %lld is taken", (long long)whole);
        return STK_MEANT_ABOUT;
    }
    if (!stk_parse_int(text, &whole)) {
        if (!stk_parse_real(text, &real) || !(real > -1e18 && real < 1e18) || real != (double)(int64_t)real)
            return STK_MEANT_UNKNOWN;
        whole = (int64_t)real;
    }
    if (whole < 0) return STK_MEANT_NOTHING; /* max_steps: -1 */
    snprintf(out, STK_MEANING, "%lld", (long long)whole);
    return STK_MEANT;
}

static stk_value_meant read_real(const char *text, char out[STK_MEANING])
{
    double real;
    return stk_parse_real(text, &real) ? say(out, text) : STK_MEANT_UNKNOWN;
}

/* "288", "288x320", "(288, 320)", and the same as a list, which comes as "288,320"; a third number is that of
 * channels. */
static stk_value_meant read_size(const char *text, char out[STK_MEANING])
{
    unsigned side[3] = { 0 };
    int n = 0;
    const char *p = text + strspn(text, "([ ");
    while (n < 3 && isdigit((unsigned char)*p)) {
        int used = 0;
        if (sscanf(p, "%6u%n", &side[n], &used) != 1) return STK_MEANT_UNKNOWN;
        n++;
        p += used;
        p += strspn(p, " ");
        if (*p != 'x' && *p != 'X' && *p != ',') break;
        p += 1 + strspn(p + 1, " ");
    }
    if (!n || p[strspn(p, ")] ")]) return STK_MEANT_UNKNOWN;
    if (n == 1) side[1] = side[0];
    const int channels_first = n == 3 && side[0] <= 4;
    snprintf(out, STK_MEANING, "%ux%u", side[channels_first], side[channels_first + 1]);
    return STK_MEANT;
}

/* ---- words ---- */

static stk_value_meant read_optimizer(const char *text, char out[STK_MEANING], char remark[160])
{
    const char *dot = strrchr(text, '.');
    if (dot) text = dot + 1;
    if (!strncasecmp(text, "adamw", 5)) return say(out, "adamw");
    if (!strncasecmp(text, "sgd", 3)) return say(out, "sgd");
    if (strcasecmp(text, "adam") != 0) return STK_MEANT_UNKNOWN;
    snprintf(remark, 160, "is trained as adamw, whose weight decay is apart from the gradient");
    say(out, "adamw");
    return STK_MEANT_ABOUT;
}

static stk_value_meant read_schedule(const char *text, char out[STK_MEANING])
{
    if (stk_is_one_of_any_case(text, "none false no off 0")) return say(out, "constant");
    if (stk_truth(text) == 1) return STK_MEANT_NOTHING;
    if (is_within(text, "restart")) return STK_MEANT_UNKNOWN;
    if (is_within(text, "cosine")) return say(out, "cosine");
    if (is_within(text, "poly") || is_within(text, "linear")) return say(out, "poly");
    return is_within(text, "constant") ? say(out, "constant") : STK_MEANT_UNKNOWN;
}

static stk_value_meant read_loss(const char *text, char out[STK_MEANING])
{
    const int dice = is_within(text, "dice"), binary = is_within(text, "bce") || is_within(text, "binary");
    const int entropy = is_within(text, "cross") || is_within(text, "ce_") || is_within(text, "_ce") ||
                        is_within(text, "ce+") || is_within(text, "+ce") || is_within(text, "DiceCE") ||
                        !strcasecmp(text, "ce");
    if (binary) return STK_MEANT_UNKNOWN;
    if (!strcasecmp(text, "l1") || is_within(text, "L1Loss") || !strcasecmp(text, "mae"))
        return say(out, "l1");
    if (!strcasecmp(text, "mse") || is_within(text, "MSELoss") || !strcasecmp(text, "l2"))
        return say(out, "mse");
    if (is_within(text, "charbonnier")) return say(out, "charbonnier");
    if (is_within(text, "focal")) return say(out, "focal");
    if (dice) return say(out, entropy ? "ce_dice" : "dice");
    return entropy ? say(out, "ce") : STK_MEANT_UNKNOWN;
}

static stk_value_meant read_switch(const char *text, const char *on, const char *off, char out[STK_MEANING])
{
    const int truth = stk_truth(text);
    if (truth < 0) return STK_MEANT_UNKNOWN;
    const char *word = truth ? on : off;
    return word ? say(out, word) : STK_MEANT_NOTHING;
}

stk_value_meant stk_meaning(stk_key_reading reading, const char *text, char out[STK_MEANING],
                            char remark[160])
{
    out[0] = remark[0] = 0;
    if (!text) return reading == STK_READ_NORM ? say(out, "0") : STK_MEANT_NOTHING;
    switch (reading) {
    case STK_READ_WHOLE: return read_whole(text, out, remark);
    case STK_READ_REAL:
    case STK_READ_WARMUP: return read_real(text, out);
    case STK_READ_NORM: return stk_truth(text) == 0 ? say(out, "0") : read_real(text, out);
    case STK_READ_TRUTH: return read_switch(text, "true", "false", out);
    case STK_READ_SIZE: return read_size(text, out);
    case STK_READ_TEXT:
    case STK_READ_PATH: return say(out, text);
    case STK_READ_ORDER: return read_switch(text, "shuffle", "sequential", out);
    case STK_READ_OPTIMIZER: return read_optimizer(text, out, remark);
    case STK_READ_SCHEDULE: return read_schedule(text, out);
    case STK_READ_LOSS: return read_loss(text, out);
    case STK_READ_PLACEMENT: return read_switch(text, "device", "host", out);
    case STK_READ_AUGMENT: return stk_truth(text) < 0 ? say(out, text) : read_switch(text, NULL, "none", out);
    case STK_READ_NOT:
    case STK_READ_PRECISION:
    case STK_READ_MODEL: break;
    }
    return STK_MEANT_UNKNOWN;
}

/* ---- by several keys ---- */

static const char *precision_word(const char *text)
{
    static const char *const words[] = { "fp32", "fp16", "bf16" };
    const char *meant = stk_option_word("precision", text);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(meant, words[i])) return words[i];
    return NULL;
}

/* on or off, or the type as Lightning and Accelerate have it: bf16-mixed, fp16. PyTorch's autocast is fp16
 * unless told. */
const char *stk_precision_said(const stoke_yaml *yaml, const char *const *map, uint32_t *node)
{
    char room[64], type_room[64];
    if (stk_setting_node(yaml, stk_setting_named("mixed_precision"), map, node, NULL)) return NULL;
    const char *type = stk_setting_text(yaml, "amp_dtype", map, type_room, sizeof type_room);
    if (*node == STK_YAML_NONE) return "";
    const char *text = stk_value_text(yaml, *node, room, sizeof room), *key = stk_key_of(yaml, *node);
    const int truth = stk_truth(text);
    const char *word = text ? precision_word(text) : NULL;
    const int is_number = key && !strcasecmp(key, "precision"); /* precision: 16 is no truth */
    if (word && (truth < 0 || is_number)) return word;
    if (truth < 0) return NULL;
    if (!truth) return is_number && text ? NULL : "fp32";
    if (key && strcasestr(key, "bf16")) return "bf16";
    return type && precision_word(type) ? precision_word(type) : "fp16";
}

const char *stk_model_said(const stoke_yaml *yaml, const char *const *map, uint32_t *node)
{
    uint32_t found[STK_CANDIDATES];
    char room[64];
    const stk_setting *s = stk_setting_named("model");
    *node = STK_YAML_NONE;
    const size_t n = stk_candidates(yaml, s, found);
    for (size_t i = 0; i < n; i++) {
        const char *text = stk_value_text(yaml, found[i], room, sizeof room);
        if (!text || stk_truth(text) >= 0 || yaml->nodes[found[i]].computed) continue;
        const char *word = stk_network_word(text);
        if (word || *node == STK_YAML_NONE) *node = found[i];
        if (word) return word;
    }
    const char *channels = stk_setting_text(yaml, "base_channels", map, room, sizeof room);
    if (*node != STK_YAML_NONE || !channels) return NULL;
    stk_setting_node(yaml, stk_setting_named("base_channels"), map, node, NULL);
    return "resnet";
}
