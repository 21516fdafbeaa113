/* SPDX-License-Identifier: Apache-2.0
 *
 * Cards that are not there: NVIDIA's by a made-up NVML (tests/fake/nvml.c), AMD's and Intel's by trees of
 * /sys and /proc written down by hand.
 */
#include "tests/unit/unit.h"

#include <dlfcn.h>

#include "src/base/mem.h"
#include "src/tune/machine/gpus.h"
#include "tests/fake/fake_nvml.h"
#include <stoke/tools/probe.h>

#define assert_figure(figure, wanted, from)                                                                  \
    do {                                                                                                     \
        const stoke_figure got_ = (figure);                                                                  \
        assert_string_equal(stoke_source_name(got_.source), stoke_source_name(from));                        \
        assert_true(got_.value - (double)(wanted) < 1e-6 && (double)(wanted)-got_.value < 1e-6);             \
    } while (0)
#define assert_nvml(figure, wanted)  assert_figure(figure, wanted, STOKE_SOURCE_NVML)
#define assert_sysfs(figure, wanted) assert_figure(figure, wanted, STOKE_SOURCE_SYSFS)
#define assert_na(figure)            assert_int_equal((figure).source, STOKE_SOURCE_NA)

static const fake_nvml_control *fake;

/* The controls of one of the libraries, which stays loaded, all as at the start. */
static const fake_nvml_control *take(const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    const fake_nvml_control *control = dlsym(library, "fake_nvml");
    assert_non_null(control);
    control->reset();
    return control;
}

static void put(void **state, const char *name, const char *text)
{
    unit_write(unit_path(state, name), text, strlen(text));
}

static stoke_gpus *open_with(void **state, const char *nvml, int slow)
{
    stoke_gpus_params params = stoke_gpus_defaults();
    stoke_gpus *gpus;
    stoke_error err = { 0 };
    params.nvml = nvml;
    params.root = unit_folder(state);
    params.slow = slow;
    assert_int_equal(stoke_gpus_open(&gpus, &params, &err), STOKE_OK);
    return gpus;
}

/* The made-up driver of today, found by STOKE_LIBNVML as a user's would be by its name. */
static stoke_gpus *open_new(void **state)
{
    return open_with(state, NULL, 0);
}

static stoke_gpu *read_card(stoke_gpus *gpus, size_t index)
{
    static stoke_gpu gpu;
    memset(&gpu, 0xa5, sizeof gpu);
    stoke_gpus_read(gpus, index, &gpu);
    return &gpu;
}

/* Every figure of a card, to ask something of all of them. */
static size_t all_figures(stoke_gpu *gpu, stoke_figure *figures[32])
{
    stoke_figure *const all[] = {
        &gpu->busy_percent,        &gpu->memory_busy_percent, &gpu->effective_percent, &gpu->memory_total,
        &gpu->memory_used,         &gpu->memory_free,         &gpu->temperature,       &gpu->power_watt,
        &gpu->power_limit_watt,    &gpu->energy_joule,        &gpu->clock_sm_mhz,      &gpu->clock_sm_max_mhz,
        &gpu->clock_memory_mhz,    &gpu->pcie_generation,     &gpu->pcie_width,        &gpu->pcie_width_max,
        &gpu->pcie_generation_max, &gpu->pcie_to_device,      &gpu->pcie_from_device,  &gpu->clocks_reasons,
        &gpu->compute_capability,  &gpu->numa_node,
    };
    memcpy(figures, all, sizeof all);
    return sizeof all / sizeof *all;
}

/* ---- NVIDIA ---- */

static int begin(void **state)
{
    fake->reset();
    return unit_folder_setup(state);
}

static int end(void **state)
{
    assert_int_equal(fake->started(), 0); /* every start was ended */
    return unit_folder_teardown(state);
}

