/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stoke/tools/options.h>

#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/base/option_table.h"
#include "src/settings/read.h"
#include "src/base/rng.h"
#include "src/base/utf8.h"

typedef struct settings {
    int shuffle, keep;
    int64_t batch, workers, seed;
    double val_split;
    const char *data, *name;
    int split;
    uint64_t memory_limit;
    uint32_t size[2];
    double factor[2], degrees[2];
} settings;

#define FIELD(f) offsetof(settings, f)
static const stoke_option table[] = {
    { "shuffle", STOKE_OPT_FLAG, FIELD(shuffle), "true", NULL, 0, 0, NULL, "Shuffle the samples" },
    { "keep", STOKE_OPT_FLAG, FIELD(keep), NULL, NULL, 0, 0, NULL, "Keep the last batch" },
    { "batch", STOKE_OPT_INT, FIELD(batch), "32", NULL, 1, 4096, "N", "Samples per batch" },
    { "seed", STOKE_OPT_INT, FIELD(seed), "0", NULL, 0, 0, "N", "Seed of everything random" },
    { "workers", STOKE_OPT_AUTO_INT, FIELD(workers), "auto", NULL, 0, 1024, NULL, "Worker threads" },
    { "val_split", STOKE_OPT_REAL, FIELD(val_split), "0.1", NULL, 0, 0.9, "X", "Share held back" },
    { "data", STOKE_OPT_STRING, FIELD(data), NULL, NULL, 0, 0, "DIR", "Root of the set" },
    { "name", STOKE_OPT_STRING, FIELD(name), "run", NULL, 0, 0, "TEXT", "Name of the run" },
    { "split", STOKE_OPT_CHOICE, FIELD(split), "all", "all|train|val", 0, 0, NULL, "Which part" },
    { "memory_limit", STOKE_OPT_BYTES, FIELD(memory_limit), "1.5G", NULL, 0, 0, NULL, "Ceiling" },
    { "size", STOKE_OPT_SIZE, FIELD(size), "384x512", NULL, 0, 0, NULL, "Size of a sample" },
    { "factor", STOKE_OPT_RANGE, FIELD(factor), "0.8..1.2", NULL, 0.1, 10, NULL, "Zoom" },
    { "degrees", STOKE_OPT_SPREAD, FIELD(degrees), "20", NULL, -180, 180, NULL, "Turn" },
};

static stoke_option_group bind(settings *s)
{
    stoke_option_group group = { "Test", table, sizeof table / sizeof *table, s };
    memset(s, 0xaa, sizeof *s);
    stoke_options_defaults(&group);
    return group;
}

static void defaults_come_from_the_table(void **state)
{
    settings s;
    bind(&s);
    assert_int_equal(s.shuffle, 1);
    assert_int_equal(s.keep, 0);
    assert_int_equal(s.batch, 32);
    assert_int_equal(s.workers, -1);
    assert_true(s.val_split == 0.1);
    assert_null(s.data);
    assert_string_equal(s.name, "run");
    assert_int_equal(s.split, 0);
    assert_int_equal(s.memory_limit, UINT64_C(3) << 29);
    assert_int_equal(s.size[0], 384);
    assert_int_equal(s.size[1], 512);
    assert_true(s.factor[0] == 0.8 && s.factor[1] == 1.2);
    assert_true(s.degrees[0] == -20 && s.degrees[1] == 20);
}

