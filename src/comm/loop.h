/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine of tests: ranks are threads of one process. What is sent is copied at once, so a rank never
 * reads or writes memory of another.
 */
#ifndef STOKE_SRC_COMM_LOOP_H
#define STOKE_SRC_COMM_LOOP_H

#include <stoke/tools/comm.h>

typedef struct stk_loop stk_loop;

/* A place for `world` ranks to meet, each of which joins once. It goes with the last that leaves. */
int stk_loop_create(stk_loop **out, uint32_t world, stoke_error *err);
/* As `open` of the engine, which cannot know which loop is meant. */
int stk_loop_join(stk_loop *loop, uint32_t rank, void **self, stoke_comm_place *place, stoke_error *err);
/* Instead of joining: this rank will not come. */
void stk_loop_give_up(stk_loop *loop, uint32_t rank);
/* Its `open` is NULL. `close` waits for nobody. */
extern const stoke_comm_engine stk_loop_engine;

#endif
