/* SPDX-License-Identifier: Apache-2.0
 *
 * One setting from text and back. Every way in (argv, YAML, default text, the API) ends here, so a value
 * means the same wherever it is written.
 */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/number.h"
#include "src/base/option_table.h"
#include "src/base/words.h"

/* Long values are cut in messages: the reason at the end has to stay visible. */
#define SHOWN "%.80s"

/* The n-th of "a|b|c": its start and length; 0 when there are fewer. */
static int option_choice(const char *choices, int index, const char **word, size_t *length)
{
    const char *p = choices;
    for (; index > 0 && p; index--) {
        p = strchr(p, '|');
        if (p) p++;
    }
    if (!p || index < 0) return 0;
    *word = p;
    *length = strcspn(p, "|");
    return 1;
}

void stk_option_choices(const char *choices, char *text, size_t size)
{
    const char *word, *next;
    size_t length, unused, used = 0;
    text[0] = 0;
    for (int i = 0; option_choice(choices, i, &word, &length) && used < size; i++) {
        int last = !option_choice(choices, i + 1, &next, &unused);
        used += (size_t)snprintf(text + used, size - used, "%s%.*s",
                                 !i     ? ""
                                 : last ? " or "
                                        : ", ",
                                 (int)length, word);
    }
}

void stk_option_range(const stoke_option *option, char *text, size_t size)
{
    char low[STK_REAL_TEXT], high[STK_REAL_TEXT];
    text[0] = 0;
    if (option->min == 0 && option->max == 0) return;
    int no_low = option->min <= (double)INT64_MIN, no_high = option->max >= (double)INT64_MAX;
    if (!no_low) stk_format_real(option->min, low);
    if (!no_high) stk_format_real(option->max, high);
    if (!no_low && !no_high)
        snprintf(text, size, "%s to %s", low, high);
    else if (!no_low)
        snprintf(text, size, "at least %s", low);
    else if (!no_high)
        snprintf(text, size, "at most %s", high);
}

static int in_range(const stoke_option *option, double value)
{
    return (option->min == 0 && option->max == 0) || (value >= option->min && value <= option->max);
}

/* `wrong` says what is wrong with the value; what would be right is added from the table. */
static int bad_number(const stoke_option *option, const char *shown, const char *value, const char *wrong,
                      stoke_error *err)
{
    char range[80];
    stk_option_range(option, range, sizeof range);
    int automatic = option->type == STOKE_OPT_AUTO_INT;
    return stk_fail(err, STOKE_E_INVALID, "%s: '" SHOWN "' is %s%s%s%s%s", shown, value, wrong,
                    *range || automatic ? " (" : "", range, *range && automatic ? ", or " : "",
                    automatic ? "auto)"
                    : *range  ? ")"
                              : "");
}

static int assign_flag(int *field, const char *shown, const char *value, stoke_error *err)
{
    const int truth = stk_is_one_of_any_case(value, "true yes on 1");
    if (!truth && !stk_is_one_of_any_case(value, "false no off 0"))
        return stk_fail(err, STOKE_E_INVALID, "%s: '" SHOWN "' is neither true nor false", shown, value);
    *field = truth;
    return STOKE_OK;
}

static int assign_int(const stoke_option *option, int64_t *field, const char *shown, const char *value,
                      stoke_error *err)
{
    int64_t number;
    if (option->type == STOKE_OPT_AUTO_INT && !strcasecmp(value, "auto"))
        number = -1;
    else if (!stk_parse_int(value, &number))
        return bad_number(option, shown, value, "not a whole number", err);
    else if (!in_range(option, (double)number))
        return bad_number(option, shown, value, "out of range", err);
    *field = number;
    return STOKE_OK;
}

static int assign_real(const stoke_option *option, double *field, const char *shown, const char *value,
                       stoke_error *err)
{
    double number;
    if (!stk_parse_real(value, &number)) return bad_number(option, shown, value, "not a number", err);
    if (!in_range(option, number)) return bad_number(option, shown, value, "out of range", err);
    *field = number;
    return STOKE_OK;
}

/* One end of a range, written in `length` bytes of a longer text. */
static int parse_end(const char *text, size_t length, double *value)
{
    char copy[STK_REAL_TEXT];
    if (length >= sizeof copy) return 0;
    memcpy(copy, text, length);
    copy[length] = 0;
    return stk_parse_real(copy, value);
}