/* A value that must be taken: name, text, and how the field reads back. */
static void good_values(void **state)
{
    static const struct {
        const char *name, *value, *back;
    } cases[] = {
        { "batch", "1", "1" },
        { "batch", "4096", "4096" },
        { "batch", "1e3", "1000" },
        { "batch", "0644", "644" },
        { "batch", "+7", "7" },
        { "seed", "-9223372036854775808", "-9223372036854775808" },
        { "seed", "9223372036854775807", "9223372036854775807" },
        { "workers", "AUTO", "auto" },
        { "workers", "0", "0" },
        { "val_split", "0", "0" },
        { "val_split", "9e-1", "0.9" },
        { "split", "Train", "train" },
        { "shuffle", "off", "false" },
        { "shuffle", "YES", "true" },
        { "memory-limit", "0", "0" },
        { "memory_limit", "512", "512" },
        { "memory_limit", "64k", "64K" },
        { "memory_limit", "1.5G", "1536M" },
        { "memory_limit", "2GiB", "2G" },
        { "memory_limit", "100 MB", "100M" },
        { "memory_limit", "7B", "7" },
        { "size", "0", "0" },
        { "size", "512", "512" },
        { "size", "512x512", "512" },
        { "size", "1X65535", "1x65535" },
        { "name", "", "" },
        { "factor", "0.5..2", "0.5..2" },
        { "factor", "0.5,2", "0.5..2" },
        { "factor", ".5...9", "0.5..0.9" },
        { "factor", "1e-1..1e1", "0.1..10" },
        { "factor", "2", "2" },
        { "factor", "2..2", "2" },
        { "degrees", "10", "10" },
        { "degrees", "-10..10", "10" },
        { "degrees", "10..10", "10..10" },
        { "degrees", "-20..-10", "-20..-10" },
        { "degrees", "-180,0", "-180..0" },
        { "degrees", "0", "0" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings s;
        stoke_option_group group = bind(&s);
        stoke_error err = { 0 };
        int status = stoke_options_set(&group, 1, cases[i].name, cases[i].value, &err);
        if (status) fail_msg("%s=%s refused: %s", cases[i].name, cases[i].value, err.message);
        stk_option_hit hit;
        char text[STK_OPTION_TEXT];
        assert_int_equal(stk_option_find(&group, 1, cases[i].name, strlen(cases[i].name), &hit), 1);
        assert_string_equal(stk_option_text(hit.option, &s, text), cases[i].back);
    }
}

static void bad_values_say_what_is_accepted(void **state)
{
    static const struct {
        const char *name, *value, *message;
    } cases[] = {
        { "batch", "0", "batch: '0' is out of range (1 to 4096)" },
        { "batch", "4097", "batch: '4097' is out of range (1 to 4096)" },
        { "batch", "12x", "batch: '12x' is not a whole number (1 to 4096)" },
        { "batch", "1.5", "batch: '1.5' is not a whole number (1 to 4096)" },
        { "batch", "", "batch: '' is not a whole number (1 to 4096)" },
        { "batch", " 3", "batch: ' 3' is not a whole number (1 to 4096)" },
        { "batch", "0x10", "batch: '0x10' is not a whole number (1 to 4096)" },
        { "seed", "9223372036854775808", "seed: '9223372036854775808' is not a whole number" },
        { "workers", "-1", "workers: '-1' is out of range (0 to 1024, or auto)" },
        { "workers", "many", "workers: 'many' is not a whole number (0 to 1024, or auto)" },
        { "val_split", "nan", "val_split: 'nan' is not a number (0 to 0.9)" },
        { "val_split", "1e999", "val_split: '1e999' is not a number (0 to 0.9)" },
        { "val_split", "0,5", "val_split: '0,5' is not a number (0 to 0.9)" },
        { "val_split", "0.91", "val_split: '0.91' is out of range (0 to 0.9)" },
        { "factor", "0..1", "factor: '0..1' is out of range (0.1 to 10)" },
        { "factor", "1..11", "factor: '1..11' is out of range (0.1 to 10)" },
        { "factor", "2..1", "factor: '2..1' is a range that ends before it begins (0.1 to 10)" },
        { "factor", "", "factor: '' is neither a number nor a range such as 0.5..1.5 (0.1 to 10)" },
        { "factor", "1..", "factor: '1..' is not a range such as 0.5..1.5 (0.1 to 10)" },
        { "factor", "..1", "factor: '..1' is not a range such as 0.5..1.5 (0.1 to 10)" },
        { "factor", "1,2,3", "factor: '1,2,3' is not a range such as 0.5..1.5 (0.1 to 10)" },
        { "factor", "1 .. 2", "factor: '1 .. 2' is not a range such as 0.5..1.5 (0.1 to 10)" },
        { "factor", "1e0000000000000000000000000000000000..2",
          "factor: '1e0000000000000000000000000000000000..2' "
          "is not a range such as 0.5..1.5 (0.1 to 10)" },
        { "degrees", "-5", "degrees: '-5' is a range that ends before it begins (-180 to 180)" },
        { "degrees", "181", "degrees: '181' is out of range (-180 to 180)" },
        { "split", "test", "split: 'test' is not one of all, train or val" },
        { "split", "", "split: '' is not one of all, train or val" },
        { "split", "all|train", "split: 'all|train' is not one of all, train or val" },
        { "shuffle", "maybe", "shuffle: 'maybe' is neither true nor false" },
        { "memory_limit", "-1",
          "memory_limit: '-1' is not a number of bytes such as 512, 64K, 1.5G or 2GiB" },
        { "memory_limit", "1X",
          "memory_limit: '1X' is not a number of bytes such as 512, 64K, 1.5G or 2GiB" },
        { "memory_limit", "1..5G",
          "memory_limit: '1..5G' is not a number of bytes such as 512, 64K, 1.5G or 2GiB" },
        { "memory_limit", "9000T", "memory_limit: 9000T is too large (at most 8192T)" },
        { "size", "0x512", NULL },
        { "size", "512x", NULL },
        { "size", "x512", NULL },
        { "size", "5x5x5", NULL },
        { "size", "-5", NULL },
        { "size", "4294967297", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings s, before;
        stoke_option_group group = bind(&s);
        stoke_error err = { 0 };
        before = s;
        assert_int_equal(stoke_options_set(&group, 1, cases[i].name, cases[i].value, &err), STOKE_E_INVALID);
        if (cases[i].message) assert_string_equal(err.message, cases[i].message);
        assert_memory_equal(&s, &before, sizeof s); /* a refused value changes nothing */
    }
}

static void unknown_names_get_a_suggestion(void **state)
{
    static const struct {
        const char *name, *message;
    } cases[] = {
        { "bacth", "unknown setting 'bacth': did you mean batch?" },
        { "batch_size", "unknown setting 'batch_size': did you mean batch?" },
        { "mem", "unknown setting 'mem': did you mean memory_limit?" },
        { "val-spilt", "unknown setting 'val-spilt': did you mean val_split?" },
        { "zzz", "unknown setting 'zzz'" },
        { "", "unknown setting ''" },
    };
    settings s;
    stoke_option_group group = bind(&s);
    stoke_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(stoke_options_set(&group, 1, cases[i].name, "1", &err), STOKE_E_NOTFOUND);
        assert_string_equal(err.message, cases[i].message);
    }
    char endless[5000];
    memset(endless, 'b', sizeof endless);
    endless[sizeof endless - 1] = 0;
    assert_int_equal(stoke_options_set(&group, 1, endless, "1", NULL), STOKE_E_NOTFOUND);
}

/* ---- argv ---- */

enum { WORDS = 16 };
typedef struct outcome {
    settings s;
    char *rest[WORDS];
    int n_rest, help, status;
    stoke_error err;
} outcome;

/* Parses "a b c", split at blanks. */
static void parse(outcome *o, char *line)
{
    char *argv[WORDS] = { "stoke" };
    int argc = 1;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    stoke_option_group group = bind(&o->s);
    o->status = stoke_options_parse(&group, 1, argc, argv, o->rest, &o->n_rest, &o->help, &o->err);
}
#define PARSE(o, text)                                                                                       \
    char line_[] = text;                                                                                     \
    outcome *o = &(outcome){ 0 };                                                                            \
    parse(o, line_)

static void argv_takes_every_form(void **state)
{
    PARSE(
        o,
        "one --batch 8 --size=64x32 --no-shuffle --keep two --memory-limit 1G --val_split .5 -- --batch -x");
    assert_int_equal(o->status, 0);
    assert_int_equal(o->s.batch, 8);
    assert_int_equal(o->s.size[1], 32);
    assert_int_equal(o->s.shuffle, 0);
    assert_int_equal(o->s.keep, 1);
    assert_int_equal(o->s.memory_limit, 1 << 30);
    assert_true(o->s.val_split == 0.5);
    assert_int_equal(o->n_rest, 4);
    assert_string_equal(o->rest[0], "one");
    assert_string_equal(o->rest[1], "two");
    assert_string_equal(o->rest[2], "--batch");
    assert_string_equal(o->rest[3], "-x");
}

static void argv_values_may_look_odd(void **state)
{
    PARSE(o, "--seed -5 --data=--strange --name= --shuffle=false - -7");
    assert_int_equal(o->status, 0);
    assert_int_equal(o->s.seed, -5);
    assert_string_equal(o->s.data, "--strange");
    assert_string_equal(o->s.name, "");
    assert_int_equal(o->s.shuffle, 0);
    assert_int_equal(o->n_rest, 2);
}

static void argv_help_stops(void **state)
{
    PARSE(o, "--batch 4 --help --nonsense");
    assert_int_equal(o->status, 0);
    assert_int_equal(o->help, 1);
    assert_int_equal(o->s.batch, 4);
}

static void argv_mistakes_are_explained(void **state)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        { "--bath 3", "unknown option '--bath': did you mean --batch?" },
        { "--memory_limits=3", "unknown option '--memory_limits': did you mean --memory-limit?" },
        { "--qqqqqq", "unknown option '--qqqqqq'" },
        { "-b 3", "unknown option '-b' (options start with two dashes)" },
        { "--batch", "--batch needs a value" },
        { "--data --batch 3", "--data needs a value" },
        { "--no-batch", "unknown option '--no-batch': did you mean --batch?" },
        { "--no-keep=1", "--no-keep takes no value" },
        { "--batch zero", "--batch: 'zero' is not a whole number (1 to 4096)" },
        { "--keep=2", "--keep: '2' is neither true nor false" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[64];
        outcome o = { 0 };
        snprintf(line, sizeof line, "%s", cases[i].line);
        parse(&o, line);
        assert_int_not_equal(o.status, 0);
        assert_string_equal(o.err.message, cases[i].message);
    }
}