static void every_figure_of_a_card(void **state)
{
    put(state, "sys/bus/pci/devices/0000:0a:00.0/numa_node", "1\n");
    stoke_gpus *gpus = open_with(state, NULL, 1);
    assert_int_equal(stoke_gpus_count(gpus), 2);
    assert_string_equal(stoke_gpus_why(gpus), "");
    stoke_gpu *gpu = read_card(gpus, 0);
    assert_string_equal(gpu->name, "Fake GPU 24 GB");
    assert_string_equal(gpu->uuid, "GPU-00000000-0000-0000-0000-000000000000");
    assert_string_equal(gpu->pci, "0000:0a:00.0");
    assert_string_equal(gpu->driver, "550.54.14");
    assert_string_equal(gpu->vendor, "nvidia");
    assert_string_equal(gpu->problem, "");
    assert_nvml(gpu->busy_percent, 30); /* of the last second, not of the whole ring */
    assert_nvml(gpu->memory_busy_percent, 21);
    assert_figure(gpu->effective_percent, 30 * 100.0 / 400, STOKE_SOURCE_ESTIMATED);
    assert_nvml(gpu->memory_total, 24.0 * (1u << 30));
    assert_nvml(gpu->memory_used, 4.0 * (1u << 30)); /* without what the driver reserves */
    assert_nvml(gpu->memory_free, 20.0 * (1u << 30) - 300.0 * (1u << 20));
    assert_nvml(gpu->temperature, 60);
    assert_nvml(gpu->power_watt, 100);
    assert_nvml(gpu->power_limit_watt, 400);
    assert_nvml(gpu->energy_joule, 123.456);
    assert_nvml(gpu->clock_sm_mhz, 1500);
    assert_nvml(gpu->clock_sm_max_mhz, 2100);
    assert_nvml(gpu->clock_memory_mhz, 9000);
    assert_nvml(gpu->pcie_generation, 1);
    assert_nvml(gpu->pcie_generation_max, 4);
    assert_nvml(gpu->pcie_width, 8);
    assert_nvml(gpu->pcie_width_max, 16);
    assert_nvml(gpu->pcie_to_device, 5e6); /* what the card receives */
    assert_nvml(gpu->pcie_from_device, 7e4);
    assert_true((int)gpu->clocks_reasons.value & STOKE_CLOCKS_POWER_CAP);
    assert_nvml(gpu->compute_capability, 8.6);
    assert_sysfs(gpu->numa_node, 1);
    gpu = read_card(gpus, 1);
    assert_string_equal(gpu->pci, "0000:0b:00.0");
    assert_nvml(gpu->busy_percent, 70);
    assert_nvml(gpu->memory_total, 80.0 * (1u << 30));
    assert_nvml(gpu->compute_capability, 8);
    assert_na(gpu->numa_node);
    gpu = read_card(gpus, 2);
    assert_string_equal(gpu->problem, "there is no card 2");
    stoke_gpus_close(&gpus);
    assert_null(gpus);
}

static void what_blocks_is_left_out_unless_asked_for(void **state)
{
    stoke_gpus *gpus = open_new(state);
    stoke_gpu *gpu = read_card(gpus, 0);
    assert_na(gpu->pcie_to_device);
    assert_na(gpu->pcie_from_device);
    assert_int_equal(fake->slow_calls(), 0);
    stoke_gpus_close(&gpus);
}

/* Samples are used once: a second reading without new ones asks for the current rate. */
static void samples_then_rates(void **state)
{
    stoke_gpus *gpus = open_new(state);
    assert_nvml(read_card(gpus, 0)->busy_percent, 30);
    fake->settings->card[0].busy = 90;
    stoke_gpu *gpu = read_card(gpus, 0);
    assert_nvml(gpu->busy_percent, 90);
    assert_nvml(gpu->memory_busy_percent, 11); /* the fake's rate; its samples say 21 */
    fake->settings->card[0].no_samples = 1;
    assert_nvml(read_card(gpus, 0)->busy_percent, 90);
    stoke_gpus_close(&gpus);
}

