/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that other programs have for values of ours: what Lightning, Accelerate and torch call a precision,
 * what Hugging Face and timm call a SegFormer. Read wherever an option of that name is, flag or file.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "src/base/option_table.h"

static const struct {
    const char *word, *means;
} precisions[] = {
    { "32", "fp32" },         { "32-true", "fp32" },   { "float32", "fp32" },  { "torch.float32", "fp32" },
    { "full", "fp32" },       { "16", "fp16" },        { "16-mixed", "fp16" }, { "16-true", "fp16" },
    { "fp16-mixed", "fp16" }, { "float16", "fp16" },   { "half", "fp16" },     { "torch.float16", "fp16" },
    { "bf16-mixed", "bf16" }, { "bf16-true", "bf16" }, { "bfloat16", "bf16" }, { "torch.bfloat16", "bf16" },
};

static int begins_with(const char *text, size_t length, const char *word)
{
    return length >= strlen(word) && !strncasecmp(text, word, strlen(word));
}

/* Whether what stands before "b4" says that it is a SegFormer: "nvidia/segformer-", "mit_", "". There is an
 * efficientnet-b4 too. */
static int is_segformer(const char *text, size_t length)
{
    if (!length) return 1;
    for (size_t i = 0; i < length; i++) {
        if (begins_with(text + i, length - i, "segformer")) return 1;
        const int word = (!i || !isalnum((unsigned char)text[i - 1])) &&
                         begins_with(text + i, length - i, "mit") &&
                         (length - i == 3 || !isalnum((unsigned char)text[i + 3]));
        if (word) return 1;
    }
    return 0;
}

const char *stk_network_word(const char *text)
{
    static const char *const names[] = { "b0", "b1", "b2", "b3", "b4", "b5" };
    for (const char *p = text; *p; p++) {
        const size_t before = (size_t)(p - text);
        if ((*p != 'b' && *p != 'B') || p[1] < '0' || p[1] > '5' || isalnum((unsigned char)p[2])) continue;
        if (is_segformer(text, before)) return names[p[1] - '0'];
    }
    return NULL;
}

const char *stk_option_word(const char *option, const char *value)
{
    if (!strcmp(option, "model")) {
        const char *name = stk_network_word(value);
        return name ? name : value;
    }
    for (size_t i = 0; !strcmp(option, "precision") && i < sizeof precisions / sizeof *precisions; i++)
        if (!strcasecmp(value, precisions[i].word)) return precisions[i].means;
    return value;
}
