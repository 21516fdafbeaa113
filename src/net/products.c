/* SPDX-License-Identifier: Apache-2.0
 *
 * Which products a step is made of.
 */
#include "src/net/products.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/segformer/segformer_head.h"

typedef struct lister {
    const stk_network *network;
    const stk_parameters *parameters;
    const stk_tape *tape;
    uint32_t batch;
    stk_products *products;
    int failed;
} lister;

/* ---- names ---- */

const stk_parameter *stk_products_parameter(const stk_tape_op *op, const stk_parameters *parameters)
{
    const float *const *slot = NULL;
    switch (op->kind) {
    case STK_TAPE_LINEAR:
    case STK_TAPE_LINEAR_WEIGHT:
    case STK_TAPE_LINEAR_INPUT: slot = ((const stk_linear *)op->layer)->weight; break;
    case STK_TAPE_NORM:
    case STK_TAPE_NORM_BACK: slot = &((const stk_layernorm *)op->layer)->gamma; break;
    case STK_TAPE_DEPTHWISE:
    case STK_TAPE_DEPTHWISE_BACK: slot = &((const stk_depthwise *)op->layer)->weight; break;
    case STK_TAPE_CONV3:
    case STK_TAPE_CONV3_WEIGHT:
    case STK_TAPE_CONV3_INPUT: slot = &((const stk_conv3 *)op->layer)->weight; break;
    default: return NULL;
    }
    for (size_t i = 0; i < parameters->count; i++)
        if (parameters->list[i].values == (const float **)slot) return &parameters->list[i];
    return NULL;
}

static void cut_last_word(char *name)
{
    char *dot = strrchr(name, '.');
    if (dot) *dot = 0;
}

