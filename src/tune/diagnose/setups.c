/* SPDX-License-Identifier: Apache-2.0
 *
 * How a loop is run, as a struct, as a sentence, and changed by a line of text.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <stoke/tools/diagnose.h>

#include "src/base/error.h"
#include "src/base/number.h"

enum { WORD = 48 }; /* the longest sensible one, "placement=device", is a third of it */

/* The library's own defaults for an upload and a loader, except what those leave to measuring. */
stoke_setup stoke_setup_defaults(void)
{
    return (stoke_setup){
        .struct_size = sizeof(stoke_setup),
        .batch = 8,
        .workers = 1,
        .prefetch = 2,
        .depth = 2,
        .placement = STOKE_PLACEMENT_HOST,
        .transfer = STOKE_TRANSFER_STREAM,
        .persistent = 1,
    };
}

int stoke_setup_text(const stoke_setup *setup, char *text, size_t size)
{
    static const char *const copies[] = { "copies on a stream of their own", "pinned copies",
                                          "pageable copies" };
    const unsigned transfer = (unsigned)setup->transfer;
    char workers[64];
    if (!setup->workers)
        snprintf(workers, sizeof workers, "no workers");
    else
        snprintf(workers, sizeof workers, "%u worker%s%s, %u ahead", setup->workers,
                 setup->workers == 1 ? "" : "s", setup->persistent ? "" : " started again every epoch",
                 setup->prefetch);
    return snprintf(text, size, "%s, augmenting on the %s, %s%s", workers,
                    setup->placement == STOKE_PLACEMENT_DEVICE ? "device" : "host",
                    transfer < 3 ? copies[transfer] : "copies of an unknown kind",
                    setup->sync ? ", waits for every step" : "");
}

/* ---- changes ---- */

typedef struct field {
    const char *name;
    size_t offset;
    const char *choices; /* "a|b", in the order of their values; NULL: a number */
    uint32_t min, max;
} field;

#define FIELD(name) #name, offsetof(stoke_setup, name)
static const field fields[] = {
    { FIELD(batch), NULL, 1, 1048576 },
    { FIELD(workers), NULL, 0, 1024 },
    { FIELD(prefetch), NULL, 1, 16384 }, /* 1024 workers of PyTorch with 16 each */
    { FIELD(depth), NULL, 1, 64 },
    { FIELD(placement), "host|device", 0, 0 },
    { FIELD(transfer), "stream|pinned|pageable", 0, 0 },
    { FIELD(persistent), "no|yes", 0, 0 },
    { FIELD(sync), "no|yes", 0, 0 },
    { FIELD(by_batch), "no|yes", 0, 0 },
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int is_blank(char c)
{
    return c == ' ' || c == ',' || c == '\t' || c == '\n' || c == '\r';
}

/* The n-th of "a|b|c"; -1: the word is none of them. */
static int choice_of(const char *choices, const char *word)
{
    const size_t length = strlen(word);
    for (int n = 0;; n++) {
        const size_t width = strcspn(choices, "|");
        if (width == length && !memcmp(choices, word, width)) return n;
        if (!choices[width]) return -1;
        choices += width + 1;
    }
}

static int assign(stoke_setup *setup, const char *name, const char *value, stoke_error *err)
{
    const field *f = fields;
    stk_did_you_mean near = stk_did_you_mean_to(name);
    for (; f < fields + FIELDS && strcmp(f->name, name); f++) stk_did_you_mean_try(&near, f->name);
    if (f == fields + FIELDS)
        return stk_fail(
            err, STOKE_E_INVALID,
            "a setup has no \"%s\"%s%s%s: it has batch, workers, prefetch, depth, placement, transfer, "
            "persistent, sync and by_batch",
            name, near.best ? "; did you mean " : "", near.best ? near.best : "", near.best ? "?" : "");
    void *place = (char *)setup + f->offset;
    if (f->choices) {
        const int choice = choice_of(f->choices, value);
        if (choice < 0)
            return stk_fail(err, STOKE_E_INVALID, "%s=%s: %s is one of %s", name, value, name, f->choices);
        memcpy(place, &choice, sizeof choice);
        return STOKE_OK;
    }
    int64_t number;
    if (!stk_parse_int(value, &number) || number < f->min || number > f->max)
        return stk_fail(err, STOKE_E_INVALID, "%s=%s: %s is a whole number from %u to %u", name, value, name,
                        f->min, f->max);
    const uint32_t narrow = (uint32_t)number;
    memcpy(place, &narrow, sizeof narrow);
    return STOKE_OK;
}

/* Takes the next word off *text; 0 = there is none. */
static int next_word(const char **text, char word[WORD], int *too_long)
{
    const char *p = *text;
    size_t n = 0;
    *too_long = 0;
    while (is_blank(*p)) p++;
    for (; *p && !is_blank(*p) && !*too_long; p++) {
        *too_long = n == WORD - 1;
        if (!*too_long) word[n++] = *p;
    }
    word[n] = 0;
    *text = p;
    return n > 0;
}

int stoke_setup_change(stoke_setup *setup, const char *text, stoke_error *err)
{
    stoke_setup changed = *setup;
    char word[WORD];
    int too_long;
    while (next_word(&text, word, &too_long)) {
        char *equals = strchr(word, '=');
        if (too_long || !equals || equals == word || !equals[1])
            return stk_fail(err, STOKE_E_INVALID,
                            "\"%s%s\" does not change a setup: write name=value, as in workers=2 or "
                            "transfer=stream",
                            word, too_long ? "..." : "");
        *equals = 0;
        const int r = assign(&changed, word, equals + 1, err);
        if (r) return r;
    }
    *setup = changed;
    return STOKE_OK;
}