static int assign_range(const stoke_option *option, double field[2], const char *shown, const char *value,
                        stoke_error *err)
{
    double low, high;
    const char *between = strstr(value, ".."), *comma = strchr(value, ',');
    if (!between && !comma) {
        if (!stk_parse_real(value, &high))
            return bad_number(option, shown, value, "neither a number nor a range such as 0.5..1.5", err);
        low = option->type == STOKE_OPT_SPREAD ? 0 - high : high; /* 0 -: never -0 */
    } else {
        const char *first_end = between ? between : comma, *second = first_end + (between ? 2 : 1);
        if (!parse_end(value, (size_t)(first_end - value), &low) || !stk_parse_real(second, &high))
            return bad_number(option, shown, value, "not a range such as 0.5..1.5", err);
    }
    if (low > high) return bad_number(option, shown, value, "a range that ends before it begins", err);
    if (!in_range(option, low) || !in_range(option, high))
        return bad_number(option, shown, value, "out of range", err);
    field[0] = low;
    field[1] = high;
    return STOKE_OK;
}

static int assign_choice(const stoke_option *option, int *field, const char *shown, const char *value,
                         stoke_error *err)
{
    const char *word;
    size_t length;
    for (int i = 0; option_choice(option->choices, i, &word, &length); i++)
        if (strlen(value) == length && !strncasecmp(value, word, length)) {
            *field = i;
            return STOKE_OK;
        }
    char list[512];
    stk_option_choices(option->choices, list, sizeof list);
    return stk_fail(err, STOKE_E_INVALID, "%s: '" SHOWN "' is not one of %s", shown, value, list);
}

/* Shift of a unit "", "B", "K", "KB", "KiB" ... "TiB"; -1 = no such unit. */
static int unit_shift(const char *unit)
{
    static const char letters[] = "KMGT";
    int shift = 0;
    const char *letter = *unit ? strchr(letters, *unit & ~0x20) : NULL;
    if (letter) {
        shift = 10 * (int)(letter - letters + 1);
        unit++;
        if (!strcasecmp(unit, "ib")) return shift;
    }
    return !*unit || !strcasecmp(unit, "b") ? shift : -1;
}

static int assign_bytes(uint64_t *field, const char *shown, const char *value, stoke_error *err)
{
    char digits[32];
    double number;
    size_t n = strspn(value, "0123456789.");
    int shift = unit_shift(value + n + (value[n] == ' '));
    if (n && n < sizeof digits && shift >= 0) {
        memcpy(digits, value, n);
        digits[n] = 0;
        if (stk_parse_real(digits, &number)) {
            number *= (double)(UINT64_C(1) << shift);
            /* 2^53: beyond it a double no longer holds every byte count (and nobody has 8 PiB of memory). */
            if (number > 9007199254740992.0)
                return stk_fail(err, STOKE_E_INVALID, "%s: " SHOWN " is too large (at most 8192T)", shown,
                                value);
            *field = (uint64_t)number;
            return STOKE_OK;
        }
    }
    return stk_fail(err, STOKE_E_INVALID,
                    "%s: '" SHOWN "' is not a number of bytes such as 512, 64K, 1.5G or 2GiB", shown, value);
}

/* One side: digits up to `end`. 2^20 pixels is far beyond any batch and keeps later products small. */
enum { SIDE_MAX = 1 << 20 };
static int parse_side(const char *text, const char *end, uint32_t *side)
{
    uint32_t number = 0;
    if (text == end) return 0;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9') return 0;
        number = number * 10 + (uint32_t)(*text - '0');
        if (number > SIDE_MAX) return 0;
    }
    *side = number;
    return 1;
}

static int assign_size(uint32_t field[2], const char *shown, const char *value, stoke_error *err)
{
    uint32_t side[2] = { 0, 0 };
    const char *end = value + strlen(value), *cross = value + strcspn(value, "xX");
    int good = parse_side(value, cross, &side[0]);
    if (cross == end)
        side[1] = side[0];
    else
        good = good && parse_side(cross + 1, end, &side[1]);
    if (!good || (side[0] == 0) != (side[1] == 0))
        return stk_fail(err, STOKE_E_INVALID,
                        "%s: '" SHOWN
                        "' is not a size: write N or HEIGHTxWIDTH, such as 512 or 384x512 (at most %d)",
                        shown, value, SIDE_MAX);
    memcpy(field, side, sizeof side);
    return STOKE_OK;
}

int stk_option_assign(stk_option_hit hit, const char *shown, const char *value, stoke_error *err)
{
    void *field = hit.field;
    value = stk_option_word(hit.option->name, value);
    switch (hit.option->type) {
    case STOKE_OPT_FLAG: return assign_flag(field, shown, value, err);
    case STOKE_OPT_INT:
    case STOKE_OPT_AUTO_INT: return assign_int(hit.option, field, shown, value, err);
    case STOKE_OPT_REAL: return assign_real(hit.option, field, shown, value, err);
    case STOKE_OPT_STRING: *(const char **)field = value; return STOKE_OK;
    case STOKE_OPT_CHOICE: return assign_choice(hit.option, field, shown, value, err);
    case STOKE_OPT_BYTES: return assign_bytes(field, shown, value, err);
    case STOKE_OPT_SIZE: return assign_size(field, shown, value, err);
    case STOKE_OPT_RANGE:
    case STOKE_OPT_SPREAD: return assign_range(hit.option, field, shown, value, err);
    }
    return stk_fail(err, STOKE_E_INVALID, "%s: the option table has an unknown type %d", shown,
                    hit.option->type);
}

