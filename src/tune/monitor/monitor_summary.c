/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings into a summary, and the summary into a verdict.
 */
#include "src/tune/monitor/monitor.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/tune/machine/tree.h"

enum {
    IDLE_PERCENT = 10,
    /* Below it, feeding the card better gains at least a tenth. */
    FED_PERCENT = 90,
    /* From here on the processor or the disk is the one that the others wait for. */
    CPU_FULL = 85,
    DISK_FULL = 80
};

const char *stoke_clocks_reason_name(unsigned index)
{
    static const char *const names[STOKE_CLOCKS_REASONS] = {
        "idle",       "application clocks", "power limit",        "hardware slowdown",
        "sync boost", "too hot (software)", "too hot (hardware)", "power brake",
    };
    return index < STOKE_CLOCKS_REASONS ? names[index] : "unknown";
}

/* ---- adding ---- */

static void add(stk_monitor_sum *sum, stoke_figure figure)
{
    if (!figure.source) return;
    if (!sum->readings || figure.value > sum->peak) sum->peak = figure.value;
    sum->sum += figure.value;
    sum->readings++;
    sum->source = figure.source;
}

static void add_percent(stk_monitor_percent_sum *sum, stoke_figure figure)
{
    if (!figure.source) return;
    add(&sum->all, figure);
    const double tenths = figure.value * 10 + 0.5;
    sum->tenth[tenths < 0 ? 0 : tenths >= STK_TENTHS ? STK_TENTHS - 1 : (size_t)tenths]++;
}

static void raise_to(stoke_figure *peak, stoke_figure figure)
{
    if (figure.source && (!peak->source || figure.value > peak->value)) *peak = figure;
}

static void add_process(stoke_gpu_summary *seen, const stoke_gpu_process *process)
{
    stoke_process_peak *peak = NULL;
    for (uint32_t i = 0; i < seen->n_processes && !peak; i++)
        if (seen->process[i].pid == process->pid) peak = &seen->process[i];
    if (!peak) {
        if (seen->n_processes == STOKE_MONITOR_PROCESSES) {
            seen->more_processes = 1;
            return;
        }
        peak = &seen->process[seen->n_processes++];
        peak->pid = process->pid;
    }
    if (*process->name) memcpy(peak->name, process->name, sizeof peak->name);
    peak->own = process->own;
    raise_to(&peak->memory_bytes, process->memory_bytes);
    raise_to(&peak->busy_percent, process->busy_percent);
}

/* From a reading to the summary. */
#define SUMMED(field)                                                                                        \
    {                                                                                                        \
        offsetof(stoke_gpu, field), offsetof(stoke_gpu_summary, field)                                       \
    }
static const struct {
    size_t figure, spread;
} summed[STK_GPU_SUMS] = {
    [STK_GPU_MEMORY] = SUMMED(memory_used),
    [STK_GPU_POWER] = SUMMED(power_watt),
    SUMMED(effective_percent),
    SUMMED(temperature),
    SUMMED(clock_sm_mhz),
    SUMMED(clock_memory_mhz),
    SUMMED(pcie_to_device),
    SUMMED(pcie_from_device),
};
#undef SUMMED

void stk_gpu_sums_add(stk_monitor_gpu_sums *sums, const stoke_gpu *gpu, double seconds)
{
    stoke_gpu_summary *seen = &sums->seen;
    memcpy(seen->name, gpu->name, sizeof seen->name);
    memcpy(seen->pci, gpu->pci, sizeof seen->pci);
    memcpy(seen->problem, gpu->problem, sizeof seen->problem);
    seen->lost = gpu->lost;
    add_percent(&sums->busy, gpu->busy_percent);
    for (int i = 0; i < STK_GPU_SUMS; i++)
        add(&sums->sum[i], *(const stoke_figure *)((const char *)gpu + summed[i].figure));
    if (gpu->memory_total.source) seen->memory_total = gpu->memory_total;
    if (gpu->power_watt.source) sums->power_joule += gpu->power_watt.value * seconds;
    if (gpu->energy_joule.source) {
        if (!sums->energy_first.source) sums->energy_first = gpu->energy_joule;
        sums->energy_last = gpu->energy_joule;
    }
    const stoke_figure reasons = gpu->clocks_reasons;
    if (reasons.source) {
        const uint64_t bits = reasons.value > 0 ? (uint64_t)reasons.value : 0;
        for (unsigned i = 0; i < STOKE_CLOCKS_REASONS; i++) sums->reason[i] += bits >> i & 1;
        sums->reason_readings++;
        sums->reason_source = reasons.source;
    }
    const int idle = gpu->busy_percent.source && gpu->busy_percent.value < IDLE_PERCENT;
    if (idle) {
        sums->idle++;
        sums->bursts += !sums->in_burst;
        sums->idle_seconds = (sums->in_burst ? sums->idle_seconds : 0) + seconds;
        if (sums->idle_seconds > sums->longest_idle) sums->longest_idle = sums->idle_seconds;
    }
    sums->in_burst = idle;
    for (uint32_t i = 0; i < gpu->n_processes; i++) add_process(seen, &gpu->process[i]);
    if (gpu->more_processes) seen->more_processes = 1;
}

