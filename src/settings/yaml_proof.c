/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts the planned changes into the text, and proves the result before anybody gets it: every byte outside
 * the spans is the old one, and the text parsed again is the old tree with the changes and nothing else. The
 * proof shares no code with the planning: a fault there cannot hide here.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/settings/yaml_tree.h"

/* At one place a value comes before new keys, and the keys of inner sections before those of outer ones. */
static int by_place(const void *a, const void *b)
{
    const stk_yaml_edit *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (!x->key != !y->key) return x->key ? 1 : -1;
    if (x->column != y->column) return x->column > y->column ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int by_order(const void *a, const void *b)
{
    const stk_yaml_edit *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* The new text, from the heap and with a zero behind it. */
static char *spliced(const stoke_yaml *yaml, const stk_yaml_edit *edits, size_t *bytes)
{
    size_t total = yaml->bytes, from = 0, used = 0;
    for (size_t i = 0; i < yaml->n_edits; i++)
        total = total - (edits[i].end - edits[i].begin) + edits[i].length;
    char *text = stk_alloc(total + 1);
    if (!text) return NULL;
    for (size_t i = 0; i < yaml->n_edits; i++) {
        memcpy(text + used, yaml->text + from, edits[i].begin - from);
        used += edits[i].begin - from;
        memcpy(text + used, edits[i].text, edits[i].length);
        used += edits[i].length;
        from = edits[i].end;
    }
    memcpy(text + used, yaml->text + from, yaml->bytes - from);
    text[total] = 0;
    *bytes = total;
    return text;
}

/* ---- bytes ---- */

/* Walks both texts side by side, and over the spans in each. */
static int bytes_equal(const stoke_yaml *yaml, const stk_yaml_edit *edits, const char *text, size_t bytes,
                       uint64_t *kept)
{
    size_t old = 0, new = 0;
    *kept = 0;
    for (size_t i = 0; i <= yaml->n_edits; i++) {
        const size_t until = i < yaml->n_edits ? edits[i].begin : yaml->bytes;
        if (until < old || until > yaml->bytes || bytes - new < until - old) return 0;
        if (memcmp(yaml->text + old, text + new, until - old) != 0) return 0;
        *kept += until - old;
        new += until - old;
        if (i == yaml->n_edits) break;
        if (bytes - new < edits[i].length) return 0;
        new += edits[i].length;
        old = edits[i].end;
    }
    return new == bytes;
}

/* ---- trees ---- */

/* New nodes are met in the same order as the old ones, with those of new keys in between. */
typedef struct comparison {
    const stoke_yaml *old, *new;
    const stk_yaml_edit *edits;
    size_t at; /* next node of the new tree */
} comparison;

static const stk_yaml_edit *change_of(const comparison *c, uint32_t node)
{
    for (size_t i = 0; i < c->old->n_edits; i++)
        if (c->edits[i].node == node && !c->edits[i].key) return &c->edits[i];
    return NULL;
}

static int same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

/* A new value must be untagged; one that was quoted must stay so, else its type could have changed. */
static int is_changed_to(const stk_yaml_node *old, const stk_yaml_node *new, const char *value)
{
    return new->kind == STK_YAML_SCALAR && !new->tagged && !strcmp(new->text, value) &&
           (!old || old->style == STK_YAML_PLAIN || new->style != STK_YAML_PLAIN);
}

static int same_node(const comparison *c, uint32_t index, const stk_yaml_node *new)
{
    const stk_yaml_node *old = &c->old->nodes[index];
    const stk_yaml_edit *change = change_of(c, index);
    if (!same_text(old->anchor, new->anchor) || old->kind != new->kind) return 0;
    if (change) return is_changed_to(old, new, change->value);
    return old->style == new->style && old->tagged == new->tagged && old->flow == new->flow &&
           old->shared == new->shared &&same_text(old->text, new->text);
}

/* The keys that were added to a mapping, in the order they were asked for; moves past them. */
static int added_keys(comparison *c, uint32_t mapping, uint32_t in)
{
    for (size_t i = 0; i < c->old->n_edits; i++) {
        const stk_yaml_edit *e = &c->edits[i];
        if (e->node != mapping || !e->key) continue;
        if (c->at + 2 > c->new->n_nodes) return 0;
        const stk_yaml_node *key = &c->new->nodes[c->at], *value = key + 1;
        if (key->parent != in || value->parent != in || key->anchor || value->anchor) return 0;
        if (!is_changed_to(NULL, key, e->key) || !is_changed_to(NULL, value, e->value)) return 0;
        c->at += 2;
    }
    return 1;
}

/* Whether the first key that was added to a mapping is next: in Python it may stand before classes. */
static int adds_here(const comparison *c, uint32_t mapping)
{
    for (size_t i = 0; i < c->old->n_edits; i++)
        if (c->edits[i].node == mapping && c->edits[i].key)
            return c->at < c->new->n_nodes &&same_text(c->new->nodes[c->at].text, c->edits[i].key);
    return 0;
}

static int trees_equal(comparison *c, uint32_t index)
{
    if (c->at >= c->new->n_nodes) return 0;
    const uint32_t in = (uint32_t)c->at++;
    const stk_yaml_node *old = &c->old->nodes[index], *new = &c->new->nodes[in];
    if (!same_node(c, index, new)) return 0;
    const int python = c->old->form == STK_FORM_PYTHON && !old->flow;
    size_t added = 0;
    for (uint32_t i = old->first; i != STK_YAML_NONE; i = c->old->nodes[i].next) {
        size_t child = c->at;
        if (python && !added && c->old->nodes[i].position % 2 == 0 && adds_here(c, index)) {
            if (!added_keys(c, index, in)) return 0;
            added = c->at - child;
            child = c->at;
        }
        if (!trees_equal(c, i) || c->new->nodes[child].parent != in) return 0;
    }
    const size_t before = c->at;
    if (!added && !added_keys(c, index, in)) return 0;
    return new->children == old->children + added + (c->at - before);
}

/* Aliases must lead to the same anchors as before: to nodes with the same path. */
static int aliases_equal(const stoke_yaml *old, const stoke_yaml *new)
{
    size_t j = 0;
    for (size_t i = 0; i < old->n_nodes; i++) {
        if (old->nodes[i].kind != STK_YAML_ALIAS) continue;
        while (j < new->n_nodes &&new->nodes[j].kind != STK_YAML_ALIAS) j++;
        if (j == new->n_nodes) return 0;
        const stk_yaml_node *a = &old->nodes[old->nodes[i].target], *b = &new->nodes[new->nodes[j++].target];
        if (!same_text(a->path, b->path) || !same_text(a->anchor, b->anchor)) return 0;
    }
    return 1;
}

static int tree_equal(const stoke_yaml *yaml, const stk_yaml_edit *edits, const char *text, size_t bytes)
{
    stoke_yaml *again = NULL;
    if (stoke_yaml_parse(&again, text, bytes, yaml->name, NULL)) return 0;
    comparison c = { .old = yaml, .new = again, .edits = edits };
    const int equal = trees_equal(&c, 0) && c.at == again->n_nodes && aliases_equal(yaml, again);
    stoke_yaml_close(&again);
    return equal;
}

/* ---- the result ---- */

int stoke_yaml_text(stoke_yaml *yaml, const char **text, size_t *bytes, stoke_yaml_proof *proof,
                    stoke_error *err)
{
    stoke_yaml_proof unused;
    if (!proof) proof = &unused;
    *proof = (stoke_yaml_proof){ .spans = yaml->n_edits, .bytes_before = yaml->bytes };
    *text = NULL;
    *bytes = 0;
    if (yaml->n_edits) qsort(yaml->edits, yaml->n_edits, sizeof *yaml->edits, by_place);
    size_t size;
    char *result = spliced(yaml, yaml->edits, &size);
    if (result) {
        proof->bytes_after = size;
        proof->bytes_equal = bytes_equal(yaml, yaml->edits, result, size, &proof->bytes_kept);
        proof->tree_equal = tree_equal(yaml, yaml->edits, result, size);
    }
    if (yaml->n_edits) qsort(yaml->edits, yaml->n_edits, sizeof *yaml->edits, by_order);
    if (!result) return stk_yaml_no_memory(yaml, err);
    stk_free(yaml->result);
    yaml->result = result;
    if (!proof->bytes_equal || !proof->tree_equal)
        return stk_fail(
            err, STOKE_E_STATE,
            "%.256s: the changed text does not prove right (%s), so it is not used; the file is left "
            "as it is; change the keys by hand",
            yaml->name,
            proof->bytes_equal ? "read again, more than the named keys differ"
                               : "bytes outside the changed values differ");
    *text = result;
    *bytes = size;
    return STOKE_OK;
}
