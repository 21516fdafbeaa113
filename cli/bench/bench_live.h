/* SPDX-License-Identifier: Apache-2.0
 *
 * --live FILE of the benches that run a loader: a page for `stoke monitor --attach FILE`. Without the option
 * every call here does nothing.
 */
#ifndef STOKE_CLI_BENCH_BENCH_LIVE_H
#define STOKE_CLI_BENCH_BENCH_LIVE_H

#include "cli/lib/command.h"
#include <stoke/tools/live.h>

/* Of OPTIONS that have `const char *live`. */
#define BENCH_LIVE_OPTION                                                                                    \
    CLI_TEXT(STRING, live, NULL, "FILE",                                                                     \
             "Keep a page there of what the loader is doing, for `stoke monitor --attach FILE`")

typedef struct bench_live {
    stoke_live *page; /* NULL: none */
    uint64_t written_ns;
} bench_live;

/* path NULL: none. */
int bench_live_open(bench_live *live, const char *path, const char *what, stoke_error *err);
void bench_live_close(bench_live *live);

/* Writes the page, twenty times a second at most: batches may come faster than anybody looks. */
void bench_live_of_loader(bench_live *live, const stoke_loader *loader);
void bench_live_of_feed(bench_live *live, stoke_upload *upload, uint64_t step, uint64_t steps);

#endif