void stk_load_sums_add(stk_monitor_load_sums *sums, const stoke_load *load)
{
    add_percent(&sums->cpu, load->cpu_percent);
    add_percent(&sums->disk_busy, load->disk_busy_percent);
    add(&sums->memory, load->memory_used);
    add(&sums->disk_read, load->disk_read);
    add(&sums->disk_write, load->disk_write);
    if (load->memory_total.source) sums->memory_total = load->memory_total;
}

/* ---- finishing ---- */

static stoke_spread spread_of(const stk_monitor_sum *sum)
{
    stoke_spread spread = { .readings = sum->readings };
    if (!sum->readings) return spread;
    spread.mean = stk_figure(sum->sum / (double)sum->readings, sum->source);
    spread.peak = stk_figure(sum->peak, sum->source);
    return spread;
}

/* Nearest rank: the smallest value that at least `percent` of the readings do not exceed. */
static double percentile(const stk_monitor_percent_sum *sum, unsigned percent)
{
    const uint64_t rank = (sum->all.readings * percent + 99) / 100;
    uint64_t seen = 0;
    for (size_t i = 0; i < STK_TENTHS; i++) {
        seen += sum->tenth[i];
        if (seen && seen >= rank) return (double)i / 10;
    }
    return 100;
}

static stoke_spread spread_of_percent(const stk_monitor_percent_sum *sum)
{
    stoke_spread spread = spread_of(&sum->all);
    if (!spread.readings) return spread;
    spread.p5 = stk_figure(percentile(sum, 5), sum->all.source);
    spread.p95 = stk_figure(percentile(sum, 95), sum->all.source);
    return spread;
}

void stk_gpu_sums_finish(const stk_monitor_gpu_sums *sums, stoke_gpu_summary *summary)
{
    *summary = sums->seen;
    summary->busy_percent = spread_of_percent(&sums->busy);
    for (int i = 0; i < STK_GPU_SUMS; i++)
        *(stoke_spread *)((char *)summary + summed[i].spread) = spread_of(&sums->sum[i]);
    /* One look at the counter says nothing of the time since; nor does one that began again. */
    const stoke_figure first = sums->energy_first, last = sums->energy_last;
    if (first.source && last.value > first.value)
        summary->energy_joule = stk_figure(last.value - first.value, last.source);
    else if (sums->sum[STK_GPU_POWER].readings)
        summary->energy_joule = stk_figure(sums->power_joule, STOKE_SOURCE_ESTIMATED);
    for (unsigned i = 0; i < STOKE_CLOCKS_REASONS && sums->reason_readings; i++)
        summary->reason_share[i] =
            stk_figure((double)sums->reason[i] / (double)sums->reason_readings, sums->reason_source);
    const stk_monitor_sum *busy = &sums->busy.all;
    if (busy->readings) {
        summary->idle_share = stk_figure((double)sums->idle / (double)busy->readings, busy->source);
        summary->idle_bursts = stk_figure((double)sums->bursts, busy->source);
        summary->longest_idle = stk_figure(sums->longest_idle, busy->source);
    }
}

void stk_load_sums_finish(const stk_monitor_load_sums *sums, stoke_monitor_summary *summary)
{
    summary->cpu_percent = spread_of_percent(&sums->cpu);
    summary->disk_busy_percent = spread_of_percent(&sums->disk_busy);
    summary->memory_used = spread_of(&sums->memory);
    summary->disk_read = spread_of(&sums->disk_read);
    summary->disk_write = spread_of(&sums->disk_write);
    summary->memory_total = sums->memory_total;
}

/* ---- verdict ---- */

STOKE_PRINTF(3, 4)
static void say(stoke_monitor_verdict *verdict, const char *next, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verdict->text, sizeof verdict->text, format, arguments);
    va_end(arguments);
    snprintf(verdict->next, sizeof verdict->next, "%s", next);
}

