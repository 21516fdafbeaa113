/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/terminal.h"

static const struct {
    int code;
    const char *name;
} names[] = {
    { STOKE_OK, "ok" },
    { STOKE_E_INVALID, "invalid" },
    { STOKE_E_NOMEM, "no-memory" },
    { STOKE_E_IO, "io" },
    { STOKE_E_FORMAT, "format" },
    { STOKE_E_UNSUPPORTED, "unsupported" },
    { STOKE_E_LIMIT, "limit" },
    { STOKE_E_LABEL, "label" },
    { STOKE_E_SIZE, "size" },
    { STOKE_E_NOTFOUND, "not-found" },
    { STOKE_E_TOO_BAD, "too-bad" },
    { STOKE_E_STATE, "state" },
    { STOKE_E_STARVED, "starved" },
    { STOKE_E_CANCELLED, "cancelled" },
    { STOKE_E_END, "end" },
    { STOKE_E_DEVICE, "device" },
    { STOKE_E_TIMEOUT, "timeout" },
    { STOKE_E_RESOURCES, "resources" },
};

const char *stoke_status_name(int status)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == status) return names[i].name;
    return "unknown";
}

#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)

const char *stoke_version(void)
{
    return TEXT(STOKE_VERSION_MAJOR) "." TEXT(STOKE_VERSION_MINOR) "." TEXT(STOKE_VERSION_PATCH);
}