/* ---- YAML ---- */

static const char *const foreign[] = { "augment", "train", NULL };

static int read_text(const stoke_option_group *group, const char *name, const char *text, size_t size,
                     const char *const *others, stoke_option_storage **storage, stoke_error *err)
{
    stoke_yaml *tree = NULL;
    *storage = NULL;
    int r = stk_yaml_read(&tree, text, size, name, err);
    if (!r) r = stk_own_read(tree, group, 1, others, storage, err);
    stoke_yaml_close(&tree);
    return r;
}

static int yaml(settings *s, const char *text, stoke_option_storage **storage, stoke_error *err)
{
    stoke_option_group group = bind(s);
    return read_text(&group, "s.yaml", text, strlen(text), foreign, storage, err);
}

static void yaml_scalars_mean_what_they_say(void **state)
{
    settings s;
    stoke_option_storage *storage;
    stoke_error err = { 0 };
    int status = yaml(&s,
                      "# a comment\n"
                      "batch: 0x\n",
                      &storage, &err);
    assert_int_equal(status, STOKE_E_INVALID);
    assert_null(storage);
    status = yaml(&s,
                  "batch: 1e3\nseed: 0644\nname: no\nshuffle: no\nworkers: ~\nval-split:\nsize: 64x32\n"
                  "memory_limit: 2GiB\nsplit: 'val'\ndata: \"null\"\n",
                  &storage, &err);
    assert_string_equal(err.message + (status ? 0 : strlen(err.message)), "");
    assert_int_equal(s.batch, 1000);
    assert_int_equal(s.seed, 644);
    assert_string_equal(s.name, "no");
    assert_int_equal(s.shuffle, 0);
    assert_int_equal(s.workers, -1);
    assert_true(s.val_split == 0.1);
    assert_int_equal(s.size[0], 64);
    assert_int_equal(s.memory_limit, UINT64_C(2) << 30);
    assert_int_equal(s.split, 2);
    assert_string_equal(s.data, "null");
    stoke_options_free_storage(&storage);
    assert_null(storage);
    stoke_options_free_storage(&storage);
}