static void driver_of_2015(void **state)
{
    const char *file = getenv("STOKE_FAKE_NVML_OLD");
    assert_non_null(file);
    const fake_nvml_control *old = take(file);
    old->settings->card[0].processes[0] = 11;
    old->settings->card[0].processes[1] = 12;
    old->settings->card[0].processes[2] = 13;
    old->settings->card[0].n_processes = 3;
    stoke_gpus *gpus = open_with(state, file, 1);
    assert_int_equal(stoke_gpus_count(gpus), 2);
    stoke_gpu *gpu = read_card(gpus, 0);
    assert_string_equal(gpu->pci, "0000:0a:00.0");
    assert_nvml(gpu->busy_percent, 30);
    assert_nvml(gpu->memory_used, 4.0 * (1u << 30) + 300.0 * (1u << 20));
    assert_nvml(gpu->temperature, 50);
    assert_na(gpu->energy_joule);
    assert_na(gpu->clocks_reasons);
    assert_na(gpu->pcie_to_device);
    assert_na(gpu->compute_capability);
    assert_int_equal(gpu->n_processes, 3); /* records of 16 bytes, not 24 */
    assert_int_equal(gpu->process[2].pid, 13);
    assert_nvml(gpu->process[2].memory_bytes, (1u << 30) + 2.0);
    assert_na(gpu->process[2].busy_percent);
    stoke_gpus_close(&gpus);
    assert_int_equal(old->started(), 0);
}

