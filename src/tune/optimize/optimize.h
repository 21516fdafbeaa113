/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of stoke_optimize: the file, the advice, and what the rules decide.
 */
#ifndef STOKE_SRC_TUNE_OPTIMIZE_OPTIMIZE_H
#define STOKE_SRC_TUNE_OPTIMIZE_OPTIMIZE_H

#include <stoke/advise.h>
#include <stoke/splice.h>

enum { STK_CHANGES = 32, STK_REMARKS = 64 };

struct stoke_optimization {
    stoke_yaml *yaml;
    stoke_optimize_params params; /* cores and ranks filled in */
    stoke_advice advice;
    int dialect;
    stoke_change changes[STK_CHANGES];
    size_t n_changes;
    const char *remarks[STK_REMARKS]; /* kept by the yaml */
    size_t n_remarks;
    char *target;
};

/* The rules of the documents (O1, O5), applied to what the file says. Plans the changes. */
int stk_optimize_rules(stoke_optimization *o, stoke_error *err);

#endif