static void yaml_null_restores_the_default(void **state)
{
    settings s;
    stoke_option_group group = bind(&s);
    stoke_option_storage *storage;
    s.batch = 5;
    s.name = "other";
    static const char text[] = "batch: null\nname: ~\n";
    assert_int_equal(read_text(&group, "s", text, strlen(text), NULL, &storage, NULL), 0);
    assert_int_equal(s.batch, 32);
    assert_string_equal(s.name, "run");
    stoke_options_free_storage(&storage);
}

static void yaml_sections_and_foreign_parts(void **state)
{
    settings s;
    stoke_option_storage *storage;
    stoke_error err;
    int status = yaml(&s,
                      "data:\n  data: here\n  batch: 4\nloader: {workers: 3}\nname: x\n"
                      "augment:\n  - flip: {p: 0.5}\n  - [crop, 1, {a: b}]\ntrain: fast\n",
                      &storage, &err);
    assert_int_equal(status, 0);
    assert_string_equal(s.data, "here");
    assert_int_equal(s.batch, 4);
    assert_int_equal(s.workers, 3);
    stoke_options_free_storage(&storage);
    static const char *const nothing[] = { "", "\n", "# only a comment\n", "---\n", "--- ~\n", "{}\n" };
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        assert_int_equal(yaml(&s, nothing[i], &storage, &err), 0);
        stoke_options_free_storage(&storage);
    }
}

