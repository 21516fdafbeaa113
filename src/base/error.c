/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}

int stk_fail_errno(stoke_error *err, int code, int number, const char *format, ...)
{
    if (!err) return code;
    va_list args;
    va_start(args, format);
    err->code = code;
    int n = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    char reason[128];
    /* GNU strerror_r may return a static string instead of filling the buffer. */
    const char *text = strerror_r(number, reason, sizeof reason);
    if (n >= 0 && (size_t)n < sizeof err->message)
        snprintf(err->message + n, sizeof err->message - (size_t)n, ": %s", text);
    return code;
}

void stk_error_prefix(stoke_error *err, const char *prefix)
{
    if (!err) return;
    char reason[STOKE_ERROR_TEXT];
    memcpy(reason, err->message, sizeof reason);
    /* A path can be longer than the message: cut the path's front, never the reason. */
    size_t room = sizeof err->message - 3, want = strlen(reason), have = strlen(prefix);
    if (want > room / 2) want = room / 2;
    const char *tail = have > room - want ? prefix + (have - (room - want)) : prefix;
    snprintf(err->message, sizeof err->message, "%s: %.*s", tail, (int)want, reason);
}
