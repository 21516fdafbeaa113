/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command will take of memory: the line for people, and the same as JSON.
 */
#include "cli/lib/common.h"
#include "cli/lib/facts.h"

#include <stdlib.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

/* glibc learns to keep large blocks: after the first one is freed, up to 64 MB of them stay with each thread
 * that decodes, on top of what others were planned to hold. What a decoder freed goes back at once instead,
 * which costs about 0.2 ms for every megabyte it asks for again. */
void cli_keep_memory_small(void)
{
#if defined(__GLIBC__)
    enum { LARGE = 1 << 20 };
    mallopt(M_MMAP_THRESHOLD, LARGE);
    mallopt(M_TRIM_THRESHOLD, LARGE);
#endif
}

void cli_return_memory(void)
{
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

stoke_memory_sum cli_loader_memory(const stoke_memory_plan *plan)
{
    stoke_memory_sum sum = { .limit_bytes = plan->limit_bytes };
    stoke_memory_add_loader(&sum, plan);
    stoke_memory_add(&sum, "process", 1, plan->fixed_bytes);
    return sum;
}

void cli_say_memory(const cli_call *call, const stoke_memory_sum *sum)
{
    char bytes[32];
    stoke_text_bytes(stoke_memory_total(sum), bytes, sizeof bytes);
    cli_say(call, "memory: up to %s (--json has the terms)", bytes);
}

void cli_memory_planned(void *call, const stoke_memory_sum *sum)
{
    cli_say_memory(call, sum);
}

void cli_say_memory_terms(const cli_call *call, const stoke_memory_sum *sum)
{
    char text[1024];
    stoke_memory_text(sum, text, sizeof text);
    cli_say(call, "memory: %s", text);
}

void cli_json_memory(stoke_json *json, const stoke_memory_sum *sum)
{
    if (!sum->count) return;
    char text[1024];
    stoke_memory_text(sum, text, sizeof text);
    stoke_json_object(json, "plan");
    FACTS(json, FACT("bytes", stoke_memory_total(sum)), FACT_OF(sum, limit_bytes), FACT("text", text));
    stoke_json_array(json, "terms");
    for (size_t i = 0; i < sum->count; i++) {
        FACTS_OBJECT(json, NULL, FACT_OF(&sum->share[i], name), FACT_OF(&sum->share[i], count),
                     FACT_OF(&sum->share[i], bytes));
    }
    stoke_json_close(json);
    stoke_json_close(json);
}
