/* SPDX-License-Identifier: Apache-2.0
 *
 * Estimates in words: the same for the command and for Python.
 */
#include <stoke/tools/advise.h>
#include <stoke/net.h>
#include <stoke/tools/terminal.h>

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(UINT64_C(1) << 30);
}

const char *stoke_memory_term_name(int term)
{
    static const char *const names[STOKE_TERMS] = { "weights",     "gradients", "optimizer", "extra",
                                                    "activations", "logits",    "batches",   "workspace",
                                                    "context",     "fragments" };
    return term >= 0 && term < STOKE_TERMS ? names[term] : "n/a";
}

const char *stoke_memory_term_meaning(int term)
{
    static const char *const meanings[STOKE_TERMS] = {
        [STOKE_TERM_WEIGHTS] = "fp32 masters",
        [STOKE_TERM_GRADIENTS] = "of the trained weights, fp32",
        [STOKE_TERM_OPTIMIZER] = "moments, fp32",
        [STOKE_TERM_EXTRA] = "copies: autocast's, packed ones, the average",
        [STOKE_TERM_ACTIVATIONS] = "kept for the backward pass",
        [STOKE_TERM_LOGITS] = "in full size, and their gradient; native: fused",
        [STOKE_TERM_BATCHES] = "the one in use and those that wait",
        [STOKE_TERM_WORKSPACE] = "of cuBLAS and cuDNN; of the native kernels",
        [STOKE_TERM_CONTEXT] = "the driver's; native: the process",
        [STOKE_TERM_FRAGMENTS] = "what the allocator rounds up",
    };
    return term >= 0 && term < STOKE_TERMS ? meanings[term] : "n/a";
}

void stoke_estimate_subject(FILE *out, const stoke_estimate *estimate, const stoke_estimate_params *params)
{
    stoke_text_print(out, "%s, %llu parameters, batch %u, %u x %u, %u classes, %s\n", params->model,
                     (unsigned long long)estimate->parameters, (unsigned)params->batch,
                     (unsigned)params->height, (unsigned)params->width, (unsigned)params->classes,
                     params->optimizer == STOKE_OPTIMIZER_SGD ? "SGD" : "AdamW");
}

const char *stoke_estimate_precision(stoke_engine engine, const stoke_estimate_params *params)
{
    if (engine == STOKE_ENGINE_TORCH) return params->precision == STOKE_PRECISION_FP32 ? "fp32" : "autocast";
    stoke_net_params net = stoke_net_defaults();
    stoke_net_plan plan;
    net.model = params->model;
    net.classes = params->classes;
    net.height = net.width = 64;
    net.precision = params->precision;
    return stoke_net_plan_of(&net, &plan, NULL) ? "n/a" : stoke_precision_name(plan.precision);
}

void stoke_estimate_verdict(FILE *out, const stoke_estimate *estimate, stoke_engine engine,
                            const stoke_estimate_params *params)
{
    const char *name = engine == STOKE_ENGINE_TORCH ? "torch" : "native";
    const char *precision = stoke_estimate_precision(engine, params);
    if (engine == STOKE_ENGINE_TORCH)
        stoke_text_print(out, "%-6s  %.1f to %.1f GiB of a card, %s: estimated, for the process\n", name,
                         gib(estimate->low), gib(estimate->high), precision);
    else
        stoke_text_print(out, "%-6s  %.1f GiB of host memory, %s: the engine's own plan\n", name,
                         gib(estimate->total), precision);
}

void stoke_estimate_levels(FILE *out, const stoke_estimate *e)
{
    const uint64_t beside = e->card - e->total; /* what is on the card, too */
    stoke_text_print(out, "torch, by who counts:\n");
    stoke_text_print(out, "  allocator, tensors   about %.1f GiB      torch.cuda.max_memory_allocated()\n",
                     gib(e->allocated));
    stoke_text_print(out, "  allocator, reserved  %5.1f to %.1f GiB    torch.cuda.max_memory_reserved()\n",
                     gib(e->reserved_low), gib(e->reserved_high));
    stoke_text_print(out, "  process              %5.1f to %.1f GiB    its line in nvidia-smi\n", gib(e->low),
                     gib(e->high));
    stoke_text_print(
        out,
        "  card                 %5.1f to %.1f GiB    nvidia-smi's sum, with a desktop on the card "
        "and CUDA before 11.7\n",
        gib(e->low + beside), gib(e->high + beside));
}
