/* SPDX-License-Identifier: Apache-2.0
 *
 * What --decode fast costs in pixels: the same samples through two loaders, exact and fast, bytes compared.
 */
#include <stdlib.h>

#include "cli/bench/bench.h"

enum { BATCHES = 8, ROWS = 8 };

/* Adds up the differences of two batches of bytes. */
static void compare(const stoke_batch *exact, const stoke_batch *fast, bench_difference *d, uint64_t *sum,
                    uint64_t *bytes)
{
    const uint8_t *a = exact->images, *b = fast->images;
    const size_t n = exact->count * exact->image_row_bytes;
    for (size_t i = 0; i < n; i++) {
        const unsigned difference = (unsigned)abs(a[i] - b[i]);
        *sum += difference;
        if (difference > d->most) d->most = difference;
    }
    *bytes += n;
    d->samples += exact->count;
}

int bench_measure_difference(const stoke_dataset *dataset, const stoke_data_params *base, bench_difference *d,
                             stoke_error *err)
{
    stoke_data_params params = *base;
    params.order = STOKE_ORDER_SEQUENTIAL;
    params.batch = ROWS;
    params.prefetch = 1;
    params.quarantine = ""; /* the run itself has recorded bad files */
    stoke_loader *loader[2] = { NULL, NULL };
    int r = cli_set_data(&params, "dtype", "u8", err); /* differences in levels of 255 */
    for (int fast = 0; fast < 2 && !r; fast++) {
        params.decode = fast ? STOKE_DECODE_FAST : STOKE_DECODE_EXACT;
        r = stoke_loader_create(&loader[fast], dataset, &params, NULL, err);
    }
    *d = (bench_difference){ 0 };
    uint64_t sum = 0, bytes = 0;
    for (int k = 0; k < BATCHES && !r; k++) {
        const stoke_batch *exact = NULL, *fast = NULL;
        r = stoke_loader_next(loader[0], &exact);
        if (!r) r = stoke_loader_next(loader[1], &fast);
        if (!r) compare(exact, fast, d, &sum, &bytes);
        stoke_batch_release(loader[0], &exact);
        stoke_batch_release(loader[1], &fast);
    }
    if (r == STOKE_E_END) r = STOKE_OK;
    if (r && loader[1])
        cli_error(err, r, "%s%s", stoke_loader_error(loader[0]), stoke_loader_error(loader[1]));
    d->mean = bytes ? (double)sum / (double)bytes : 0;
    stoke_loader_destroy(&loader[0]);
    stoke_loader_destroy(&loader[1]);
    return r;
}
