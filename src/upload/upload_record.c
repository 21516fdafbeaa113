/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of steps, for those who ask.
 */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/upload/upload_internal.h"
#include "src/loader/loader.h"

int stoke_upload_record(stoke_upload *upload, size_t steps, stoke_error *err)
{
    stoke_step_record *records = NULL, *before = NULL;
    if (steps) {
        records = stk_calloc(steps, sizeof *records);
        if (!records) return stk_fail(err, STOKE_E_NOMEM, "no memory for records of %zu steps", steps);
    }
    stk_loader_record(upload->loader, steps > 0);
    pthread_mutex_lock(&upload->lock);
    if (steps)
        before = stk_step_log_begin(&upload->step_log, records, steps);
    else
        stk_step_log_end(&upload->step_log);
    pthread_mutex_unlock(&upload->lock);
    stk_free(before);
    return STOKE_OK;
}

size_t stoke_upload_records(stoke_upload *upload, const stoke_step_record **records)
{
    pthread_mutex_lock(&upload->lock);
    /* Of a device that is lost, what was read before it was is still true. */
    if (!stk_transfers_read(upload, NULL)) stk_steps_read(upload, NULL);
    *records = upload->step_log.records;
    const size_t count = upload->step_log.count;
    pthread_mutex_unlock(&upload->lock);
    return count;
}
