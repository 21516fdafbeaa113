/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/rank_log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <unistd.h>

#include <stoke/tools/report.h>

#include "src/base/file.h"
#include "src/base/retry.h"

void stk_rank_log_open(stk_rank_log *log, const char *folder, uint32_t rank)
{
    char path[PATH_MAX];
    *log = (stk_rank_log){ 0 };
    if (!stoke_there(folder)) return; /* on a host that does not see it */
    if (snprintf(path, sizeof path, "%s/log.rank%" PRIu32 ".jsonl", folder, rank) >= (int)sizeof path) return;
    const int fd = stoke_open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    log->stream = fd < 0 ? NULL : fdopen(fd, "a");
    if (fd >= 0 && !log->stream) close(fd);
}

void stk_rank_log_add(stk_rank_log *log, double seconds, double data, double others)
{
    log->seconds += seconds;
    log->data += data;
    log->others += others;
}

void stk_rank_log_write(stk_rank_log *log, uint64_t step, double t)
{
    if (!log->stream) return;
    stoke_json json;
    stoke_json_begin(&json, log->stream, 0);
    stoke_json_object(&json, NULL);
    stoke_json_string(&json, "kind", "step");
    stoke_json_uint(&json, "step", step);
    stoke_json_real(&json, "t", t);
    stoke_json_real(&json, "seconds", log->seconds);
    stoke_json_real(&json, "data_seconds", log->data);
    stoke_json_real(&json, "others_seconds", log->others);
    stoke_json_close(&json);
    fflush(log->stream);
    *log = (stk_rank_log){ .stream = log->stream };
}

void stk_rank_log_close(stk_rank_log *log)
{
    if (log->stream) fclose(log->stream);
    log->stream = NULL;
}
