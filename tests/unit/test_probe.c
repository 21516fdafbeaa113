/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines of others, recorded by hand: a container with a quota, two sockets with SMT, an old board; mounts;
 * and this machine, where only what must hold anywhere is asked.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>

#include "src/base/mem.h"
#include "src/tune/machine/disk.h"
#include <stoke/tools/machine.h>
#include <stoke/tools/probe.h>

static void put(void **state, const char *name, const char *text)
{
    unit_write(unit_path(state, name), text, strlen(text));
}

static stoke_machine_facts probe(void **state)
{
    stoke_machine_facts facts;
    stoke_error err = { 0 };
    assert_int_equal(stoke_machine_probe(&facts, 0, unit_folder(state), &err), STOKE_OK);
    return facts;
}

#define assert_figure(figure, wanted, from)                                                                  \
    do {                                                                                                     \
        const stoke_figure got_ = (figure);                                                                  \
        assert_string_equal(stoke_source_name(got_.source), stoke_source_name(from));                        \
        assert_true(got_.value == (double)(wanted));                                                         \
    } while (0)
#define assert_na(figure) assert_int_equal((figure).source, STOKE_SOURCE_NA)

/* CPUs of one socket and core in a row of text, "0,2" for the first core. */
static void put_cpu(void **state, int cpu, const char *core, const char *socket, int old)
{
    char name[128];
    snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/%s", cpu,
             old ? "thread_siblings_list" : "core_cpus_list");
    put(state, name, core);
    snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/%s", cpu,
             old ? "core_siblings_list" : "package_cpus_list");
    put(state, name, socket);
}

