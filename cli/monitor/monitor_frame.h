/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame of the live view: made whole in memory, cut to the window and written with one call, so that
 * nothing flickers.
 */
#ifndef STOKE_CLI_MONITOR_MONITOR_FRAME_H
#define STOKE_CLI_MONITOR_MONITOR_FRAME_H

#include <stddef.h>

#include <stoke/tools/probe.h>

enum {
    MONITOR_FRAME_BYTES = 1 << 16,
    MONITOR_LABEL_COLUMNS = 10 /* what stands before the figures of a line */
};

typedef struct monitor_frame {
    int rows, columns;  /* of the window */
    int colour, blocks; /* blocks: the terminal knows UTF-8 */
    char text[MONITOR_FRAME_BYTES];
    size_t used;
    int lines, left_out; /* written; there was no room for */
} monitor_frame;

/* What a bar means: a full one is good news of a card that is paid for by the hour, and bad news of what
 * feeds it or has no room left; of waiting, a tenth is too much. */
typedef enum monitor_meaning {
    MONITOR_FULL_IS_BAD,
    MONITOR_FULL_IS_GOOD,
    MONITOR_ANY_IS_BAD
} monitor_meaning;

/* label [bar] figure source history */
typedef struct monitor_series {
    const char *label;
    monitor_meaning meaning;
    stoke_figure percent;
    const char *text; /* NULL: the percentage */
    /* The percentage `back` seconds ago; NULL: there is no history. */
    stoke_figure (*at)(const void *context, size_t back);
    const void *context;
} monitor_series;

/* Begins an empty one for the window as it is now. */
void monitor_frame_begin(monitor_frame *frame);
void monitor_frame_line(monitor_frame *frame, const char *format, ...) STOKE_PRINTF(2, 3);
/* A sentence over as many lines as it needs. */
void monitor_frame_text(monitor_frame *frame, const char *text);
void monitor_frame_series(monitor_frame *frame, const monitor_series *series);
/* To the terminal. */
void monitor_frame_show(monitor_frame *frame);

#endif
