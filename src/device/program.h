/* SPDX-License-Identifier: Apache-2.0
 *
 * A program: kernels as text for compilers at run time, as PTX where nvcc was there at build time, and as C.
 */
#ifndef STOKE_SRC_DEVICE_PROGRAM_H
#define STOKE_SRC_DEVICE_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

/* Runs the work items from[] .. to[] - 1 of a kernel. arguments[i] is the address of the block, or of the
 * value. */
typedef void stk_host_kernel(void *const *arguments, const uint32_t from[3], const uint32_t to[3]);

typedef struct stk_program_ptx {
    uint32_t architecture; /* 80: compute_80 */
    const char *text;      /* ends with a zero */
    size_t bytes;
} stk_program_ptx;

typedef struct stk_program {
    const char *name;
    const char *text; /* OpenCL C and CUDA C at once; includes resolved; ends with a zero */
    size_t text_bytes;
    const char *const *kernels; /* names */
    const uint8_t *arguments;   /* of each, the shape included */
    stk_host_kernel *const *host;
    uint32_t n_kernels;
    const stk_program_ptx *ptx; /* by rising architecture; n_ptx 0: none was made */
    uint32_t n_ptx;
} stk_program;

/* The kernels of kernels/, in the order of kernels.def. */
enum stk_program_kernel {
#define KERNEL(name, arguments) STK_KERNEL_##name,
#include "kernels/kernels.def"
#undef KERNEL
    STK_KERNELS
};
extern const stk_program stk_augment_program;

#endif
