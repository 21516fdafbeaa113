/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines about memory nodes and large pages: what a machine has beside enough of everything.
 */
#include <stdio.h>
#include <string.h>

#include "src/tune/preflight/preflight.h"
#include "src/tune/machine/tree.h"

/* ---- looking ---- */

/* Whether a number is in a list such as "0-3,8". */
static int is_in(const char *text, long number)
{
    stk_tree_cpu_list list = stk_cpu_list_begin(text);
    for (long n; stk_cpu_list_next(&list, &n);)
        if (n == number) return 1;
    return 0;
}

static void look_at_cores(stk_preflight_surroundings *here, const char *root)
{
    char path[STK_TREE_PATH], status[8192], near[4096];
    const stoke_figure node = here->gpu.numa_node;
    if (!node.source || node.value < 0 || !stk_tree_path(path, root, "proc/self/status") ||
        !stk_tree_text(path, status, sizeof status))
        return;
    const char *allowed = strstr(status, "Cpus_allowed_list:");
    if (!allowed || !stk_tree_path(path, root, "sys/devices/system/node/node%d/cpulist", (int)node.value) ||
        !stk_tree_text(path, near, sizeof near))
        return;
    stk_tree_cpu_list list = stk_cpu_list_begin(allowed + strlen("Cpus_allowed_list:"));
    int all = 0, there = 0;
    for (long cpu; all < 8192 && stk_cpu_list_next(&list, &cpu); all++) there += is_in(near, cpu);
    if (!all) return;
    here->cpus_allowed = stk_figure(all, STOKE_SOURCE_PROC);
    here->cpus_near = stk_figure(there, STOKE_SOURCE_SYSFS);
}

void stk_look_at_nodes(stk_preflight_surroundings *here, const char *root)
{
    char path[STK_TREE_PATH], text[128];
    look_at_cores(here, root);
    if (!stk_tree_path(path, root, "sys/kernel/mm/transparent_hugepage/enabled") ||
        !stk_tree_text(path, text, sizeof text))
        return;
    const char *word = strchr(text, '['); /* "always [madvise] never" */
    if (word) STK_SAY(here->huge_pages, "%.*s", (int)strcspn(word + 1, "]"), word + 1);
}

/* ---- judging ---- */

static void check_nodes(stk_preflight_list *list, const stk_run_config *config,
                        const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "numa", "memory nodes");
    const stoke_figure nodes = here->machine.numa_nodes;
    if (!nodes.source) {
        STK_SAY(line->figure, "the system does not tell them");
        return;
    }
    line->source = nodes.source;
    if (nodes.value < 2) {
        line->verdict = STOKE_VERDICT_PASS;
        STK_SAY(line->figure, "1: memory is equally near to all cores");
        return;
    }
    if (config->engine == STOKE_ENGINE_NATIVE) {
        STK_SAY(line->figure, "%.0f; what it costs shows only when it runs", nodes.value);
        STK_SAY(line->fix, "try it, then compare: numactl --interleave=all stoke train --config %s%s",
                config->config, config->data_flag);
        return;
    }
    if (!here->cpus_allowed.source) {
        STK_SAY(line->figure, "%.0f; which of them the card is at is not known", nodes.value);
        return;
    }
    const int node = (int)here->gpu.numa_node.value;
    const double near = here->cpus_near.value, all = here->cpus_allowed.value;
    STK_SAY(line->figure, "%.0f; the card is at node %d, and so are %.0f of the %.0f cores of this shell",
            nodes.value, node, near, all);
    line->verdict = near < all ? STOKE_VERDICT_WARN : STOKE_VERDICT_PASS;
    if (near < all)
        STK_SAY(line->fix,
                "numactl --cpunodebind=%d --membind=%d python3 ...   for the training and its workers", node,
                node);
}

/* Our network asks for them (madvise); PyTorch does not, and has them where they are given to all. */
static void check_pages(stk_preflight_list *list, const stk_run_config *config,
                        const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "huge_pages", "large pages");
    const int native = config->engine == STOKE_ENGINE_NATIVE, never = !strcmp(here->huge_pages, "never");
    if (!*here->huge_pages) {
        STK_SAY(line->figure, "the kernel does not tell, or has none");
        return;
    }
    line->source = STOKE_SOURCE_SYSFS;
    line->verdict = native && never ? STOKE_VERDICT_WARN : STOKE_VERDICT_PASS;
    STK_SAY(line->figure, "%.15s%s", here->huge_pages,
            !native ? "; of little weight where a card computes"
            : never ? ": the network asks for them and gets none"
                    : ": the network gets them");
    if (line->verdict)
        STK_SAY(line->fix, "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
}

void stk_check_machine(stk_preflight_list *list, const stk_run_config *config,
                       const stk_preflight_surroundings *here)
{
    check_nodes(list, config, here);
    check_pages(list, config, here);
}