static const uint8_t field_bytes[] = {
    [STOKE_OPT_FLAG] = sizeof(int),         [STOKE_OPT_CHOICE] = sizeof(int),
    [STOKE_OPT_INT] = sizeof(int64_t),      [STOKE_OPT_AUTO_INT] = sizeof(int64_t),
    [STOKE_OPT_REAL] = sizeof(double),      [STOKE_OPT_STRING] = sizeof(char *),
    [STOKE_OPT_BYTES] = sizeof(uint64_t),   [STOKE_OPT_SIZE] = 2 * sizeof(uint32_t),
    [STOKE_OPT_RANGE] = 2 * sizeof(double), [STOKE_OPT_SPREAD] = 2 * sizeof(double)
};

void stk_option_reset(stk_option_hit hit)
{
    memset(hit.field, 0, field_bytes[hit.option->type]);
    /* A default that does not parse is a fault of the table; the field stays zero, and tests check every
     * table. */
    if (hit.option->default_text) stk_option_assign(hit, hit.option->name, hit.option->default_text, NULL);
}

const char *stk_option_text(const stoke_option *option, const void *target, char text[STK_OPTION_TEXT])
{
    const void *field = (const char *)target + option->offset;
    const uint32_t *size = field;
    const double *range = field;
    char low[STK_REAL_TEXT], high[STK_REAL_TEXT];
    uint64_t bytes;
    int unit = 0;
    const char *word = "";
    size_t length = 0;
    int64_t number = 0;
    switch (option->type) {
    case STOKE_OPT_FLAG: return *(const int *)field ? "true" : "false";
    case STOKE_OPT_STRING: return *(const char *const *)field;
    case STOKE_OPT_REAL: return stk_format_real(*(const double *)field, text);
    case STOKE_OPT_BYTES: /* the largest unit that divides the count reads back exactly: 1.5 GiB as "1536M" */
        for (bytes = *(const uint64_t *)field; bytes && unit < 4 && bytes % 1024 == 0; unit++) bytes /= 1024;
        snprintf(text, STK_OPTION_TEXT, unit ? "%" PRIu64 "%c" : "%" PRIu64, bytes, " KMGT"[unit]);
        return text;
    case STOKE_OPT_RANGE:
    case STOKE_OPT_SPREAD: /* "0.8..1.2", or one number where one says it all */
        stk_format_real(range[0], low);
        stk_format_real(range[1], high);
        if (range[0] == (option->type == STOKE_OPT_SPREAD ? -range[1] : range[1]))
            snprintf(text, STK_OPTION_TEXT, "%s", high);
        else
            snprintf(text, STK_OPTION_TEXT, "%s..%s", low, high);
        return text;
    case STOKE_OPT_CHOICE:
        option_choice(option->choices, *(const int *)field, &word, &length);
        snprintf(text, STK_OPTION_TEXT, "%.*s", (int)length, word);
        return text;
    case STOKE_OPT_SIZE:
        if (size[0] == size[1])
            snprintf(text, STK_OPTION_TEXT, "%" PRIu32, size[0]);
        else
            snprintf(text, STK_OPTION_TEXT, "%" PRIu32 "x%" PRIu32, size[0], size[1]);
        return text;
    case STOKE_OPT_INT:
    case STOKE_OPT_AUTO_INT:
        memcpy(&number, field, sizeof number);
        if (option->type == STOKE_OPT_AUTO_INT && number == -1) return "auto";
        snprintf(text, STK_OPTION_TEXT, "%" PRId64, number);
        return text;
    }
    return "";
}

/* By way of the text: what is allowed then stands in one place. */
int stk_options_check(const stoke_option_group *group, stoke_error *err)
{
    for (size_t i = 0; i < group->count; i++) {
        const stoke_option *option = &group->options[i];
        if (option->type == STOKE_OPT_STRING || option->type == STOKE_OPT_FLAG) continue;
        char text[STK_OPTION_TEXT];
        stk_option_value scratch;
        int r = stk_option_assign((stk_option_hit){ option, &scratch }, option->name,
                                  stk_option_text(option, group->target, text), err);
        if (r) return r;
    }
    return STOKE_OK;
}
