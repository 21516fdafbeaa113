/* SPDX-License-Identifier: Apache-2.0
 *
 * A YAML file as bytes with a tree laid over them: which bytes are which value. The public face is
 * <stoke/tools/config.h>.
 */
#ifndef STOKE_SRC_SETTINGS_YAML_TREE_H
#define STOKE_SRC_SETTINGS_YAML_TREE_H

#include <stdarg.h>
#include <stdio.h>
#include <stoke/tools/config.h>

#include "src/base/mem.h"

enum {
    STK_YAML_FILE = 4 << 20,  /* bytes of a file; settings are some KB */
    STK_YAML_NODES = 1 << 16, /* keys, values, lists, mappings */
    STK_YAML_DEPTH = 64,
    STK_YAML_ANCHORS = 256, /* each alias looks through all of them */
    STK_YAML_PATH = 256,    /* bytes of a path; what lies deeper cannot be named */
    STK_YAML_VALUE = 4096   /* bytes of a new value */
};
#define STK_YAML_NONE UINT32_MAX

typedef enum stk_yaml_kind {
    STK_YAML_SCALAR,
    STK_YAML_MAPPING,
    STK_YAML_SEQUENCE,
    STK_YAML_ALIAS
} stk_yaml_kind;

typedef enum stk_yaml_style {
    STK_YAML_PLAIN,
    STK_YAML_SINGLE, /* quotes */
    STK_YAML_DOUBLE,
    STK_YAML_BLOCK /* | and > */
} stk_yaml_style;

/* How the file is written: what a changed value must look like. */
typedef enum stk_yaml_form { STK_FORM_YAML, STK_FORM_JSON, STK_FORM_PYTHON } stk_yaml_form;

/* Nodes are numbered in the order of the file. Children of a mapping are key, value, key, value. */
typedef struct stk_yaml_node {
    stk_yaml_kind kind;
    stk_yaml_style style;    /* of scalars */
    int flow;                /* {} or [] */
    int tagged, shared;      /* shared: an alias refers to it */
    int computed, annotated; /* of Python: an expression, no literal; `name: type = value` */
    int replaced;            /* of Python: the name is assigned again later */
    uint32_t parent, first, next, key;
    uint32_t last;           /* child */
    uint32_t children;       /* of a mapping, keys count too */
    uint32_t position;       /* among the children of its parent */
    uint32_t target;         /* of an alias */
    uint32_t line, end_line; /* from 1 */
    uint32_t column;         /* characters before it in its line */
    size_t begin, end;       /* bytes, without the anchor; of a block collection, to its last value */
    size_t behind;           /* of Python: the end of the statement that assigns it */
    const char *text;        /* of scalars, as YAML reads them */
    const char *anchor, *path, *fixed;
} stk_yaml_node;

/* A planned change: bytes [begin, end) become `text`. */
typedef struct stk_yaml_edit {
    size_t begin, end;
    const char *text;
    size_t length;
    uint32_t node;     /* whose value it is; of a new key, the mapping that gets it */
    const char *key;   /* NULL: not a new key */
    const char *value; /* as YAML must read it afterwards */
    uint32_t column,
        order; /* of new keys at one place the deeper ones come first, else as they were asked for */
} stk_yaml_edit;

struct stoke_yaml {
    char *name, *text;
    size_t bytes;
    stk_yaml_form form;
    stk_yaml_node *nodes;
    size_t n_nodes, node_capacity;
    uint32_t *named; /* the values that have a path */
    size_t n_named;
    stk_string_arena *strings; /* behind a pointer, so that questions to a const file can keep an answer */
    stk_yaml_edit *edits;
    size_t n_edits, edit_capacity;
    char *result;
};

/* A copy that lives as long as the file does; NULL: no memory. */
const char *stk_yaml_keep(const stoke_yaml *yaml, const char *text, size_t length);

/* The node, or what it is an alias of. */
static inline uint32_t stk_yaml_followed(const stoke_yaml *yaml, uint32_t node)
{
    return yaml->nodes[node].kind == STK_YAML_ALIAS ? yaml->nodes[node].target : node;
}

/* "name:line: message". Returns code. */
int stk_yaml_fail(const stoke_yaml *yaml, size_t line, stoke_error *err, int code, const char *format, ...)
    STOKE_PRINTF(5, 6);
int stk_yaml_no_memory(const stoke_yaml *yaml, stoke_error *err);

/* Reads any document, that of nothing too, as stoke_config_open does from a file. stoke_yaml_parse and
 * stoke_yaml_open_checked are these two with stk_yaml_check. */
int stk_yaml_read(stoke_yaml **out, const char *text, size_t bytes, const char *name, stoke_error *err);
/* A node without relatives, of no length. */
int stk_yaml_add_node(stoke_yaml *yaml, stk_yaml_kind kind, uint32_t line, size_t begin, uint32_t *index,
                      stoke_error *err);
/* Hangs a node behind the last child of its parent. */
void stk_yaml_attach(stoke_yaml *yaml, uint32_t parent, uint32_t index);
/* Builds the tree of a Python file (python_read.c). */
int stk_python_build(stoke_yaml *yaml, stoke_error *err);
/* Fills in `fixed` and `path` of every node (yaml_check.c). */
int stk_yaml_name(stoke_yaml *yaml, stoke_error *err);
/* Refuses what is no mapping, keys given twice and tabs: what readers disagree on. */
int stk_yaml_check(const stoke_yaml *yaml, stoke_error *err);
/* Whether a plain scalar stands for nothing: written as nothing, ~ or null. */
int stk_yaml_is_null(const stk_yaml_node *node);

/* ---- paths (yaml_path.c) ---- */

/* Where a path leads. */
typedef struct stk_yaml_place {
    uint32_t node;           /* aliases followed; STK_YAML_NONE: there is none */
    uint32_t written;        /* what stands at the place itself: the alias, say */
    uint32_t mapping;        /* where the last key would be added; STK_YAML_NONE: its parent is missing */
    char key[STK_YAML_PATH]; /* the last one */
    int merged;        /* 1: it comes from a merge (<<) into the mapping, where the key can be written out */
    const char *fixed; /* why the value, or the mapping, cannot be changed; NULL: it can */
    uint32_t line;     /* of what the reason is about */
} stk_yaml_place;
/* 0: the path is not well-formed. */
int stk_yaml_find(const stoke_yaml *yaml, const char *path, stk_yaml_place *place);
/* The path of a child: "parent.key", `a."b.c"`. 0: too long. */
int stk_yaml_join(const char *parent, const char *key, char path[STK_YAML_PATH]);
/* The value of a key of this very mapping; STK_YAML_NONE: none. */
uint32_t stk_yaml_child(const stoke_yaml *yaml, uint32_t mapping, const char *key);

/* ---- how a value is written (yaml_scalar.c) ---- */

/* The value as it is written plain: a number with an exponent gets the point and the sign without which YAML
 * 1.1 reads a text (3e-4 -> 3.0e-4). Returns value itself, or `room`. */
const char *stk_yaml_number(const char *value, char room[64]);
/* Writes it in the given style, or, where that cannot hold it, in another one. Returns the length; `out`
 * needs 6 bytes for each of the value, and 3 more. 0: not UTF-8. */
size_t stk_yaml_scalar(const char *value, stk_yaml_style style, int in_flow, char *out);
/* The same for Python and for JSON: what is no number, truth or None is quoted, in the style's own quotes
 * where it has some. */
size_t stk_python_scalar(const char *value, stk_yaml_style style, char *out);
size_t stk_json_scalar(const char *value, stk_yaml_style style, char *out);

#endif
