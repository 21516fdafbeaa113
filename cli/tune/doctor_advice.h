/* SPDX-License-Identifier: Apache-2.0
 *
 * What `stoke doctor` found, and what it says about it.
 */
#ifndef STOKE_CLI_TUNE_DOCTOR_ADVICE_H
#define STOKE_CLI_TUNE_DOCTOR_ADVICE_H

#include "cli/lib/common.h"
#include "cli/lib/page.h"

typedef struct doctor_facts {
    stoke_machine_facts machine;
    stoke_disk_facts disk;
    char disk_problem[STOKE_ERROR_TEXT]; /* "" = none */
    const char *data;                    /* the folder asked about; NULL = none */
    char data_problem[STOKE_ERROR_TEXT]; /* why it is no data set; "" = it is one */
    uint64_t samples;
    stoke_device_list *devices;
    stoke_gpus *gpus;
    stoke_gpu *gpu; /* stoke_gpus_count of them, read */
    size_t n_gpus;
} doctor_facts;

/* Prints what is missing or in the way, each with what to do, as the last section. */
void doctor_advise(cli_page *page, const doctor_facts *facts);

#endif
