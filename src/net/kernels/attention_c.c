/* SPDX-License-Identifier: Apache-2.0
 *
 * attention: the reference in C, one query at a time.
 */
#include "src/net/kernels/net_table.h"

#include <math.h>

static float dot(const stk_attention_share *s, const void *a, size_t a_at, const void *b, size_t b_at)
{
    float sum = 0;
    for (uint32_t i = 0; i < s->head_size; i++)
        sum += stk_get(a, a_at + i, s->type) * stk_get(b, b_at + i, s->type);
    return sum;
}

static size_t scratch_c(uint32_t keys, uint32_t head_size)
{
    return ((size_t)keys + head_size) * sizeof(float);
}

static void forward_c(const stk_attention_share *s, void *scratch)
{
    float *p = scratch;
    const float scale = 1 / sqrtf((float)s->head_size);
    for (uint32_t i = 0; i < s->queries; i++) {
        const size_t at = i * s->stride;
        float most = -INFINITY, sum = 0;
        for (uint32_t j = 0; j < s->keys; j++) {
            p[j] = scale * dot(s, s->q, at, s->k, j * s->kv_stride);
            most = fmaxf(most, p[j]);
        }
        for (uint32_t j = 0; j < s->keys; j++) {
            p[j] = expf(p[j] - most);
            sum += p[j];
        }
        for (uint32_t c = 0; c < s->head_size; c++) {
            float mean = 0;
            for (uint32_t j = 0; j < s->keys; j++)
                mean += p[j] * stk_get(s->v, j * s->kv_stride + c, s->type);
            stk_put(s->context, at + c, mean / sum, s->type);
        }
        if (s->log_sum) s->log_sum[i] = most + logf(sum);
    }
}

/* With P = softmax(S), S = scale Q K^T, O = P V: dP = dO V^T, dS = P (dP - rowsum(dO O)), and rowsum(dO O) =
 * rowsum(dP P), so that the row need not be met twice. */
static void backward_c(const stk_attention_share *s, void *scratch)
{
    const uint32_t size = s->head_size;
    float *dq = scratch;
    const float scale = 1 / sqrtf((float)size);
    for (size_t i = 0; i < (size_t)s->keys * size; i++) s->dk[i] = s->dv[i] = 0;
    for (uint32_t i = 0; i < s->queries; i++) {
        const size_t at = i * s->stride;
        const float delta = dot(s, s->d_context, at, s->context, at);
        for (uint32_t c = 0; c < size; c++) dq[c] = 0;
        for (uint32_t j = 0; j < s->keys; j++) {
            const size_t key = j * s->kv_stride;
            const float p = expf(scale * dot(s, s->q, at, s->k, key) - s->log_sum[i]);
            const float ds = scale * p * (dot(s, s->d_context, at, s->v, key) - delta);
            for (uint32_t c = 0; c < size; c++) {
                dq[c] += ds * stk_get(s->k, key + c, s->type);
                s->dk[(size_t)j * size + c] += ds * stk_get(s->q, at + c, s->type);
                s->dv[(size_t)j * size + c] += p * stk_get(s->d_context, at + c, s->type);
            }
        }
        for (uint32_t c = 0; c < size; c++) stk_put(s->dq, at + c, dq[c], s->type);
    }
}

void stk_attention_fill_c(stk_attention_table *table)
{
    *table = (stk_attention_table){ .scratch = scratch_c, .forward = forward_c, .backward = backward_c };
}
