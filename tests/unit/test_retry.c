/* SPDX-License-Identifier: Apache-2.0
 *
 * How often and how long something is tried, and what a child of fork finds of it.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/driver_probe.h"
#include "src/base/retry.h"

/* Fails to the end: how often it was tried again. */
static unsigned tries(int number)
{
    stoke_patience patience = { 0 };
    unsigned n = 0;
    while (stoke_again(&patience, number)) n++;
    return n;
}

static void a_disk_that_is_gone_is_not_waited_for(void **state)
{
    char byte = 0;
    unit_write(unit_path(state, "file"), "x", 1);
    const int fd = stoke_open(unit_path(state, "file"), O_RDONLY, 0);
    assert_true(fd >= 0);
    for (int i = 0; i < 3; i++) assert_int_equal(tries(EIO), 3);
    assert_int_equal(stk_pread(fd, &byte, 1, 0), 0); /* it was three bad files */
    for (int i = 0; i < 4; i++) assert_int_equal(tries(i % 2 ? ESTALE : EIO), 3);
    const uint64_t before = stk_retries();
    for (int i = 0; i < 1000; i++) assert_int_equal(tries(EIO), 0);
    assert_int_equal(stk_retries(), before);
    assert_int_equal(stk_pread(fd, &byte, 1, 0), 0); /* it is back */
    assert_int_equal(tries(ETIMEDOUT), 3);
    close(fd);
}

static void *try_driver(void *file)
{
    return (void *)(intptr_t)stk_driver_probe(STK_DRIVER_NVML, file, NULL);
}

/* The thread that has the lock does not exist in the child. */
static void a_child_does_not_wait_for_a_trial(void **state)
{
    char script[3 * 4096], started[4096], go[4096], command[4096];
    snprintf(started, sizeof started, "%s", unit_path(state, "started"));
    snprintf(go, sizeof go, "%s", unit_path(state, "go"));
    snprintf(command, sizeof command, "%s", unit_path(state, "command"));
    snprintf(script, sizeof script, "#!/bin/sh\n: >'%s'\nwhile [ ! -e '%s' ]; do sleep 0.02; done\n", started,
             go);
    unit_write(command, script, strlen(script));
    assert_int_equal(chmod(command, 0700), 0);
    setenv("STOKE_DRIVER_PROBE", command, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, try_driver, "one.so"), 0);
    while (access(started, F_OK) != 0) usleep(1000);
    const pid_t child = fork();
    if (!child) {
        alarm(30);
        const int fd = open(go, O_WRONLY | O_CREAT, 0600);
        _exit(fd < 0 || stk_driver_probe(STK_DRIVER_NVML, "other.so", NULL));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    void *result;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    unsetenv("STOKE_DRIVER_PROBE");
}

UNIT_GROUP(retry)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(a_disk_that_is_gone_is_not_waited_for),
        unit_test_with_folder(a_child_does_not_wait_for_a_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