static void versions_of_the_memory_record(void **state)
{
    stoke_gpus *gpus = open_new(state);
    fake->settings->card[0].v2_version = 2;
    assert_nvml(read_card(gpus, 0)->memory_used, 4.0 * (1u << 30));
    fake->settings->card[0].v2_version = -1; /* neither: the first version, with what is reserved */
    assert_nvml(read_card(gpus, 0)->memory_used, 4.0 * (1u << 30) + 300.0 * (1u << 20));
    put(state, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n");
    fake->settings->card[0].no_memory = 1; /* one memory for both */
    stoke_gpu *gpu = read_card(gpus, 0);
    assert_figure(gpu->memory_total, 1024000, STOKE_SOURCE_PROC);
    assert_figure(gpu->memory_free, 614400, STOKE_SOURCE_PROC);
    assert_non_null(strstr(gpu->problem, "no memory of its own"));
    stoke_gpus_close(&gpus);
}

static void a_card_cut_into_instances(void **state)
{
    fake->settings->card[1].mig = 1;
    stoke_gpus *gpus = open_new(state);
    assert_int_equal(read_card(gpus, 0)->mig, 0);
    stoke_gpu *gpu = read_card(gpus, 1);
    assert_int_equal(gpu->mig, 1);
    assert_na(gpu->busy_percent);
    assert_na(gpu->effective_percent);
    assert_nvml(gpu->memory_used, 4.0 * (1u << 30));
    assert_non_null(strstr(gpu->problem, "MIG"));
    stoke_gpus_close(&gpus);
}

/* At whatever call it happens: from then on nothing is asked of the card, and nothing of it is believed. */
static void a_card_falls_off_the_bus(void **state)
{
    stoke_gpus *gpus = open_new(state);
    const long opening = fake->calls(0);
    read_card(gpus, 0);
    const long all = fake->calls(0);
    stoke_gpus_close(&gpus);
    for (long after = 0; after < all; after++) {
        fake->reset();
        fake->settings->card[0].lost_after = after;
        gpus = open_new(state);
        assert_int_equal(stoke_gpus_count(gpus), 2);
        for (int again = 0; again < 2; again++) {
            stoke_figure *figures[32];
            stoke_gpu *gpu = read_card(gpus, 0);
            assert_int_equal(gpu->lost, 1);
            assert_non_null(strstr(gpu->problem, "fell off the bus"));
            for (size_t i = all_figures(gpu, figures); i-- > 0;) assert_na(*figures[i]);
            assert_int_equal(gpu->n_processes, 0);
            assert_string_equal(gpu->vendor, "nvidia");
            if (after >= opening) assert_string_equal(gpu->name, "Fake GPU 24 GB");
            fake->settings->card[0].lost_after = -1; /* back again, but its state is gone: it stays lost */
        }
        assert_int_equal(fake->calls(0), after);
        assert_nvml(read_card(gpus, 1)->busy_percent, 70); /* the other one is well */
        stoke_gpus_close(&gpus);
    }
}

/* Not every card that does not open is lost. */
static void a_card_that_may_not_be_opened(void **state)
{
    fake->settings->card[0].refused = 4; /* NVML_ERROR_NO_PERMISSION */
    stoke_gpus *gpus = open_new(state);
    assert_int_equal(stoke_gpus_count(gpus), 2);
    stoke_gpu *gpu = read_card(gpus, 0);
    stoke_figure *figures[32];
    assert_int_equal(gpu->lost, 0);
    assert_string_equal(gpu->name, "NVIDIA card 0");
    assert_non_null(strstr(gpu->problem, "error 4"));
    for (size_t i = all_figures(gpu, figures); i-- > 0;) assert_na(*figures[i]);
    assert_nvml(read_card(gpus, 1)->busy_percent, 70);
    stoke_gpus_close(&gpus);
}

static void programs_come_and_go(void **state)
{
    fake_nvml_card *card = &fake->settings->card[0];
    char stat[64];
    put(state, "proc/42/comm", "python3\n");
    put(state, "proc/42/stat", "42 (a ) b) S 1 42 42\n");
    snprintf(stat, sizeof stat, "43 (a ) child) R %d 1 1\n", (int)getpid());
    put(state, "proc/43/stat", stat);
    stoke_gpus *gpus = open_new(state);
    assert_int_equal(read_card(gpus, 0)->n_processes, 0);
    card->processes[0] = 42;
    card->processes[1] = 43;
    card->processes[2] = (unsigned)getpid();
    card->n_processes = 3;
    card->appear = 2;
    stoke_gpu *gpu = read_card(gpus, 0);
    assert_int_equal(gpu->n_processes, 3); /* each once, though it computes and draws */
    assert_string_equal(gpu->process[0].name, "python3");
    assert_int_equal(gpu->process[0].own, 0);
    assert_nvml(gpu->process[0].memory_bytes, 1u << 30);
    assert_nvml(gpu->process[0].busy_percent, 25);
    assert_string_equal(gpu->process[1].name, "");
    assert_int_equal(gpu->process[1].own, 1);
    assert_na(gpu->process[1].memory_bytes);
    assert_nvml(gpu->process[1].busy_percent, 26);
    assert_int_equal(gpu->process[2].own, 1);
    card->n_processes = 1;
    card->appear = 0;
    card->garbage_shares = 1;
    gpu = read_card(gpus, 0);
    assert_int_equal(gpu->n_processes, 1);
    assert_na(gpu->process[0].busy_percent);
    stoke_gpus_close(&gpus);
}

static void more_programs_than_there_is_room_for(void **state)
{
    fake_nvml_card *card = &fake->settings->card[0];
    for (unsigned i = 0; i < 40; i++) card->processes[i] = 1000 + i;
    card->n_processes = 40;
    stoke_gpus *gpus = open_new(state);
    stoke_gpu *gpu = read_card(gpus, 0);
    assert_int_equal(gpu->n_processes, STOKE_GPU_PROCESSES);
    assert_int_equal(gpu->more_processes, 8);
    stoke_gpus_close(&gpus);
}

static void drivers_that_miscount_programs(void **state)
{
    snprintf(fake->settings->driver, sizeof fake->settings->driver, "535.54.03");
    stoke_gpus *gpus = open_new(state);
    assert_non_null(strstr(read_card(gpus, 0)->problem, "535.54.03 lists only the first"));
    stoke_gpus_close(&gpus);
    snprintf(fake->settings->driver, sizeof fake->settings->driver, "535.98");
    gpus = open_new(state);
    assert_string_equal(read_card(gpus, 0)->problem, "");
    stoke_gpus_close(&gpus);
}

static void a_library_that_does_not_start(void **state)
{
    static const struct {
        int result;
        const char *words;
    } cases[] = {
        { 9, "modprobe nvidia" }, { 18, "reboot after an update" },
        { 12, "reinstall" },      { 17, "start it again" },
        { 999, "nvidia-smi" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake->settings->init = cases[i].result;
        stoke_gpus *gpus = open_new(state);
        assert_int_equal(stoke_gpus_count(gpus), 0);
        assert_non_null(strstr(stoke_gpus_why(gpus), cases[i].words));
        assert_null(strstr(stoke_gpus_why(gpus), "on the bus"));
        stoke_gpus_close(&gpus);
    }
}

static void no_library_and_no_card(void **state)
{
    stoke_gpus *gpus = open_with(state, "/nowhere/libnvidia-ml.so.1", 0);
    assert_int_equal(stoke_gpus_count(gpus), 0);
    assert_non_null(strstr(stoke_gpus_why(gpus), "/nowhere/libnvidia-ml.so.1 cannot be opened; install"));
    assert_non_null(strstr(stoke_gpus_why(gpus), "AMD, Intel: no card"));
    stoke_gpus_close(&gpus);
    fake->settings->cards = 0;
    gpus = open_new(state);
    assert_non_null(strstr(stoke_gpus_why(gpus), "shows no card"));
    stoke_gpus_close(&gpus);
    gpus = open_with(state, "libm.so.6", 0); /* a library, but another */
    assert_non_null(strstr(stoke_gpus_why(gpus), "is missing"));
    stoke_gpus_close(&gpus);
    stoke_gpus_close(&gpus);
}

/* What makes the difference between "buy a card" and "install the driver". */
static void a_card_on_the_bus_without_a_library(void **state)
{
    put(state, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    put(state, "sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n");
    put(state, "sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n"); /* its sound */
    put(state, "sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
    stoke_gpus *gpus = open_with(state, "/nowhere/libnvidia-ml.so.1", 0);
    assert_non_null(strstr(stoke_gpus_why(gpus), "(1 NVIDIA card is on the bus, at 0000:01:00.0)"));
    stoke_gpus_close(&gpus);
    put(state, "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t Fake GPU 24 GB\nIRQ: 1\n");
    put(state, "sys/class/drm/card0/device/vendor", "0x1002\n"); /* another one that works */
    gpus = open_with(state, "/nowhere/libnvidia-ml.so.1", 0);
    assert_int_equal(stoke_gpus_count(gpus), 1);
    assert_non_null(strstr(stoke_gpus_why(gpus), "at 0000:01:00.0, Fake GPU 24 GB)"));
    assert_null(strstr(stoke_gpus_why(gpus), "AMD"));
    stoke_gpus_close(&gpus);
}

static void no_memory(void **state)
{
    int r = STOKE_E_NOMEM;
    put(state, "sys/class/drm/card0/device/vendor", "0x1002\n");
    stoke_gpus_params params = stoke_gpus_defaults();
    params.root = unit_folder(state);
    for (int allowed = 0; r; allowed++) {
        stoke_gpus *gpus;
        stoke_error err = { 0 };
        stk_mem_fail_after(allowed);
        r = stoke_gpus_open(&gpus, &params, &err);
        stk_mem_fail_after(-1);
        assert_true(allowed < 20);
        if (r) {
            assert_int_equal(r, STOKE_E_NOMEM);
            assert_null(gpus);
            assert_int_equal(fake->started(), 0);
        } else {
            assert_true(allowed >= 4);
            stoke_gpus_close(&gpus);
        }
    }
    params.struct_size = 4;
    stoke_gpus *gpus;
    assert_int_equal(stoke_gpus_open(&gpus, &params, NULL), STOKE_E_INVALID);
}

/* ---- AMD and Intel ---- */

static void put_drm_client(void **state, int pid, int file, const char *text)
{
    char name[64];
    snprintf(name, sizeof name, "proc/%d/fd/none", pid);
    put(state, name, "");
    snprintf(name, sizeof name, "proc/%d/fd/%d", pid, file);
    assert_int_equal(symlink("/dev/dri/renderD128", unit_path(state, name)), 0);
    snprintf(name, sizeof name, "proc/%d/fdinfo/%d", pid, file);
    put(state, name, text);
}

static stoke_gpus *open_drm(void **state)
{
    return open_with(state, "/nowhere/libnvidia-ml.so.1", 1);
}

static void amd_by_sysfs(void **state)
{
    static const char *const files[][2] = {
        { "vendor", "0x1002\n" },
        { "device", "0x73bf\n" },
        { "uevent", "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_SLOT_NAME=0000:03:00.0\n" },
        { "unique_id", "4d5c6b7a\n" },
        { "gpu_busy_percent", "37\n" },
        { "mem_busy_percent", "12\n" },
        { "mem_info_vram_total", "17163091968\n" },
        { "mem_info_vram_used", "1163091968\n" },
        { "pp_dpm_sclk", "0: 500Mhz\n1: 1200Mhz *\n2: 2575Mhz\n" },
        { "pp_dpm_mclk", "0: 96Mhz *\n1: 1000Mhz\n" },
        { "current_link_speed", "8.0 GT/s PCIe\n" },
        { "current_link_width", "8\n" },
        { "max_link_speed", "16.0 GT/s PCIe\n" },
        { "max_link_width", "16\n" },
        { "numa_node", "-1\n" },
        { "pcie_bw", "1000 30 256\n" },
        { "hwmon/hwmon4/temp1_input", "61500\n" },
        { "hwmon/hwmon4/power1_average", "150000000\n" },
        { "hwmon/hwmon4/power1_cap", "300000000\n" },
    };
    char name[128];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "sys/class/drm/card1/device/%s", files[i][0]);
        put(state, name, files[i][1]);
    }
    put(state, "sys/class/drm/card1-HDMI-A-1/device/vendor", "0x1002\n"); /* a plug */
    put(state, "sys/class/drm/card0/device/vendor", "0x1a03\n");          /* the board's own picture */
    put_drm_client(state, 77, 5,
                   "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t9\ndrm-pdev:\t0000:03:00.0\n"
                   "drm-memory-vram:\t2048 KiB\ndrm-engine-gfx:\t1000 ns\n");
    stoke_gpus *gpus = open_drm(state);
    assert_int_equal(stoke_gpus_count(gpus), 1);
    assert_string_equal(stoke_gpus_why(gpus), "");
    stoke_gpu *gpu = read_card(gpus, 0);
    assert_string_equal(gpu->vendor, "amd");
    assert_string_equal(gpu->name, "AMD graphics 0x73bf");
    assert_string_equal(gpu->pci, "0000:03:00.0");
    assert_string_equal(gpu->driver, "amdgpu");
    assert_string_equal(gpu->uuid, "4d5c6b7a");
    assert_sysfs(gpu->busy_percent, 37);
    assert_sysfs(gpu->memory_busy_percent, 12);
    assert_figure(gpu->effective_percent, 18.5, STOKE_SOURCE_ESTIMATED);
    assert_sysfs(gpu->memory_free, 16e9);
    assert_sysfs(gpu->temperature, 61.5);
    assert_sysfs(gpu->power_watt, 150);
    assert_sysfs(gpu->power_limit_watt, 300);
    assert_sysfs(gpu->clock_sm_mhz, 1200);
    assert_sysfs(gpu->clock_sm_max_mhz, 2575);
    assert_sysfs(gpu->clock_memory_mhz, 96);
    assert_sysfs(gpu->pcie_generation, 3);
    assert_sysfs(gpu->pcie_generation_max, 4);
    assert_sysfs(gpu->pcie_width, 8);
    assert_sysfs(gpu->pcie_to_device, 256000);
    assert_sysfs(gpu->pcie_from_device, 7680);
    assert_na(gpu->energy_joule);
    assert_na(gpu->numa_node);
    assert_na(gpu->clocks_reasons);
    assert_int_equal(gpu->n_processes, 1);
    assert_int_equal(gpu->process[0].pid, 77);
    assert_figure(gpu->process[0].memory_bytes, 2048.0 * 1024, STOKE_SOURCE_FDINFO);
    assert_na(gpu->process[0].busy_percent);
    remove(unit_path(state, "sys/class/drm/card1/device/vendor"));
    gpu = read_card(gpus, 0);
    assert_int_equal(gpu->lost, 1);
    assert_na(gpu->busy_percent);
    assert_non_null(strstr(gpu->problem, "gone"));
    stoke_gpus_close(&gpus);
}

static void intel_by_fdinfo(void **state)
{
    put(state, "sys/class/drm/card0/device/vendor", "0x8086\n");
    put(state, "sys/class/drm/card0/device/uevent", "DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n");
    put(state, "sys/class/drm/card0/gt_cur_freq_mhz", "350\n");
    put(state, "sys/class/drm/card0/gt_max_freq_mhz", "1300\n");
    put(state, "sys/class/drm/card0/device/hwmon/hwmon1/energy1_input", "5000000\n");
    put_drm_client(state, 80, 3, "drm-client-id: 4\ndrm-pdev: 0000:00:02.0\ndrm-engine-render: 0 ns\n");
    stoke_gpus *gpus = open_drm(state);
    stoke_gpu *gpu = read_card(gpus, 0);
    assert_string_equal(gpu->vendor, "intel");
    assert_string_equal(gpu->name, "Intel graphics");
    assert_sysfs(gpu->clock_sm_mhz, 350);
    assert_sysfs(gpu->clock_sm_max_mhz, 1300);
    assert_sysfs(gpu->energy_joule, 5);
    assert_na(gpu->power_watt); /* needs a second reading, as the share does */
    assert_na(gpu->busy_percent);
    assert_na(gpu->memory_total);
    /* More nanoseconds than went by: all of them, and no more than that. */
    put(state, "proc/80/fdinfo/3",
        "drm-client-id: 4\ndrm-pdev: 0000:00:02.0\ndrm-engine-render: 999999999999999 ns\n");
    put(state, "sys/class/drm/card0/device/hwmon/hwmon1/energy1_input", "6000000\n");
    gpu = read_card(gpus, 0);
    assert_figure(gpu->busy_percent, 100, STOKE_SOURCE_FDINFO);
    assert_figure(gpu->process[0].busy_percent, 100, STOKE_SOURCE_FDINFO);
    assert_true(gpu->power_watt.source == STOKE_SOURCE_SYSFS && gpu->power_watt.value > 0);
    stoke_gpus_close(&gpus);
}

/* The shares by hand: two programs, one of them with two descriptors, engines of which there are two. */
static void shares_of_engines(void **state)
{
    static stk_drm_clients before, now;
    const char *folder = unit_folder(state);
    put_drm_client(state, 1, 3, "drm-client-id: 1\ndrm-pdev: 0000:00:02.0\ndrm-engine-ccs: 100 ns\n");
    put_drm_client(state, 1, 4, "drm-client-id: 1\ndrm-pdev: 0000:00:02.0\ndrm-engine-ccs: 100 ns\n");
    put_drm_client(state, 2, 3, "drm-client-id: 2\ndrm-pdev: 0000:00:02.0\ndrm-engine-ccs: 50 ns\n");
    put_drm_client(state, 3, 3, "drm-client-id: 3\ndrm-pdev: 0000:00:02.1\ndrm-engine-ccs: 50 ns\n");
    stk_drm_sweep(&before, folder, "0000:00:02.0");
    assert_int_equal(before.count, 2); /* a client once, and none of another card */
    now = before;
    before.time_ns = 1000;
    now.time_ns = 2000;
    assert_true(stk_drm_busy(&before, &now, 0) == 0);
    for (size_t i = 0; i < 2; i++) {
        now.client[i].engine[0].busy += now.client[i].pid == 1 ? 500 : 200;
        now.client[i].engine[0].capacity = 2;
    }
    assert_true(stk_drm_busy(&before, &now, 0) == 35);
    assert_true(stk_drm_busy(&before, &now, 1) == 25);
    assert_true(stk_drm_busy(&before, &now, 99) < 0);
    now.time_ns = 1000;
    assert_true(stk_drm_busy(&before, &now, 0) < 0); /* no time went by */
}

/* Two more than are kept. */
#define MANY_ENGINES                                                                                         \
    "drm-engine-a:1\ndrm-engine-b:1\ndrm-engine-c:1\ndrm-engine-d:1\ndrm-engine-e:1\n"                       \
    "drm-engine-f:1\ndrm-engine-g:1\ndrm-engine-h:1\ndrm-engine-i:1\ndrm-engine-j:1"

static void fdinfo_texts(void **state)
{
    (void)state;
    stk_drm_client client;
    assert_true(stk_drm_parse(&client,
                              "pos: 0\ndrm-driver: xe\ndrm-pdev: 0000:03:00.0\ndrm-client-id: 12\n"
                              "drm-resident-vram0: 3 MiB\ndrm-resident-system: 9 MiB\n"
                              "drm-cycles-ccs: 70\ndrm-total-cycles-ccs: 700\ndrm-engine-capacity-ccs: 4\n",
                              "0000:03:00.0"));
    assert_int_equal(client.id, 12);
    assert_true(client.has_memory && client.memory_bytes == 3.0 * 1048576);
    assert_int_equal(client.n_engines, 1);
    assert_int_equal(client.engine[0].busy, 70);
    assert_int_equal(client.engine[0].total, 700);
    assert_int_equal(client.engine[0].capacity, 4);
    static const char *const hostile[] = {
        "",
        "\n\n",
        "drm-pdev:",
        "drm-engine-: 1 ns\ndrm-engine-a-name-that-is-far-too-long-for-us: 1 ns\n",
        "drm-engine-capacity-x: 99999999999\ndrm-pdev: 0000:03:00.00\n",
        MANY_ENGINES,
    };
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        assert_false(stk_drm_parse(&client, hostile[i], "0000:03:00.0"));
        assert_true(client.n_engines <= STK_DRM_ENGINES);
    }
}

static int take_fake(void **state)
{
    (void)state;
    const char *file = getenv("STOKE_LIBNVML");
    if (!file) return -1;
    fake = take(file);
    return 0;
}

#define nvml_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

UNIT_GROUP(gpus)
{
    const struct CMUnitTest tests[] = {
        nvml_test(every_figure_of_a_card),
        nvml_test(what_blocks_is_left_out_unless_asked_for),
        nvml_test(samples_then_rates),
        nvml_test(driver_of_2015),
        nvml_test(versions_of_the_memory_record),
        nvml_test(a_card_cut_into_instances),
        nvml_test(a_card_falls_off_the_bus),
        nvml_test(a_card_that_may_not_be_opened),
        nvml_test(programs_come_and_go),
        nvml_test(more_programs_than_there_is_room_for),
        nvml_test(drivers_that_miscount_programs),
        nvml_test(a_library_that_does_not_start),
        nvml_test(no_library_and_no_card),
        nvml_test(a_card_on_the_bus_without_a_library),
        nvml_test(no_memory),
        unit_test_with_folder(amd_by_sysfs),
        unit_test_with_folder(intel_by_fdinfo),
        unit_test_with_folder(shares_of_engines),
        cmocka_unit_test(fdinfo_texts),
    };
    return cmocka_run_group_tests(tests, take_fake, NULL);
}
