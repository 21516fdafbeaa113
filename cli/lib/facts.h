/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts for programs: a key and a value whose type says how it is written, so that neither is told twice.
 *
 *     stoke_json json = cli_json_open();
 *     FACTS(&json, FACT_OF(report, samples), FACT_IS("original", report->original));
 *     FACTS_OBJECT(&json, "seconds", FACT("all", s->seconds), FACT("data", s->data_seconds));
 *     stoke_json_close(&json);
 *
 * For facts that people see as rows with a label and a source there is cli/lib/page.h, which writes both.
 */
#ifndef STOKE_CLI_LIB_FACTS_H
#define STOKE_CLI_LIB_FACTS_H

#include <stoke/tools/report.h>

typedef enum cli_fact_kind {
    CLI_FACT_END,
    CLI_FACT_NONE, /* left out */
    CLI_FACT_TEXT, /* NULL is null */
    CLI_FACT_INT,
    CLI_FACT_UINT,
    CLI_FACT_REAL, /* NaN is null */
    CLI_FACT_BOOL,
    CLI_FACT_PAIR /* [height, width] */
} cli_fact_kind;

typedef struct cli_fact {
    const char *key; /* NULL inside arrays */
    cli_fact_kind kind;
    union {
        const char *text;
        int64_t integer;
        uint64_t count, pair[2];
        double real;
    };
} cli_fact;

static inline cli_fact cli_fact_text(const char *key, const char *value)
{
    return (cli_fact){ .key = key, .kind = CLI_FACT_TEXT, .text = value };
}
static inline cli_fact cli_fact_int(const char *key, int64_t value)
{
    return (cli_fact){ .key = key, .kind = CLI_FACT_INT, .integer = value };
}
static inline cli_fact cli_fact_uint(const char *key, uint64_t value)
{
    return (cli_fact){ .key = key, .kind = CLI_FACT_UINT, .count = value };
}
static inline cli_fact cli_fact_real(const char *key, double value)
{
    return (cli_fact){ .key = key, .kind = CLI_FACT_REAL, .real = value };
}

#define FACT(key, value)                                                                                     \
    _Generic((value),                                                                                        \
        char *: cli_fact_text,                                                                               \
        const char *: cli_fact_text,                                                                         \
        int: cli_fact_int,                                                                                   \
        long: cli_fact_int,                                                                                  \
        unsigned: cli_fact_uint,                                                                             \
        unsigned char: cli_fact_uint,                                                                        \
        unsigned short: cli_fact_uint,                                                                       \
        unsigned long: cli_fact_uint,                                                                        \
        float: cli_fact_real,                                                                                \
        double: cli_fact_real)(key, value)
/* A member under its own name. */
#define FACT_OF(record, member) FACT(#member, (record)->member)
/* true or false. */
#define FACT_IS(name, value)       ((cli_fact){ .key = (name), .kind = CLI_FACT_BOOL, .integer = (value) != 0 })
#define FACT_IS_OF(record, member) FACT_IS(#member, (record)->member)
/* null where the text is empty. */
#define FACT_TEXT(name, value) cli_fact_text(name, *(value) ? (value) : NULL)
/* null where there is none. */
#define FACT_COUNT(name, value) ((value) ? cli_fact_uint(name, value) : cli_fact_text(name, NULL))
/* Left out unless `condition` holds. */
#define FACT_IF(condition, fact) ((condition) ? (fact) : (cli_fact){ .kind = CLI_FACT_NONE })
/* [height, width] */
#define FACT_SIZE(name, height, width)                                                                       \
    ((cli_fact){ .key = (name), .kind = CLI_FACT_PAIR, .pair = { (height), (width) } })

/* Facts of the object that is open; all values are computed before the first is written. */
#define FACTS(json, ...) cli_json_facts(json, (const cli_fact[]){ __VA_ARGS__, { .kind = CLI_FACT_END } })
#define FACTS_OBJECT(json, key, ...)                                                                         \
    (stoke_json_object(json, key), FACTS(json, __VA_ARGS__), stoke_json_close(json))

/* A loop that writes an array: one element each time, with its index, for as long as `goes_on` says. Leave it
 * by no other way. */
#define JSON_LIST(json, key, index, goes_on)                                                                 \
    for (size_t index = (stoke_json_array(json, key), 0); (goes_on) || (stoke_json_close(json), 0); index++)

/* An object on standard output, to be closed. */
stoke_json cli_json_open(void);
void cli_json_facts(stoke_json *json, const cli_fact *facts);

#endif