/* "body.3.conv1" to "body.*.conv1". */
static void open_numbers(char *name)
{
    char *to = name;
    for (const char *from = name; *from;) {
        const size_t digits = strspn(from, "0123456789");
        const int begins = from == name || from[-1] == '.';
        if (begins && digits && (from[digits] == '.' || !from[digits])) {
            *to++ = '*';
            from += digits;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
}

/* The module of an operation; of attention the one that its queries are made in. */
static void name_of(const lister *l, const stk_tape_op *op, char name[static STK_NAME])
{
    const int attends = op->kind == STK_TAPE_ATTENTION || op->kind == STK_TAPE_ATTENTION_BACK;
    const stk_tape_op *with = attends ? &l->tape->ops[l->tape->tensors[op->in[0]].first] : op;
    const stk_parameter *parameter = stk_products_parameter(with, l->parameters);
    snprintf(name, STK_NAME, "%s", parameter ? parameter->name : "n/a");
    cut_last_word(name);
    if (attends) cut_last_word(name);
}

/* ---- the list ---- */

static int alike(const stk_product *a, const stk_product *b)
{
    return a->kind == b->kind && a->rows == b->rows && a->in == b->in && a->out == b->out &&
           !strcmp(a->kin, b->kin);
}

/* `found` has its name as the layer has it. */
static void count(lister *l, stk_product found, stk_product_pass pass)
{
    stk_products *p = l->products;
    memcpy(found.kin, found.name, sizeof found.kin);
    open_numbers(found.kin);
    for (size_t i = 0; i < p->count; i++)
        if (alike(&p->list[i], &found)) {
            p->list[i].calls[pass]++;
            if (strcmp(p->list[i].name, found.name))
                memcpy(p->list[i].name, found.kin, sizeof found.kin); /* several */
            return;
        }
    if (!stk_grow((void **)&p->list, &p->capacity, p->count + 1, sizeof *p->list)) {
        l->failed = 1;
        return;
    }
    found.calls[pass] = 1;
    p->list[p->count++] = found;
}

static void count_layer(lister *l, const stk_tape_op *op, stk_product product, stk_product_pass pass)
{
    name_of(l, op, product.name);
    if (l->network->title) l->network->title(product.name);
    product.rows = (uint32_t)(op->rows * l->batch);
    count(l, product, pass);
}

static void linear(lister *l, const stk_tape_op *op, stk_product_pass pass)
{
    const stk_linear *layer = op->layer;
    count_layer(
        l, op,
        (stk_product){ .kind = STK_TAPE_LINEAR, .in = layer->in, .out = layer->out, .taps = layer->taps },
        pass);
}

/* Recorded in bf16: what is f32 there is f32 in every precision. */
static stk_product_map map_of(const lister *l, stk_tape_id id)
{
    const stk_tape_tensor *t = &l->tape->tensors[id];
    if (id == STK_TAPE_PICTURES) return (stk_product_map){ .full = 1, .planar = 1, .stride = 3 };
    return (stk_product_map){ .full = t->type == STK_F32, .stride = t->stride };
}

static void conv3(lister *l, const stk_tape_op *op, stk_product_pass pass)
{
    const stk_conv3 *layer = op->layer;
    stk_product product = {
        .kind = STK_TAPE_CONV3, .in = 9 * layer->in, .out = layer->out, .taps = 9, .map = op->map
    };
    product.map.batch = l->batch;
    if (pass == STK_PASS_FORWARD) { /* the way back finds the same product */
        product.x = map_of(l, op->x.of);
        product.y = map_of(l, op->out[0]);
    }
    count_layer(l, op, product, pass);
}

/* Scores of all keys, and as many values added up. */
static void attention(lister *l, const stk_tape_op *op, stk_product_pass pass)
{
    stk_product product = { .kind = STK_TAPE_ATTENTION,
                            .in = op->attention.heads * op->attention.head_size,
                            .out = 2 * op->attention.keys,
                            .attention = op->attention };
    product.attention.batch = l->batch;
    stk_tape_op by_queries = *op;
    by_queries.rows = op->attention.queries;
    count_layer(l, &by_queries, product, pass);
}

/* Weights multiplied by weights, when it is folded, are not among them. */
static void head(lister *l, const stk_tape_op *op, int back)
{
    stk_segformer_head_product of;
    for (uint32_t i = 0; stk_segformer_head_product_at(op->layer, i, &of); i++) {
        stk_product product = { .kind = STK_TAPE_LINEAR,
                                .rows = (uint32_t)(of.rows * l->batch),
                                .in = of.in,
                                .out = of.out,
                                .taps = 1 };
        snprintf(product.name, sizeof product.name, "%s", of.name);
        count(l, product, back ? STK_PASS_WEIGHT : STK_PASS_FORWARD);
        if (back && (of.classifies || op->out[1])) count(l, product, STK_PASS_INPUT);
    }
}

static void list(lister *l, const stk_tape_op *op)
{
    switch (op->kind) {
    case STK_TAPE_LINEAR: linear(l, op, STK_PASS_FORWARD); break;
    case STK_TAPE_LINEAR_INPUT: linear(l, op, STK_PASS_INPUT); break;
    case STK_TAPE_LINEAR_WEIGHT: linear(l, op, STK_PASS_WEIGHT); break;
    case STK_TAPE_CONV3: conv3(l, op, STK_PASS_FORWARD); break;
    case STK_TAPE_CONV3_INPUT: conv3(l, op, STK_PASS_INPUT); break;
    case STK_TAPE_CONV3_WEIGHT: conv3(l, op, STK_PASS_WEIGHT); break;
    case STK_TAPE_ATTENTION: attention(l, op, STK_PASS_FORWARD); break;
    case STK_TAPE_ATTENTION_BACK: attention(l, op, STK_PASS_INPUT); break;
    case STK_TAPE_SEGFORMER_HEAD: head(l, op, 0); break;
    case STK_TAPE_SEGFORMER_HEAD_BACK: head(l, op, 1); break;
    default: break;
    }
}

int stk_products_of(const stk_network_config *config, uint32_t batch, uint32_t height, uint32_t width,
                    stk_products *products, stoke_error *err)
{
    const stk_network_settings how = {
        .height = height, .width = width, .training = 1, .memory = STOKE_MEMORY_PLAIN, .type = STK_BF16
    };
    stk_parameters parameters = { 0 };
    stk_tape tape = { 0 };
    *products = (stk_products){ 0 };
    int r = stk_network_check_batch(config->network, batch, height, width, err);
    if (r) return r;
    void *layers = config->network->create(config, &parameters);
    lister l = { .network = config->network,
                 .parameters = &parameters,
                 .tape = &tape,
                 .batch = batch,
                 .products = products };
    if (layers && !parameters.failed) config->network->record(layers, &how, &tape);
    for (size_t i = 0; i < tape.op_count && !tape.failed && !l.failed; i++) list(&l, &tape.ops[i]);
    if (!layers || parameters.failed || tape.failed || l.failed)
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for the list of a network's products");
    stk_tape_free(&tape);
    stk_parameters_free(&parameters);
    stk_free(layers);
    return r;
}

void stk_products_free(stk_products *products)
{
    stk_free(products->list);
    *products = (stk_products){ 0 };
}
