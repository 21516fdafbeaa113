/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "src/base/cpu.h"
#include "src/base/machine.h"
#include <stoke/tools/machine.h>

static void put(void **state, const char *name, const char *text)
{
    unit_write(unit_path(state, name), text, strlen(text));
}

static double quota(void **state)
{
    return stk_machine_quota(unit_path(state, "proc"), unit_path(state, "cgroup"));
}

/* As in a Kubernetes pod with its own cgroup namespace: the group is the root. */
static void v2_quota_in_a_container(void **state)
{
    put(state, "proc/self/cgroup", "0::/\n");
    put(state, "cgroup/cpu.max", "150000 100000\n");
    assert_true(quota(state) == 1.5);
}

static void v2_tightest_of_the_hierarchy_counts(void **state)
{
    put(state, "proc/self/cgroup", "0::/machine.slice/job.scope/inner\n");
    put(state, "cgroup/machine.slice/cpu.max", "800000 100000\n");
    put(state, "cgroup/machine.slice/job.scope/cpu.max", "200000 100000\n");
    put(state, "cgroup/machine.slice/job.scope/inner/cpu.max", "max 100000\n");
    assert_true(quota(state) == 2.0);
}

static void v2_max_is_no_quota(void **state)
{
    put(state, "proc/self/cgroup", "0::/user.slice\n");
    put(state, "cgroup/user.slice/cpu.max", "max 100000\n");
    assert_true(quota(state) == 0);
}

/* Docker on a v1 host without namespace: the group is named from the host's root, but only the root is
 * mounted. */