static void yaml_mistakes_name_the_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "batch: 3\nbath: 4\n", "s.yaml:2: unknown setting 'bath': did you mean batch?" },
        { "batch: 3\n\nbatch: 4\n", "s.yaml:3: batch is given twice (first in line 1)" },
        { "val_split: 0\nval-split: 0\n", "s.yaml:2: val-split is given twice (first in line 1)" },
        { "data: {batch: 3}\nbatch: 4\n", "s.yaml:2: batch is given twice (first in line 1)" },
        { "data: {}\ndata: {}\n", "s.yaml:2: data is given twice (first in line 1)" },
        { "train: 1\ntrain: 2\n", "s.yaml:2: train is given twice (first in line 1)" },
        { "batch: 0\n", "s.yaml:1: batch: '0' is out of range (1 to 4096)" },
        { "batch: [3]\n", "s.yaml:1: batch: one value is expected, not a list or section" },
        { "batch:\n  a: 3\n", "s.yaml:2: batch: one value is expected, not a list or section" },
        { "data:\n  data:\n    batch: 3\n", "s.yaml:3: data: one value is expected, not a list or section" },
        { "[a, b]\n", "s.yaml:1: expected settings such as `batch: 32`" },
        { "hello\n", "s.yaml:1: expected settings such as `batch: 32`" },
        { "? [a]\n: 3\n", "s.yaml:1: the name of a setting must be a single word" },
        { "~: 3\n", "s.yaml:1: a value without the name of a setting" },
        { "batch: 3\n---\nbatch: 4\n", "s.yaml:2: a second document starts here; one is accepted" },
        { "name: \"a\\0b\"\n", "s.yaml:1: a zero byte inside a value is not accepted" },
        { "unknown: {a: b}\n", "s.yaml:1: unknown setting 'unknown'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings s, before;
        stoke_option_storage *storage;
        stoke_error err = { 0 };
        bind(&before);
        assert_int_not_equal(yaml(&s, cases[i].text, &storage, &err), 0);
        assert_string_equal(err.message, cases[i].message);
        assert_null(storage);
        assert_memory_equal(&s, &before, sizeof s); /* a bad file changes nothing, however late the fault */
    }
}

static void yaml_refuses_machinery(void **state)
{
    static const char *const cases[] = {
        "batch: &a 3\n",  "name: *a\n",       "batch: !!int 3\n",   "train: &a {b: *a}\n",  "train: !x [1]\n",
        "train: !x {}\n", "batch: 'open\n",   "\xff\xfe\xff\xff\n", "name: \"\xc3\x28\"\n", "\tbatch: 3\n",
        "name: b: c\n",   "%YAML 9.9\n---\n", "name: 3\n  x: 4\n",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings s;
        stoke_option_storage *storage;
        stoke_error err = { 0 };
        assert_int_equal(yaml(&s, cases[i], &storage, &err), STOKE_E_FORMAT);
        assert_memory_equal(err.message, "s.yaml:", 7);
        assert_null(storage);
    }
}

static void yaml_limits_hold(void **state)
{
    settings s;
    stoke_option_group group = bind(&s);
    stoke_option_storage *storage;
    stoke_error err;
    char deep[600] = "train: ";
    memset(deep + 7, '[', 500);
    assert_int_equal(yaml(&s, deep, &storage, &err), STOKE_E_LIMIT);
    assert_string_equal(err.message, "s.yaml:1: nested deeper than 64 levels");
    size_t size = (4 << 20) + 1;
    char *large = calloc(1, size);
    memset(large, '#', size);
    assert_int_equal(read_text(&group, "s", large, size, NULL, &storage, &err), STOKE_E_LIMIT);
    free(large);
    for (int i = 0; i < 12; i++) { /* every allocation of ours fails once; what libyaml takes is its own */
        stk_mem_fail_after(i);
        int status = yaml(&s, "data: x\nname: y\nbatch: 3\n", &storage, &err);
        stk_mem_fail_after(-1);
        assert_true(status == 0 || status == STOKE_E_NOMEM);
        assert_true(i > 0 || status == STOKE_E_NOMEM);
        stoke_options_free_storage(&storage);
    }
}

