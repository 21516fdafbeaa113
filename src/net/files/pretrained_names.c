/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor names. Files hold what transformers up to 4 called things; version 5 renamed every module, renames
 * on loading and, on saving, renames back. Both spellings are about, with and without the "segformer." in
 * front (without: a SegformerModel was saved, an encoder alone).
 */
#include <stdio.h>
#include <string.h>

#include "src/net/files/pretrained.h"

typedef struct renamed {
    const char *from, *to;
} renamed;

/* Within a block. Each ends with the point, so that no name is the beginning of another. */
static const renamed BLOCK[] = {
    { "layernorm_before.", "layer_norm_1." },
    { "layernorm_after.", "layer_norm_2." },
    { "attention.q_proj.", "attention.self.query." },
    { "attention.k_proj.", "attention.self.key." },
    { "attention.v_proj.", "attention.self.value." },
    { "attention.o_proj.", "attention.output.dense." },
    { "attention.sequence_reduction.sequence_reduction.", "attention.self.sr." },
    { "attention.sequence_reduction.layer_norm.", "attention.self.layer_norm." },
    { "mlp.fc1.", "mlp.dense1." },
    { "mlp.fc2.", "mlp.dense2." },
};

/* What follows `start`, or NULL when the text does not start so. */
static const char *after(const char *text, const char *start)
{
    const size_t n = strlen(start);
    return strncmp(text, start, n) ? NULL : text + n;
}

/* snprintf's answer: 1 when all of it fitted. */
static int fitted(int length)
{
    return length >= 0 && length < STK_NAME;
}

static int block_name(unsigned stage, unsigned block, const char *tail, char *old)
{
    const char *module = "";
    for (size_t i = 0; i < sizeof BLOCK / sizeof *BLOCK; i++) {
        const char *rest = after(tail, BLOCK[i].from);
        if (!rest) continue;
        module = BLOCK[i].to;
        tail = rest;
        break;
    }
    return fitted(snprintf(old, STK_NAME, "segformer.encoder.block.%u.%u.%s%s", stage, block, module, tail));
}

/* One to three digits and the point after them (no model has more of anything, and no number overflows).
 * Returns what follows, NULL when it is not so. */
static const char *after_number(const char *text, unsigned *number)
{
    const size_t n = strspn(text, "0123456789");
    if (!n || n > 3 || text[n] != '.' || (n > 1 && *text == '0')) return NULL;
    *number = 0;
    for (size_t i = 0; i < n; i++) *number = *number * 10 + (unsigned)(text[i] - '0');
    return text + n + 1;
}

static int stage_name(const char *name, char *old)
{
    unsigned stage, block;
    const char *tail = after_number(name, &stage), *rest;
    if (!tail) return 0;
    if ((rest = after(tail, "blocks.")))
        return (rest = after_number(rest, &block)) && block_name(stage, block, rest, old);
    if ((rest = after(tail, "patch_embeddings.")))
        return fitted(snprintf(old, STK_NAME, "segformer.encoder.patch_embeddings.%u.%s", stage, rest));
    if ((rest = after(tail, "layer_norm.")))
        return fitted(snprintf(old, STK_NAME, "segformer.encoder.layer_norm.%u.%s", stage, rest));
    return 0;
}

const char *stk_pretrained_block(const char *name, unsigned *stage, unsigned *block)
{
    const char *rest = after(name, "encoder.block.");
    rest = rest ? after_number(rest, stage) : NULL;
    return rest ? after_number(rest, block) : NULL;
}

int stk_pretrained_name(const char *name, char old[static STK_NAME])
{
    const char *rest = after(name, "decode_head.linear_projections.");
    if (rest) return fitted(snprintf(old, STK_NAME, "decode_head.linear_c.%s", rest));
    if (after(name, "decode_head.")) return fitted(snprintf(old, STK_NAME, "%s", name));
    rest = after(name, "segformer.");
    if (rest) name = rest;
    rest = after(name, "stages.");
    if (rest) return stage_name(rest, old);
    unsigned stage, block;
    rest = stk_pretrained_block(name, &stage, &block);
    if (rest) return block_name(stage, block, rest, old);
    return after(name, "encoder.") && fitted(snprintf(old, STK_NAME, "segformer.%s", name));
}
