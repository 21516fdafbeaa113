/* SPDX-License-Identifier: Apache-2.0
 *
 * Who finds something worth saying hands a sentence to whoever asked.
 */
#ifndef STOKE_SRC_BASE_SAY_H
#define STOKE_SRC_BASE_SAY_H

typedef void stk_say_fn(void *context, const char *sentence);

#endif