static void yaml_file_errors(void **state)
{
    settings s;
    stoke_option_group group = bind(&s);
    stoke_option_storage *storage = (void *)1;
    stoke_yaml *tree = NULL;
    stoke_error err;
    assert_int_equal(stoke_config_open(&tree, unit_path(state, "none"), &err), STOKE_E_NOTFOUND);
    assert_null(tree);
    unit_write(unit_path(state, "empty"), "", 0);
    assert_int_equal(stoke_config_open(&tree, unit_path(state, "empty"), &err), 0);
    assert_int_equal(stk_own_read(tree, &group, 1, NULL, &storage, &err), 0);
    stoke_options_free_storage(&storage);
    stoke_yaml_close(&tree);
}

/* Property: what write_yaml writes, load_yaml reads back to the same values. */
static void written_yaml_reads_back(void **state)
{
    static const char *const strings[] = {
        NULL,
        "",
        "plain",
        "no",
        "~",
        "null",
        "0644",
        "a: b # c",
        "'q' \"d\" \\",
        "tab\tnew\nline",
        "\x01\x7f",
        "Pr\xc3\xbc"
        "fung \xe2\x82\xac \xf0\x9f\x9a\x82",
        "\xc2\x85 \xe2\x80\xa8 \xef\xbb\xbf \xef\xbf\xbe",
        " lead ",
        "&a",
        "*a",
        "!t",
        "- x",
        "%",
        "@",
        "[1]",
        "{a: b}",
    };
    uint64_t seed = 20260101;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < 500; i++) {
        settings s, back;
        stk_rng r = stk_philox(seed, i, 0, 9, 0), q = stk_philox(seed, i, 0, 9, 1);
        stoke_option_group group = bind(&s), other = bind(&back);
        s.shuffle = r.word[0] & 1;
        s.keep = r.word[0] >> 1 & 1;
        s.batch = 1 + r.word[1] % 4096;
        s.workers = (int64_t)(r.word[2] % 1026) - 1;
        s.seed = (int64_t)stk_pair(r.word[3], q.word[0]);
        s.val_split = stk_unit(q.word[1]) * 0.9;
        s.data = strings[q.word[2] % (sizeof strings / sizeof *strings)];
        s.name = strings[1 + q.word[3] % (sizeof strings / sizeof *strings - 1)];
        s.split = (int)(r.word[0] >> 2) % 3;
        s.memory_limit = stk_pair(q.word[0], r.word[1]) >> (11 + r.word[2] % 40);
        s.size[0] = 1 + r.word[3] % 4000;
        s.size[1] = 1 + q.word[3] % 4000;
        char *text;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        stoke_options_write_yaml(&group, 1, out);
        fclose(out);
        stoke_option_storage *storage;
        stoke_error err;
        int status = read_text(&other, "w", text, size, NULL, &storage, &err);
        if (status) fail_msg("%s\n%s", err.message, text);
        if (s.data)
            assert_string_equal(s.data, back.data);
        else
            assert_null(back.data);
        assert_string_equal(s.name, back.name);
        back.data = s.data;
        back.name = s.name;
        assert_memory_equal(&s, &back, sizeof s);
        stoke_options_free_storage(&storage);
        free(text);
    }
}

/* ---- text ---- */

static char *help_text(int columns)
{
    settings s;
    stoke_option_group group = bind(&s);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    stoke_options_print_help(&group, 1, columns, out);
    fclose(out);
    return text;
}