static void v1_quota_with_an_invisible_group(void **state)
{
    put(state, "proc/self/cgroup",
        "12:cpuset:/docker/0123abcd\n4:cpu,cpuacct:/docker/0123abcd\n1:name=systemd:/docker/0123abcd\n");
    put(state, "cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
    put(state, "cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_true(quota(state) == 2.5);
}

static void v1_parents_bind(void **state)
{
    put(state, "proc/self/cgroup", "4:cpuacct,cpu:/a/b\n0::/a/b\n");
    put(state, "cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
    put(state, "cgroup/cpu/a/cpu.cfs_period_us", "50000\n");
    put(state, "cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    put(state, "cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
    assert_true(quota(state) == 1.0);
}

static void v1_cpuset_is_not_cpu(void **state)
{
    put(state, "proc/self/cgroup", "3:cpuset,cpuacct:/\n");
    put(state, "cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    put(state, "cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_true(quota(state) == 0);
}

/* A group outside the namespace is written with dots; they must not lead out of the mounted tree. */
static void groups_with_dots_mean_the_root(void **state)
{
    put(state, "proc/self/cgroup", "0::/../../other\n");
    put(state, "cgroup/cpu.max", "300000 100000\n");
    put(state, "other/cpu.max", "100000 100000\n");
    assert_true(quota(state) == 3.0);
}

static void damaged_files_are_no_quota(void **state)
{
    assert_true(quota(state) == 0); /* no files at all */
    static const char *const lines[] = { "nonsense\n",    "0:\n", "0::\n",  "::\n",
                                         "0::relative\n", "\n\n", "4:cpu\n" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        put(state, "proc/self/cgroup", lines[i]);
        assert_true(quota(state) == 0);
    }
    static const char *const values[] = { "", "x", "100000", "-5 100000", "100000 0", "max", "100000 -1" };
    put(state, "proc/self/cgroup", "0::/\n");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        put(state, "cgroup/cpu.max", values[i]);
        assert_true(quota(state) == 0);
    }
}

static void usable_rounds_the_quota_up(void **state)
{
    assert_int_equal(stk_machine_usable(8, 0), 8);
    assert_int_equal(stk_machine_usable(8, 2.0), 2);
    assert_int_equal(stk_machine_usable(8, 2.1), 3);
    assert_int_equal(stk_machine_usable(8, 0.2), 1);
    assert_int_equal(stk_machine_usable(2, 64), 2);
    assert_int_equal(stk_machine_usable(0, 0), 1);
}

static void peak_rss_is_vmhwm(void **state)
{
    assert_int_equal(stk_machine_peak_rss(unit_folder(state)), 0);
    put(state, "self/status",
        "Name:\tx VmHWM: 1 kB\nVmPeak:\t  999 kB\nVmHWM:\t  123456 kB\nVmRSS:\t 5 kB\n");
    assert_int_equal(stk_machine_peak_rss(unit_folder(state)), UINT64_C(123456) * 1024);
    assert_int_equal(stk_machine_rss(unit_folder(state)), 5 * 1024);
    put(state, "self/status", "Name:\tx\n");
    assert_int_equal(stk_machine_peak_rss(unit_folder(state)), 0);
    const uint64_t before = stoke_machine_peak_rss();
    const size_t bytes = (size_t)64 << 20;
    volatile char *big = malloc(bytes);
    for (size_t i = 0; i < bytes; i += 4096) big[i] = 1;
    assert_true(stoke_machine_peak_rss() >= before + bytes / 2);
    free((void *)big);
}

static uint64_t available(void **state)
{
    return stk_machine_available(unit_path(state, "proc"), unit_path(state, "cgroup"));
}

static void available_memory_is_the_systems_or_the_groups(void **state)
{
    assert_true(available(state) == UINT64_MAX); /* nothing tells */
    put(state, "proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:  5000 kB\nSwapFree:  1000 kB\n");
    assert_int_equal(available(state), 6000 * 1024);
    /* v2: a limit of the parent, of which 40000 bytes are taken, 5000 of them by files */
    put(state, "proc/self/cgroup", "0::/job/inner\n");
    put(state, "cgroup/job/memory.max", "100000\n");
    put(state, "cgroup/job/memory.current", "40000\n");
    put(state, "cgroup/job/memory.stat", "anon 35000\nfile 5000\ninactive_file 2000\nactive_file 3000\n");
    put(state, "cgroup/job/inner/memory.max", "max\n");
    put(state, "cgroup/job/inner/memory.current", "40000\n");
    assert_int_equal(available(state), 65000);
    put(state, "cgroup/job/memory.current", "120000\n"); /* beyond it: nothing, which is not no limit */
    assert_int_equal(available(state), 1);
    put(state, "cgroup/job/memory.max", "nonsense\n");
    assert_int_equal(available(state), 6000 * 1024);
    /* v1, where no limit is a large number */
    put(state, "proc/self/cgroup", "5:cpu,memory:/a\n");
    put(state, "cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    put(state, "cgroup/memory/a/memory.usage_in_bytes", "4096\n");
    assert_int_equal(available(state), 6000 * 1024);
    put(state, "cgroup/memory/a/memory.limit_in_bytes", "1000000\n");
    put(state, "cgroup/memory/a/memory.stat", "inactive_file 7\ntotal_inactive_file 96\n");
    assert_int_equal(available(state), 996000);
    const uint64_t here = stk_machine_available("/proc", "/sys/fs/cgroup");
    assert_true(here > 1 << 20);
}

static void processor_name_is_read(void **state)
{
    char name[16];
    stk_machine_cpu_name(unit_folder(state), name, sizeof name);
    assert_string_equal(name, "n/a");
    put(state, "cpuinfo", "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Some CPU  \nmodel name\t: other\n");
    stk_machine_cpu_name(unit_folder(state), name, sizeof name);
    assert_string_equal(name, "Some CPU");
    put(state, "cpuinfo", "processor\t: 0\nmodel name\t:\n");
    stk_machine_cpu_name(unit_folder(state), name, sizeof name);
    assert_string_equal(name, "n/a");
    assert_true(strlen(stoke_machine_cpu_name()) > 0);
}

static void cores_follow_the_affinity_mask(void **state)
{
    cpu_set_t old, one;
    const stoke_cores all = stoke_machine_cores();
    assert_true(all.online >= 1 && all.usable >= 1 && all.usable <= all.affinity);
    if (sched_getaffinity(0, sizeof old, &old)) skip();
    int cpu = 0;
    while (!CPU_ISSET(cpu, &old)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one)) skip();
    const stoke_cores less = stoke_machine_cores();
    assert_int_equal(sched_setaffinity(0, sizeof old, &old), 0);
    assert_int_equal(less.affinity, 1);
    assert_int_equal(less.usable, 1);
    assert_int_equal(less.online, all.online);
}

static unsigned allowed(void **state)
{
    return stk_machine_allowed(unit_path(state, "proc"), unit_path(state, "cgroup"));
}

/* The list of the nearest group that has one: a launcher hands out what is in it. */
static void allowed_is_the_groups_list(void **state)
{
    assert_int_equal(allowed(state), 0);
    put(state, "proc/self/cgroup", "0::/pod/inner\n");
    assert_int_equal(allowed(state), 0);
    put(state, "cgroup/cpuset.cpus.effective", "0-63\n");
    put(state, "cgroup/pod/cpuset.cpus.effective", "0-3,8,10-12\n");
    assert_int_equal(allowed(state), 8);
    put(state, "proc/self/cgroup", "4:cpuset:/job\n");
    put(state, "cgroup/cpuset/cpuset.cpus", "0-63\n");
    put(state, "cgroup/cpuset/job/cpuset.cpus", "2-5\n");
    assert_int_equal(allowed(state), 4);
    put(state, "cgroup/cpuset/job/cpuset.effective_cpus", "2-3\n");
    assert_int_equal(allowed(state), 2);
}

#define MPIRUN(rank, here)                                                                                   \
    {                                                                                                        \
        STOKE_LAUNCHER_OPEN_MPI, rank, 8, rank, here                                                         \
    }

/* Masks of 64 cores and of 8, as launchers leave them. */
static void processes_of_a_host_share_its_cores(void **state)
{
    static const struct {
        unsigned allowed, affinity;
        double quota;
        stoke_comm_launch launch;
        unsigned usable;
        const char *remark; /* NULL: nothing to say */
    } cases[] = {
        { 8, 8, 0, { .world = 1 }, 8, NULL },
        { 8, 3, 0, { .world = 1 }, 3, NULL },
        { 8, 8, 2.5, { .world = 1 }, 3, NULL },
        /* Elsewhere there are more, but nobody says how many are here. */
        { 8, 8, 0, { STOKE_LAUNCHER_TORCHRUN, 1, 4, 0, 0 }, 8, NULL },
        { 8, 8, 0, MPIRUN(0, 1), 8, NULL },
        { 8, 8, 0, MPIRUN(1, 4), 2, "4 processes share this host's 8 cores: 2 each" },
        { 8, 8, 0, MPIRUN(1, 3), 3, "3 processes share this host's 8 cores: 2 or 3 each" },
        { 8, 8, 0, MPIRUN(2, 3), 2, "3 processes share this host's 8 cores: 2 or 3 each" },
        { 2, 2, 0, MPIRUN(3, 4), 1, "4 processes share this host's 2 cores: fewer than one each" },
        { 1, 1, 0, MPIRUN(1, 2), 1, "2 processes share this host's 1 core: fewer than one each" },
        { 64, 64, 7.5, MPIRUN(1, 4), 2, "4 processes share this host's 8 cores: 2 each" },
        /* Bound, each to its part: to that, and not to a part of it. */
        { 64, 16, 0, MPIRUN(1, 4), 16, "4 processes share this host's 64 cores: 16 each" },
        /* Bound to a socket, and two are on it. */
        { 64, 32, 0, MPIRUN(1, 4), 16, "4 processes share this host's 64 cores: 16 each" },
        { 64, 1, 0, MPIRUN(1, 2), 1,
          "mpirun bound this rank to 1 of 64 cores: --bind-to none, or --map-by slot:PE=N" },
        { 64, 1, 0, MPIRUN(0, 1), 1,
          "mpirun bound this rank to 1 of 64 cores: --bind-to none, or --map-by slot:PE=N" },
        { 64,
          2,
          0,
          { STOKE_LAUNCHER_SLURM, 0, 2, 0, 2 },
          2,
          "srun bound this rank to 2 of 64 cores: --cpu-bind=none, or --cpus-per-task=N" },
        /* torchrun binds nothing: it was somebody's wish. */
        { 64,
          2,
          0,
          { STOKE_LAUNCHER_TORCHRUN, 0, 2, 0, 2 },
          2,
          "2 processes share this host's 64 cores: 32 each" },
        /* A group that says less than the mask is not believed. */
        { 2, 8, 0, MPIRUN(1, 4), 2, "4 processes share this host's 8 cores: 2 each" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256] = "";
        stoke_cores cores = {
            .online = 64, .allowed = cases[i].allowed, .affinity = cases[i].affinity, .quota = cases[i].quota
        };
        stk_machine_divide(&cores, &cases[i].launch);
        const int said = stk_machine_remark(&cores, &cases[i].launch, text, sizeof text);
        if (cores.usable != cases[i].usable || said != (cases[i].remark != NULL) ||
            strcmp(text, said ? cases[i].remark : ""))
            fail_msg("case %zu: %u usable, '%s'", i, cores.usable, text);
    }
}

static void parts_add_up_to_the_host(void **state)
{
    for (uint32_t n = 1; n <= 20; n++)
        for (unsigned all = n; all <= 70; all++) {
            unsigned sum = 0;
            for (uint32_t rank = 0; rank < n; rank++) {
                stoke_cores cores = { .online = all, .allowed = all, .affinity = all };
                stk_machine_divide(&cores, &(stoke_comm_launch)MPIRUN(rank, n));
                sum += cores.usable;
            }
            assert_int_equal(sum, all);
        }
}

static void levels_have_names(void **state)
{
    assert_string_equal(stk_cpu_level_name(STK_CPU_C), "c");
    assert_string_equal(stk_cpu_level_name(STK_CPU_AVX2), "avx2");
    assert_string_equal(stk_cpu_level_name(STK_CPU_AVX512), "avx512");
    assert_string_equal(stk_cpu_level_name(STK_CPU_AMX), "amx");
    assert_true(stk_cpu_level_in_use() <= stk_cpu_detected());
    assert_string_equal(stoke_machine_cpu_table(), stk_cpu_level_in_use() >= STK_CPU_AVX2 ? "avx2" : "c");
}

/* STOKE_CPU is read once per process, so each value gets a separate process: this program, asked for its
 * table. */
static void stoke_cpu_caps_the_level(void **state)
{
    static const struct {
        const char *value, *table;
    } cases[] = { { "c", "c" }, { "nonsense", NULL }, { "avx512", NULL }, { "amx", NULL }, { "", NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[512], answer[32] = "";
        snprintf(command, sizeof command, "STOKE_CPU='%s' /proc/%d/exe machine_table", cases[i].value,
                 (int)getpid());
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        assert_non_null(fgets(answer, sizeof answer, pipe));
        assert_int_equal(pclose(pipe), 0);
        assert_string_equal(answer, cases[i].table ? cases[i].table : stoke_machine_cpu_table());
    }
}

static int seven(void)
{
    return 7;
}

static int illegal(void)
{
    raise(SIGILL);
    return 7;
}

static int stray(void)
{
    volatile int *volatile nowhere = (int *)16;
    return *nowhere;
}

/* What the processor announces and refuses costs neither the process nor its handlers, even where the signals
 * are blocked. */
static void attempts_survive(void **state)
{
    struct sigaction before, after;
    sigset_t blocked, mask;
    sigaction(SIGILL, NULL, &before);
    assert_int_equal(stk_probe_insn(seven), 7);
    assert_int_equal(stk_probe_insn(illegal), 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGSEGV);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
    assert_int_equal(stk_probe_insn(stray), 0);
    assert_int_equal(stk_probe_insn(seven), 7);
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &blocked, &mask), 0);
    assert_true(sigismember(&mask, SIGSEGV));
    assert_false(sigismember(&mask, SIGILL));
    sigaction(SIGILL, NULL, &after);
    assert_true(after.sa_handler == before.sa_handler);
    assert_int_equal(after.sa_flags, before.sa_flags);
}

static void clocks_run_forward(void **state)
{
    const uint64_t wall = stoke_machine_now_ns(), cpu = stoke_machine_cpu_ns();
    while (stoke_machine_cpu_ns() == cpu) continue; /* ends: waiting takes CPU time */
    assert_true(stoke_machine_now_ns() > wall);
    assert_true(stoke_machine_cpu_ns() > cpu);
}

/* The count of the group itself, whatever its parents count besides. */
static void kills_for_want_of_memory(void **state)
{
    put(state, "proc/self/cgroup", "0::/slice/job\n");
    assert_int_equal(stk_machine_oom_kills(unit_path(state, "proc"), unit_path(state, "cgroup")), 0);
    put(state, "cgroup/slice/memory.events", "low 0\nhigh 0\nmax 9\noom 5\noom_kill 5\n");
    put(state, "cgroup/slice/job/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n");
    assert_int_equal(stk_machine_oom_kills(unit_path(state, "proc"), unit_path(state, "cgroup")), 0);
    put(state, "cgroup/slice/job/memory.events", "low 0\nmax 1\noom 1\noom_kill 1\noom_group_kill 7\n");
    assert_int_equal(stk_machine_oom_kills(unit_path(state, "proc"), unit_path(state, "cgroup")), 1);
    put(state, "proc/self/cgroup", "9:memory:/job\n");
    put(state, "cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    put(state, "cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    assert_int_equal(stk_machine_oom_kills(unit_path(state, "proc"), unit_path(state, "cgroup")), 3);
}

/* What another process of this program prints. */
UNIT_GROUP(machine_table)
{
    return fputs(stoke_machine_cpu_table(), stdout) < 0;
}

UNIT_GROUP(machine)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(v2_quota_in_a_container),
        unit_test_with_folder(v2_tightest_of_the_hierarchy_counts),
        unit_test_with_folder(v2_max_is_no_quota),
        unit_test_with_folder(v1_quota_with_an_invisible_group),
        unit_test_with_folder(v1_parents_bind),
        unit_test_with_folder(v1_cpuset_is_not_cpu),
        unit_test_with_folder(groups_with_dots_mean_the_root),
        unit_test_with_folder(damaged_files_are_no_quota),
        cmocka_unit_test(usable_rounds_the_quota_up),
        unit_test_with_folder(peak_rss_is_vmhwm),
        unit_test_with_folder(available_memory_is_the_systems_or_the_groups),
        unit_test_with_folder(kills_for_want_of_memory),
        unit_test_with_folder(processor_name_is_read),
        cmocka_unit_test(cores_follow_the_affinity_mask),
        unit_test_with_folder(allowed_is_the_groups_list),
        cmocka_unit_test(processes_of_a_host_share_its_cores),
        cmocka_unit_test(parts_add_up_to_the_host),
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(stoke_cpu_caps_the_level),
        cmocka_unit_test(attempts_survive),
        cmocka_unit_test(clocks_run_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
