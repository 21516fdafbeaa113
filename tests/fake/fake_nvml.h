/* SPDX-License-Identifier: Apache-2.0
 *
 * NVML without a card: libnvidia-ml.so.1 for tests. It is given to the product by STOKE_LIBNVML; the tests
 * reach these controls by dlsym("fake_nvml"). For programs that know nothing of them there is a variable,
 * read when the library is loaded, with words between blanks:
 *
 *   STOKE_FAKE_NVML="cards=2 init=18 mig=1 lost=0:40 process=4711 driver=535.54"
 *
 * The second library, built with FAKE_NVML_OLD, has only what a driver of 2015 has: first versions of
 * functions and structs, no samples, no energy, no reasons for low clocks, no MIG.
 */
#ifndef STOKE_TESTS_FAKE_FAKE_NVML_H
#define STOKE_TESTS_FAKE_FAKE_NVML_H

enum { FAKE_NVML_CARDS = 2, FAKE_NVML_PROCESSES = 64 };

typedef struct fake_nvml_card {
    int mig;
    int refused;     /* what asking for its handle returns */
    long lost_after; /* calls to this card that still work; negative = all */
    unsigned busy;   /* percent, of the newest sample */
    int v2_version;  /* what nvmlMemory_v2_t must say: 0 = the header's number, 2 = the bare one, -1 = refused
                      */
    int no_memory;   /* memory is not supported: the machine's own is used */
    int no_samples;  /* nvmlDeviceGetSamples finds nothing */
    unsigned processes[FAKE_NVML_PROCESSES], n_processes;
    int appear;         /* programs that start between the question how many and the question who */
    int garbage_shares; /* shares of 37100 % and of programs that are not there */
} fake_nvml_card;

typedef struct fake_nvml_settings {
    int init; /* what nvmlInit returns */
    unsigned cards;
    char driver[32];
    fake_nvml_card card[FAKE_NVML_CARDS];
} fake_nvml_settings;

typedef struct fake_nvml_control {
    void (*reset)(void); /* two sound cards, an idle afternoon; STOKE_FAKE_NVML is not read again */
    fake_nvml_settings *settings;
    long (*calls)(unsigned card); /* to the card since reset */
    int (*started)(void);         /* nvmlInit less nvmlShutdown */
    int (*slow_calls)(void);      /* of those that block */
    void (*hold)(int on);         /* they do not come back until this is called with 0 */
} fake_nvml_control;

#endif