/* The card waits: for whom? */
static void judge_waiting(const stoke_monitor_summary *machine, double busy, stoke_monitor_verdict *verdict)
{
    const stoke_figure cpu = machine->cpu_percent.mean, disk = machine->disk_busy_percent.mean;
    if (disk.source && disk.value >= DISK_FULL)
        say(verdict, "stoke doctor --data DIR",
            "The card was busy %.0f %% of the time and the disk %.0f %%: most likely it waits for the disk. "
            "Look at how fast the disk is, and pack or cache the data.",
            busy, disk.value);
    else if (cpu.source && cpu.value >= CPU_FULL)
        say(verdict, "stoke diagnose --config FILE",
            "The card was busy %.0f %% of the time and the processors %.0f %%: most likely it waits for "
            "decoding and augmentation. Measure where the time goes and what each remedy would gain.",
            busy, cpu.value);
    else
        say(verdict, "stoke diagnose --config FILE",
            "The card was busy %.0f %% of the time although the machine had power to spare: too few workers, "
            "too little prefetch or a step that waits for the host. Measure which; for a stoke run, "
            "`stoke monitor --attach RUN` shows the loader.",
            busy);
}

/* No card can be watched: a training that runs here runs on the processor. */
static void judge_processor(const stoke_monitor_summary *machine, stoke_monitor_verdict *verdict)
{
    const stoke_figure cpu = machine->cpu_percent.mean, disk = machine->disk_busy_percent.mean;
    if (!cpu.source)
        say(verdict, "stoke doctor", "Neither a card nor the processors could be watched.");
    else if (cpu.value >= CPU_FULL)
        say(verdict, "stoke monitor --attach RUN",
            "No card was seen. The processors were busy %.0f %% of the time, by all programs together: "
            "whatever "
            "is to be faster needs more of them, or less work for each sample.",
            cpu.value);
    else if (disk.source && disk.value >= DISK_FULL)
        say(verdict, "stoke doctor --data DIR",
            "No card was seen. The processors were busy %.0f %% of the time and the disk %.0f %%: most "
            "likely they wait for the disk.",
            cpu.value, disk.value);
    else if (cpu.value < IDLE_PERCENT)
        say(verdict, "stoke monitor 60",
            "No card was seen, and the processors were busy %.0f %% of the time: nothing was training here.",
            cpu.value);
    else
        say(verdict, "stoke monitor --attach RUN",
            "No card was seen. The processors were busy %.0f %% of the time, so there is room for more "
            "threads or workers.",
            cpu.value);
}

static int heat_or_brake(const stoke_gpu_summary *gpu, double *share)
{
    static const unsigned bits[] = { STOKE_CLOCKS_HW_SLOWDOWN, STOKE_CLOCKS_SW_THERMAL,
                                     STOKE_CLOCKS_HW_THERMAL, STOKE_CLOCKS_POWER_BRAKE };
    int worst = -1;
    *share = 0.1; /* less is not worth a screwdriver */
    for (unsigned i = 0; i < STOKE_CLOCKS_REASONS; i++)
        for (size_t k = 0; k < sizeof bits / sizeof *bits; k++)
            if (bits[k] == 1u << i && gpu->reason_share[i].source && gpu->reason_share[i].value > *share) {
                *share = gpu->reason_share[i].value;
                worst = (int)i;
            }
    return worst;
}

void stoke_monitor_judge(const stoke_monitor_summary *machine, const stoke_gpu_summary *gpu,
                         stoke_monitor_verdict *verdict)
{
    double share;
    if (!gpu) {
        judge_processor(machine, verdict);
        return;
    }
    const stoke_figure busy = gpu->busy_percent.mean;
    const int slowed = heat_or_brake(gpu, &share);
    if (gpu->lost)
        say(verdict, "stoke doctor",
            "The card fell off the bus while it was watched; its figures end there.");
    else if (!busy.source)
        say(verdict, "stoke doctor", "The driver does not tell how busy this card is.");
    else if (busy.value < IDLE_PERCENT && !gpu->n_processes)
        say(verdict, "stoke monitor 60",
            "The card had no work: no program on it was seen. Start the training, then watch it.");
    else if (slowed >= 0)
        say(verdict, "stoke doctor",
            "The card lowered its clock in %.0f %% of the readings: %s. Look at cooling and power before "
            "anything else.",
            share * 100, stoke_clocks_reason_name((unsigned)slowed));
    else if (busy.value >= FED_PERCENT)
        say(verdict, "stoke devices",
            "The card was busy %.0f %% of the time: it is fed. What is left is the work on the card "
            "itself.",
            busy.value);
    else
        judge_waiting(machine, busy.value, verdict);
}