static void two_sockets_with_smt(void **state)
{
    put(state, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Xeon of Paper \n");
    put(state, "proc/meminfo", "MemTotal:  263000000 kB\nMemAvailable: 200000000 kB\nSwapFree: 0 kB\n");
    put(state, "proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7\n");
    put(state, "proc/self/cgroup", "0::/user.slice\n");
    put(state, "proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    put(state, "etc/os-release",
        "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n");
    put(state, "sys/devices/system/cpu/online", "0-7\n");
    put(state, "sys/devices/system/node/online", "0-1\n");
    static const char *const cores[] = { "0,4\n", "1,5\n", "2,6\n", "3,7\n" };
    for (int cpu = 0; cpu < 8; cpu++)
        put_cpu(state, cpu, cores[cpu % 4], cpu % 4 < 2 ? "0-1,4-5\n" : "2-3,6-7\n", cpu == 7);
    const stoke_machine_facts facts = probe(state);
    assert_string_equal(facts.cpu, "Xeon of Paper");
    assert_string_equal(facts.kernel, "Linux 6.1.0-18-amd64");
    assert_string_equal(facts.system, "Debian GNU/Linux 12 (bookworm)");
    assert_figure(facts.sockets, 2, STOKE_SOURCE_SYSFS);
    assert_figure(facts.cores, 4, STOKE_SOURCE_SYSFS);
    assert_figure(facts.threads, 8, STOKE_SOURCE_SYSFS);
    assert_figure(facts.numa_nodes, 2, STOKE_SOURCE_SYSFS);
    assert_figure(facts.affinity, 8, STOKE_SOURCE_PROC);
    assert_figure(facts.usable, 8, STOKE_SOURCE_PROC);
    assert_figure(facts.memory_bytes, 263000000.0 * 1024, STOKE_SOURCE_PROC);
    assert_figure(facts.available_bytes, 200000000.0 * 1024, STOKE_SOURCE_PROC);
    assert_na(facts.quota);
    assert_na(facts.limit_bytes);
    assert_na(facts.shm_bytes);
    assert_na(facts.effective_cores);
}

static void container_with_quota_and_limit(void **state)
{
    put(state, "proc/self/status", "Cpus_allowed_list:\t0-1,8,10-13\n");
    put(state, "proc/self/cgroup", "0::/pod/inner\n");
    put(state, "proc/meminfo", "MemTotal: 64000000 kB\nMemAvailable: 60000000 kB\n");
    put(state, "sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
    put(state, "sys/fs/cgroup/pod/memory.max", "4294967296\n");
    put(state, "sys/fs/cgroup/pod/memory.current", "1073741824\n");
    put(state, "sys/fs/cgroup/pod/inner/memory.max", "max\n");
    put(state, "sys/fs/cgroup/pod/inner/memory.current", "1073741824\n");
    mkdir(unit_path(state, "dev"), 0777);
    mkdir(unit_path(state, "dev/shm"), 0777);
    const stoke_machine_facts facts = probe(state);
    assert_figure(facts.affinity, 7, STOKE_SOURCE_PROC);
    assert_figure(facts.quota, 1.5, STOKE_SOURCE_SYSFS);
    assert_figure(facts.usable, 2, STOKE_SOURCE_SYSFS);
    assert_figure(facts.limit_bytes, 4294967296.0, STOKE_SOURCE_SYSFS);
    assert_figure(facts.available_bytes, 3221225472.0, STOKE_SOURCE_PROC);
    assert_int_equal(facts.shm_bytes.source, STOKE_SOURCE_MEASURED);
}

static void limits_of_version_1(void **state)
{
    put(state, "proc/self/cgroup", "4:memory:/docker/a\n");
    put(state, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    assert_na(probe(state).limit_bytes);
    put(state, "sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "536870912\n");
    assert_figure(probe(state).limit_bytes, 536870912, STOKE_SOURCE_SYSFS);
}

/* A board whose kernel does not tell which CPUs share a core, and a folder with nothing at all. */
static void what_is_missing_is_not_zero(void **state)
{
    stoke_machine_facts facts = probe(state);
    const stoke_figure *figures[] = { &facts.sockets,     &facts.cores,        &facts.threads,
                                      &facts.affinity,    &facts.quota,        &facts.usable,
                                      &facts.numa_nodes,  &facts.memory_bytes, &facts.available_bytes,
                                      &facts.limit_bytes, &facts.shm_bytes,    &facts.effective_cores };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) assert_na(*figures[i]);
    assert_string_equal(facts.cpu, "");
    assert_string_equal(facts.kernel, "");
    assert_string_equal(facts.system, "");
    put(state, "sys/devices/system/cpu/online", "0-3\n");
    put(state, "usr/lib/os-release", "PRETTY_NAME=Buildroot\n");
    facts = probe(state);
    assert_figure(facts.threads, 4, STOKE_SOURCE_SYSFS);
    assert_figure(facts.affinity, 4, STOKE_SOURCE_PROC);
    assert_na(facts.cores);
    assert_na(facts.sockets);
    assert_string_equal(facts.system, "Buildroot");
}

/* Lists that no kernel writes: nothing hangs, nothing is counted for long. */
static void hostile_lists(void **state)
{
    put(state, "sys/devices/system/cpu/online", "0-99999999999999999999\n");
    assert_figure(probe(state).threads, 8192, STOKE_SOURCE_SYSFS);
    put(state, "sys/devices/system/cpu/online", "5-2,,x\n");
    assert_figure(probe(state).threads, 1, STOKE_SOURCE_SYSFS);
    put(state, "sys/devices/system/cpu/online", "9223372036854775807\n");
    assert_na(probe(state).threads);
    put(state, "sys/devices/system/cpu/online", "-3\n");
    assert_na(probe(state).threads);
}

static void this_machine(void **state)
{
    (void)state;
    stoke_machine_facts facts;
    stoke_error err = { 0 };
    assert_int_equal(stoke_machine_probe(&facts, 1, NULL, &err), STOKE_OK);
    const stoke_cores cores = stoke_machine_cores();
    assert_figure(facts.affinity, cores.affinity, STOKE_SOURCE_PROC);
    assert_true(facts.usable.value == cores.usable);
    assert_int_equal(facts.effective_cores.source, STOKE_SOURCE_MEASURED);
    /* More than it may use nobody gets; how much less is up to the neighbours. */
    assert_true(facts.effective_cores.value > 0 && facts.effective_cores.value < cores.usable * 1.1);
    assert_true(facts.memory_bytes.value > 1 << 20);
    assert_string_equal(facts.cpu_table, stoke_machine_cpu_table());
}

static void no_memory_for_threads(void **state)
{
    (void)state;
    stoke_machine_facts facts;
    stoke_error err = { 0 };
    stk_mem_fail_after(0);
    const int r = stoke_machine_probe(&facts, 1, NULL, &err);
    stk_mem_fail_after(-1);
    assert_int_equal(r, STOKE_E_NOMEM);
    assert_na(facts.effective_cores);
}

/* ---- disks ---- */

static const char mounts[] = "22 27 0:21 / /proc rw - proc proc rw\n"
                             "27 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
                             "40 27 8:1 / /data rw - xfs /dev/sda1 rw\n"
                             "41 40 0:50 / /data/far\\040away rw - nfs4 server:/export rw\n"
                             "a line of nothing\n"
                             "42 27 0:60 / /twice rw - ext4 /dev/sdb1 rw\n"
                             "43 27 0:61 / /twice rw - fuse.sshfs me@there: rw";

static void deepest_mount_counts(void **state)
{
    (void)state;
    static const struct {
        const char *path, *mount, *device, *type;
    } cases[] = {
        { "/home/x", "/", "/dev/nvme0n1p2", "ext4" },
        { "/data", "/data", "/dev/sda1", "xfs" },
        { "/database/x", "/", "/dev/nvme0n1p2", "ext4" },
        { "/data/set/a.png", "/data", "/dev/sda1", "xfs" },
        { "/data/far away/a.png", "/data/far away", "server:/export", "nfs4" },
        { "/twice/x", "/twice", "me@there:", "fuse.sshfs" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_disk_facts facts = { 0 };
        assert_true(stk_disk_mount(&facts, mounts, cases[i].path));
        assert_string_equal(facts.mount, cases[i].mount);
        assert_string_equal(facts.device, cases[i].device);
        assert_string_equal(facts.filesystem, cases[i].type);
    }
    stoke_disk_facts facts = { 0 };
    assert_false(stk_disk_mount(&facts, "", "/x"));
}

static void network_by_type(void **state)
{
    (void)state;
    assert_figure(stk_disk_network("nfs4"), 1, STOKE_SOURCE_TABLE);
    assert_figure(stk_disk_network("fuse.sshfs"), 1, STOKE_SOURCE_TABLE);
    assert_figure(stk_disk_network("ext4"), 0, STOKE_SOURCE_TABLE);
    assert_figure(stk_disk_network("fuseblk"), 0, STOKE_SOURCE_TABLE); /* NTFS on a disk */
    assert_na(stk_disk_network("fuse.whatever"));
    assert_na(stk_disk_network(""));
}

static void partitions_have_the_queue_of_their_disk(void **state)
{
    put(state, "sys/devices/sda/queue/rotational", "1\n");
    put(state, "sys/devices/sda/sda1/partition", "1\n");
    put(state, "sys/dev/block/none", "");
    assert_int_equal(symlink("../../devices/sda", unit_path(state, "sys/dev/block/8:0")), 0);
    assert_int_equal(symlink("../../devices/sda/sda1", unit_path(state, "sys/dev/block/8:1")), 0);
    assert_figure(stk_disk_rotational(unit_folder(state), 8, 0), 1, STOKE_SOURCE_SYSFS);
    assert_figure(stk_disk_rotational(unit_folder(state), 8, 1), 1, STOKE_SOURCE_SYSFS);
    assert_na(stk_disk_rotational(unit_folder(state), 0, 50));
}

static void virtual_disks_do_not_turn(void **state)
{
    put(state, "sys/devices/pci0/virtio1/block/vda/queue/rotational", "1\n");
    put(state, "sys/devices/pci0/virtio2/block/vdb/queue/rotational", "0\n");
    put(state, "sys/devices/ata1/sda/queue/rotational", "1\n");
    put(state, "sys/devices/ata1/sda/device/model", "QEMU HARDDISK   \n");
    put(state, "sys/dev/block/none", "");
    assert_int_equal(symlink("../../devices/pci0/virtio1/block/vda", unit_path(state, "sys/dev/block/254:0")),
                     0);
    assert_int_equal(
        symlink("../../devices/pci0/virtio2/block/vdb", unit_path(state, "sys/dev/block/254:16")), 0);
    assert_int_equal(symlink("../../devices/ata1/sda", unit_path(state, "sys/dev/block/8:0")), 0);
    assert_na(stk_disk_rotational(unit_folder(state), 254, 0));
    assert_na(stk_disk_rotational(unit_folder(state), 8, 0));
    assert_figure(stk_disk_rotational(unit_folder(state), 254, 16), 0, STOKE_SOURCE_SYSFS);
}

/* Files just written are in the page cache: nothing is read, and the speed is not made up. */
static void cached_files_are_not_measured(void **state)
{
    static char bytes[100 * 1000];
    const char *files[] = { unit_path(state, "a"), unit_path(state, "b"), unit_path(state, "gone"),
                            unit_folder(state) };
    unit_write(files[0], bytes, sizeof bytes);
    unit_write(files[1], bytes, 1);
    stoke_disk_facts facts;
    stoke_error err = { 0 };
    assert_int_equal(stoke_disk_probe(&facts, files, 4, 1 << 20, &err), STOKE_OK);
    assert_figure(facts.cached_share, 1, STOKE_SOURCE_MEASURED);
    assert_na(facts.read_bytes_per_s);
    assert_int_equal(facts.files_read, 0);
    assert_true(facts.free_bytes.source == STOKE_SOURCE_MEASURED);
    if (!*facts.mount) unit_skip("no mount above this folder in /proc/self/mountinfo: a chroot");
    assert_true(*facts.mount == '/' && *facts.filesystem);
}

/* Dropping what this test wrote itself is its right; where the file system keeps it all the same, skip. */
static void absent_files_are_read_within_the_budget(void **state)
{
    const char *files[] = { unit_path(state, "a"), unit_path(state, "b") };
    stoke_disk_facts facts;
    stoke_error err = { 0 };
    for (int i = 0; i < 2; i++) {
        unit_write(files[i], "x", 1);
        assert_int_equal(truncate(files[i], 32 << 20),
                         0); /* a hole: costs nothing, and is read all the same */
        const int file = open(files[i], O_RDONLY);
        assert_true(fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
        close(file);
    }
    assert_int_equal(stoke_disk_probe(&facts, files, 2, 0, &err), STOKE_OK);
    if (!facts.cached_share.source || facts.cached_share.value > 0)
        unit_skip("this file system keeps its files in memory");
    assert_na(facts.read_bytes_per_s);
    assert_int_equal(stoke_disk_probe(&facts, files, 2, 100 * 1000, &err), STOKE_OK);
    assert_int_equal(facts.files_read, 1); /* the budget ends in the first */
    assert_true(facts.read_bytes_per_s.source == STOKE_SOURCE_MEASURED && facts.read_bytes_per_s.value > 0);
    assert_int_equal(stoke_disk_probe(&facts, files, 2, 0, &err), STOKE_OK);
    /* What was read stays, and what the kernel read ahead: a megabyte or a few, but not all of it. */
    assert_true(facts.cached_share.value > 0 && facts.cached_share.value < 0.4);
}

static void disks_that_cannot_be_told(void **state)
{
    stoke_disk_facts facts;
    stoke_error err = { 0 };
    const char *gone = unit_path(state, "gone");
    assert_int_equal(stoke_disk_probe(&facts, NULL, 0, 0, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_disk_probe(&facts, &gone, 1, 0, &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, gone));
    const char *here = unit_folder(state);
    for (int allowed = 0; allowed < 3; allowed++) {
        stk_mem_fail_after(allowed);
        const int r = stoke_disk_probe(&facts, &here, 1, 0, &err);
        stk_mem_fail_after(-1);
        assert_int_equal(r, STOKE_E_NOMEM);
    }
}

static void sources_have_names(void **state)
{
    (void)state;
    for (int i = STOKE_SOURCE_NA; i <= STOKE_SOURCE_EMULATED; i++)
        for (int k = 0; k < i; k++) assert_string_not_equal(stoke_source_name(i), stoke_source_name(k));
    assert_string_equal(stoke_source_name(STOKE_SOURCE_NA), "n/a");
    assert_string_equal(stoke_source_name(-7), "n/a");
}

UNIT_GROUP(probe)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(two_sockets_with_smt),
        unit_test_with_folder(container_with_quota_and_limit),
        unit_test_with_folder(limits_of_version_1),
        unit_test_with_folder(what_is_missing_is_not_zero),
        unit_test_with_folder(hostile_lists),
        cmocka_unit_test(this_machine),
        cmocka_unit_test(no_memory_for_threads),
        cmocka_unit_test(deepest_mount_counts),
        cmocka_unit_test(network_by_type),
        unit_test_with_folder(partitions_have_the_queue_of_their_disk),
        unit_test_with_folder(virtual_disks_do_not_turn),
        unit_test_with_folder(cached_files_are_not_measured),
        unit_test_with_folder(absent_files_are_read_within_the_budget),
        unit_test_with_folder(disks_that_cannot_be_told),
        cmocka_unit_test(sources_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
