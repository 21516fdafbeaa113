/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing the journal of a batch search.
 */
#include "src/tune/batch/trial_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/json_read.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include <stoke/tools/report.h>

/* A line has 700 bytes at most, a search 64 of them; what is larger was not written here. */
enum { JOURNAL_BYTES = 256 * 1024, LINE_BYTES = 4096, LINE_VALUES = 64 };

static int write_line(const stk_trial_log *j, char *line, size_t length, stoke_error *err)
{
    ssize_t n;
    line[length++] = '\n';
    do n = write(j->file, line, length);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)length || fsync(j->file) != 0)
        return stk_fail_errno(err, STOKE_E_IO, n >= 0 && n != (ssize_t)length ? ENOSPC : errno,
                              "%s: a trial cannot be written down", j->path);
    return STOKE_OK;
}

static int write_key(const stk_trial_log *j, const char *key, stoke_error *err)
{
    char line[LINE_BYTES];
    FILE *out = fmemopen(line, sizeof line - 1, "w");
    if (!out) return stk_fail(err, STOKE_E_NOMEM, "no memory for a line of the journal");
    stoke_json json;
    stoke_json_begin(&json, out, 0);
    stoke_json_object(&json, NULL);
    stoke_json_int(&json, "stoke_trial_log", 1);
    stoke_json_string(&json, "key", key);
    stoke_json_close(&json);
    fclose(out);
    return write_line(j, line, strcspn(line, "\n"), err);
}

/* 1: a journal's first line, with this key; 0: with another; -1: it is none. */
static int same_key(const char *line, size_t length, const char *key)
{
    stk_json json;
    uint64_t version = 0;
    if (length > LINE_BYTES || stk_json_read(&json, line, length, LINE_VALUES, NULL)) return -1;
    const stk_json_value *root = &json.values[0];
    const char *text = stk_json_text(&json, stk_json_find(&json, root, "key"));
    const int is_one = stk_json_uint(&json, stk_json_find(&json, root, "stoke_trial_log"), &version) && text;
    const int same = is_one ? version == 1 && !strcmp(text, key) : -1;
    stk_json_free(&json);
    return same;
}

/* Lines that are no trials are passed over: the ones around them are whole. */
static void keep_trials(stk_trial_log *j, const char *text, const char *end)
{
    const char *line = text, *stop;
    for (; (stop = memchr(line, '\n', (size_t)(end - line))); line = stop + 1) {
        stoke_trial trial;
        const size_t length = (size_t)(stop - line);
        if (j->n_kept == STOKE_TRIALS) return;
        if (length > LINE_BYTES || stoke_trial_parse(&trial, line, length, NULL)) continue;
        const int tells = trial.outcome == STOKE_OUTCOME_OK || trial.outcome == STOKE_OUTCOME_OOM ||
                          trial.outcome == STOKE_OUTCOME_HOST_OOM;
        if (tells) j->kept[j->n_kept++] = trial;
    }
}

/* Everything up to the last whole line; sets *whole to how long that is. */
static int take_over(stk_trial_log *j, const char *text, size_t size, const char *key, size_t *whole,
                     stoke_error *err)
{
    const char *first = memchr(text, '\n', size), *last = memrchr(text, '\n', size);
    *whole = 0;
    /* Half of a first line is what a search that was killed at once leaves; anything else is not ours. */
    const int same = first ? same_key(text, (size_t)(first - text), key)
                           : -(size > 0 && strncmp(text, "{\"stoke_trial_log\"", size < 22 ? size : 22));
    if (same < 0)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: is there already and is no journal of a batch search; name another file with "
                        "--journal",
                        j->path);
    if (same == 1) {
        keep_trials(j, first + 1, last + 1);
        *whole = (size_t)(last + 1 - text);
    }
    return STOKE_OK;
}

static int read_all(stk_trial_log *j, char *text, size_t size, stoke_error *err)
{
    const int number = stk_pread(j->file, text, size, 0);
    if (number == STK_ENDED)
        return stk_fail(err, STOKE_E_IO, "%s: became shorter while it was read", j->path);
    return number ? stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot be read", j->path) : STOKE_OK;
}

static int begin(stk_trial_log *j, const char *key, stoke_error *err)
{
    struct stat st;
    size_t whole = 0;
    if (stoke_fstat(j->file, &st) != 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s", j->path);
    if (!S_ISREG(st.st_mode)) return stk_fail(err, STOKE_E_INVALID, "%s: is no regular file", j->path);
    if (flock(j->file, LOCK_EX | LOCK_NB) != 0)
        return stk_fail(err, STOKE_E_STATE,
                        "%s: another search is writing to it; name another with --journal", j->path);
    if (st.st_size > JOURNAL_BYTES)
        return stk_fail(err, STOKE_E_LIMIT, "%s: has %lld bytes, and no journal has more than %d", j->path,
                        (long long)st.st_size, JOURNAL_BYTES);
    const size_t size = (size_t)st.st_size;
    char *text = stk_alloc(size + 1);
    if (!text) return stk_fail(err, STOKE_E_NOMEM, "no memory for the journal");
    int r = read_all(j, text, size, err);
    if (!r) r = take_over(j, text, size, key, &whole, err);
    if (!r && ftruncate(j->file, (off_t)whole) != 0)
        r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be cut to its whole lines", j->path);
    if (!r && !whole) r = write_key(j, key, err);
    stk_free(text);
    return r;
}

int stk_trial_log_open(stk_trial_log *journal, const char *path, const char *key, stoke_error *err)
{
    *journal = (stk_trial_log){ .file = -1, .path = path };
    if (!path) return STOKE_OK;
    if (!key || strlen(key) > STK_LOG_KEY)
        return stk_fail(err, STOKE_E_INVALID, "a journal needs a key of at most %d letters", STK_LOG_KEY);
    journal->file = stoke_open(path, O_RDWR | O_CREAT | O_APPEND, 0666);
    if (journal->file < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be opened", path);
    const int r = begin(journal, key, err);
    if (r) stk_trial_log_close(journal);
    return r;
}

void stk_trial_log_close(stk_trial_log *journal)
{
    if (journal->file >= 0) close(journal->file);
    journal->file = -1;
}

const stoke_trial *stk_trial_log_take(stk_trial_log *journal, uint32_t batch, int with_loader)
{
    for (size_t i = 0; i < journal->n_kept; i++) {
        const stoke_trial *t = &journal->kept[i];
        if (journal->taken[i] || t->batch != batch || t->with_loader != with_loader) continue;
        journal->taken[i] = 1;
        return t;
    }
    return NULL;
}

int stk_trial_log_add(stk_trial_log *journal, const stoke_trial *trial, stoke_error *err)
{
    char line[LINE_BYTES];
    if (journal->file < 0) return STOKE_OK;
    const int length = stoke_trial_text(trial, line, sizeof line - 1);
    if (length < 0 || length >= (int)sizeof line - 1)
        return stk_fail(err, STOKE_E_LIMIT, "%s: a trial is too long for a line", journal->path);
    return write_line(journal, line, (size_t)length, err);
}