static void help_lists_and_wraps(void **state)
{
    char *text = help_text(80);
    assert_non_null(strstr(text, "Test:\n"));
    assert_non_null(strstr(text, "  --[no-]shuffle            Shuffle the samples (default true)\n"));
    assert_non_null(strstr(text, "  --keep                    Keep the last batch\n"));
    assert_non_null(strstr(text, "  --batch N                 Samples per batch (1 to 4096; default 32)\n"));
    assert_non_null(strstr(text, "  --split all|train|val     Which part (default all)\n"));
    assert_non_null(strstr(text, "  --workers N|auto          Worker threads (0 to 1024; default auto)\n"));
    free(text);
    text = help_text(50);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) assert_true(strlen(line) <= 50);
    free(text);
}

static void man_escapes_roff(void **state)
{
    static const stoke_option odd[] = {
        { "a_b", STOKE_OPT_STRING, 0, NULL, NULL, 0, 0, "x-y", ".starts with a \\ and a dot" },
    };
    const char *target;
    stoke_option_group group = { "T", odd, 1, &target };
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    stoke_options_print_man(&group, 1, out);
    fclose(out);
    assert_string_equal(text,
                        ".SS T\n.TP\n\\fB\\-\\-a\\-b\\fR \\fIx\\-y\\fR\n\\&.starts with a \\e and a dot.\n");
    free(text);
}

/* ---- numbers ---- */

static void reals_read_back(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        { 0, "0" },           { 0.1, "0.1" },
        { 1000, "1000" },     { -2.5, "-2.5" },
        { 1e300, "1e+300" },  { 1.0 / 3, "0.3333333333333333" },
        { 5e-324, "5e-324" }, { 123456789012.0, "123456789012" },
    };
    char text[STK_REAL_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(stk_format_real(cases[i].value, text), cases[i].text);
    for (uint64_t i = 0; i < 20000; i++) {
        stk_rng r = stk_philox(7, i, 0, 9, 0);
        uint64_t bits = stk_pair(r.word[0], r.word[1]);
        double value, back = 0;
        memcpy(&value, &bits, sizeof value);
        if (value - value != 0) continue; /* inf, nan */
        assert_int_equal(stk_parse_real(stk_format_real(value, text), &back), 1);
        assert_memory_equal(&value, &back, sizeof value);
    }
}

static void utf8_decoding(void **state)
{
    static const struct {
        const char *text;
        uint32_t code;
        int bytes;
    } cases[] = {
        { "a", 'a', 1 },
        { "", 0, 0 },
        { "\xc3\xbc", 0xfc, 2 },
        { "\xe2\x82\xac", 0x20ac, 3 },
        { "\xf0\x9f\x9a\x82", 0x1f682, 4 },
        { "\x80", STK_UTF8_BAD, 1 },
        { "\xc0\x80", STK_UTF8_BAD, 1 },
        { "\xe0\x80\x80", STK_UTF8_BAD, 1 },
        { "\xed\xa0\x80", STK_UTF8_BAD, 1 },
        { "\xf4\x90\x80\x80", STK_UTF8_BAD, 1 },
        { "\xe2\x82", STK_UTF8_BAD, 1 },
        { "\xff", STK_UTF8_BAD, 1 },
        { "\xf0\x9f", STK_UTF8_BAD, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *p = cases[i].text;
        assert_int_equal(stk_utf8_next(&p), cases[i].code);
        assert_int_equal(p - cases[i].text, cases[i].bytes);
    }
}

UNIT_GROUP(options)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_from_the_table),
        cmocka_unit_test(good_values),
        cmocka_unit_test(bad_values_say_what_is_accepted),
        cmocka_unit_test(unknown_names_get_a_suggestion),
        cmocka_unit_test(argv_takes_every_form),
        cmocka_unit_test(argv_values_may_look_odd),
        cmocka_unit_test(argv_help_stops),
        cmocka_unit_test(argv_mistakes_are_explained),
        cmocka_unit_test(yaml_scalars_mean_what_they_say),
        cmocka_unit_test(yaml_null_restores_the_default),
        cmocka_unit_test(yaml_sections_and_foreign_parts),
        cmocka_unit_test(yaml_mistakes_name_the_line),
        cmocka_unit_test(yaml_refuses_machinery),
        cmocka_unit_test(yaml_limits_hold),
        unit_test_with_folder(yaml_file_errors),
        cmocka_unit_test(written_yaml_reads_back),
        cmocka_unit_test(help_lists_and_wraps),
        cmocka_unit_test(man_escapes_roff),
        cmocka_unit_test(reals_read_back),
        cmocka_unit_test(utf8_decoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
