/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of kernels/ as a program: here they are read as C. Every one becomes a function that runs it
 * for a range of work items, with its body inside the loops.
 */
#include "src/device/device.h"

#include "kernels/augment.h"
#include "src/device/augment_text.h" /* the build makes it: scripts/embed-kernels */

/* The first n arguments of a kernel. They come as void *, which C turns into whatever the kernel takes. */
#define ARGUMENTS_1 a[0]
#define ARGUMENTS_2 ARGUMENTS_1, a[1]
#define ARGUMENTS_3 ARGUMENTS_2, a[2]
#define ARGUMENTS_4 ARGUMENTS_3, a[3]
#define ARGUMENTS_5 ARGUMENTS_4, a[4]
#define ARGUMENTS_6 ARGUMENTS_5, a[5]
#define ARGUMENTS_7 ARGUMENTS_6, a[6]
#define ARGUMENTS_8 ARGUMENTS_7, a[7]

#define KERNEL(name, n)                                                                                      \
    static void run_##name(void *const *a, const uint32_t from[3], const uint32_t to[3])                     \
    {                                                                                                        \
        const k_shape shape = *(const k_shape *)a[n];                                                        \
        for (uint32_t z = from[2]; z < to[2]; z++)                                                           \
            for (uint32_t y = from[1]; y < to[1]; y++)                                                       \
                for (uint32_t x = from[0]; x < to[0]; x++) {                                                 \
                    const k_u32 id[3] = { x, y, z };                                                         \
                    name(ARGUMENTS_##n, shape, id);                                                          \
                }                                                                                            \
    }
#include "kernels/kernels.def"
#undef KERNEL

static const char *const names[] = {
#define KERNEL(name, n) #name,
#include "kernels/kernels.def"
#undef KERNEL
};

static const uint8_t arguments[] = {
#define KERNEL(name, n) n + 1,
#include "kernels/kernels.def"
#undef KERNEL
};

static stk_host_kernel *const host[] = {
#define KERNEL(name, n) run_##name,
#include "kernels/kernels.def"
#undef KERNEL
};

/* Tables are arrays in one block: their 64-bit members must stay aligned. */
_Static_assert(sizeof(k_shape) % 8 == 0 && sizeof(k_sample) % 8 == 0 && sizeof(k_step) % 8 == 0,
               "tables of 8-byte rows");

const stk_program stk_augment_program = {
    .name = "augment",
    .text = augment_text,
    .text_bytes = sizeof augment_text - 1,
    .kernels = names,
    .arguments = arguments,
    .host = host,
    .n_kernels = STK_KERNELS,
    .ptx = augment_ptx,
    .n_ptx = AUGMENT_PTX,
};