int stk_fail(stoke_error *err, int code, const char *format, ...)
{
    if (!err) return code;
    va_list args;
    va_start(args, format);
    err->code = code;
    stoke_text_vformat(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}

static const char *what_to_do(int number)
{
    switch (number) {
    case EMFILE: return ": close some of what this process has open, or raise its limit (`ulimit -n`)";
    case ENFILE: return ": the whole machine has none left; end programs, or raise fs.file-max";
    case EAGAIN: return ": end threads or processes, or raise their limit (`ulimit -u`)";
    case ENOLCK: return ": the machine has none left; end programs that hold locks";
    default: return "";
    }
}

int stk_fail_errno(stoke_error *err, int code, int number, const char *format, ...)
{
    if (stk_is_shortage(number)) code = number == ENOMEM ? STOKE_E_NOMEM : STOKE_E_RESOURCES;
    if (!err) return code;
    va_list args;
    va_start(args, format);
    err->code = code;
    int n = stoke_text_vformat(err->message, sizeof err->message, format, args);
    va_end(args);
    char reason[128];
    /* GNU strerror_r may return a static string instead of filling the buffer. */
    const char *text = strerror_r(number, reason, sizeof reason);
    if (n >= 0 && (size_t)n < sizeof err->message)
        snprintf(err->message + n, sizeof err->message - (size_t)n, ": %s%s", text, what_to_do(number));
    return code;
}

int stk_is_want(int status)
{
    return status == STOKE_E_NOMEM || status == STOKE_E_RESOURCES;
}

int stk_fail_struct(stoke_error *err, const char *maker)
{
    return stk_fail(err, STOKE_E_INVALID, "struct_size: begin with %s() of this version", maker);
}

int stk_fail_again(stoke_error *err, int code, const char *message)
{
    if (!err) return code;
    err->code = code;
    if (message != err->message) snprintf(err->message, sizeof err->message, "%s", message);
    return code;
}

void stk_error_add(stoke_error *err, const char *format, ...)
{
    if (!err) return;
    const size_t used = strlen(err->message);
    va_list args;
    va_start(args, format);
    stoke_text_vformat(err->message + used, sizeof err->message - used, format, args);
    va_end(args);
}

int stk_error_add_entry(stoke_error *err, const char *entry)
{
    enum { REST = sizeof "\n  ... and 18446744073709551615 more" };
    const size_t used = strlen(err->message);
    const size_t room = sizeof err->message - used;
    if (room <= REST || (size_t)stoke_text_format(NULL, 0, "\n  %s", entry) >= room - REST) return 0;
    stk_error_add(err, "\n  %s", entry);
    return 1;
}

void stk_error_add_lines(stoke_error *err, const char *text, size_t bytes)
{
    for (const char *end = text + bytes; text < end;) {
        const size_t n = strcspn(text, "\n"), line = n < (size_t)(end - text) ? n : (size_t)(end - text);
        if (line) stk_error_add(err, "\n  %.*s", (int)line, text);
        text += line + 1;
    }
}

void stk_error_prefix(stoke_error *err, const char *prefix)
{
    if (!err) return;
    enum { MOST = STOKE_ERROR_TEXT }; /* bytes of the prefix that can matter; one becomes 4 at most, \xff */
    char reason[STOKE_ERROR_TEXT], shown[4 * MOST + 1];
    memcpy(reason, err->message, sizeof reason);
    /* A path can be longer than the message: cut the path's front, never the reason; but a list at its end
     * loses whole lines. */
    size_t room = sizeof err->message - 3, want = strlen(reason), have = strlen(prefix);
    stoke_text_format(shown, sizeof shown, "%s", have > MOST ? prefix + (have - MOST) : prefix);
    have = strlen(shown);
    const size_t left = room - (have < room / 2 ? have : room / 2);
    if (want > left) {
        reason[left] = 0;
        const char *line = strrchr(reason, '\n');
        want = line ? (size_t)(line - reason) : left;
    }
    const char *tail = have > room - want ? shown + (have - (room - want)) : shown;
    while (((unsigned char)*tail & 0xc0) == 0x80) tail++; /* not from the middle of a character */
    snprintf(err->message, sizeof err->message, "%.*s: %.*s", (int)(room - want), tail, (int)want, reason);
}

static char plain(char c)
{
    return c == '-' ? '_' : c;
}

/* Edits (insert, delete, replace, swap neighbours) from a to b; both at most NAME_MAX_LENGTH long. */
enum { NAME_MAX_LENGTH = 40 };
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[3][NAME_MAX_LENGTH + 1];
    unsigned *older = row[0], *above = row[1], *now = row[2];
    size_t n = strlen(b);
    for (unsigned j = 0; j <= n; j++) above[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        now[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            uint64_t edits = stk_least(above[j], now[j - 1]) + 1;
            edits = stk_least(edits, above[j - 1] + (plain(a[i - 1]) != b[j - 1]));
            if (i > 1 && j > 1 && plain(a[i - 1]) == b[j - 2] && plain(a[i - 2]) == b[j - 1])
                edits = stk_least(edits, older[j - 2] + 1);
            now[j] = (unsigned)edits;
        }
        unsigned *spare = older;
        older = above;
        above = now;
        now = spare;
    }
    return above[n];
}

/* Someone who typed the first letters ("mem") or too much ("batch_size") means the name that begins alike. */
static int begins_alike(const char *known, const char *name, size_t length)
{
    size_t same = 0;
    while (same < length && known[same] == plain(name[same])) same++;
    return same >= 3 && (same == length || (!known[same] && plain(name[same]) == '_'));
}

stk_did_you_mean stk_did_you_mean_to(const char *typed)
{
    const size_t length = strlen(typed);
    /* A third of the letters may be wrong; more is a guess, and a wrong guess is worse than none. */
    const unsigned limit = length && length <= NAME_MAX_LENGTH ? (unsigned)(length + 2) / 3 + 1 : 0;
    return (stk_did_you_mean){ typed, NULL, limit };
}

void stk_did_you_mean_try(stk_did_you_mean *nearest, const char *known)
{
    if (!nearest->distance || strlen(known) > NAME_MAX_LENGTH) return;
    const unsigned distance = begins_alike(known, nearest->typed, strlen(nearest->typed))
                                  ? 1
                                  : edit_distance(nearest->typed, known);
    if (distance >= nearest->distance) return;
    nearest->distance = distance;
    nearest->best = known;
}
