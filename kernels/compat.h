/* SPDX-License-Identifier: Apache-2.0
 *
 * One kernel source, three readers: OpenCL C (1.2), CUDA C++ (nvcc or NVRTC), host C. Kernels use only what
 * this header names.
 *
 * The same draw must give the same bytes everywhere, so contraction is off for every reader
 * (-ffp-contract=off, the pragma below, --fmad=false): a * b + c is a product and a sum, each rounded.
 * Division and square root are correctly rounded by the host, by CUDA (its default) and by OpenCL devices
 * that take -cl-fp32-correctly-rounded-divide-sqrt; nothing else is called.
 */
#ifndef STOKE_KERNELS_COMPAT_H
#define STOKE_KERNELS_COMPAT_H

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)

#pragma OPENCL FP_CONTRACT OFF
typedef uchar k_u8;
typedef ushort k_u16;
typedef uint k_u32;
typedef ulong k_u64;
typedef short k_i16;
typedef int k_i32;
typedef long k_i64;
typedef float k_f32;
#define K_KERNEL       __kernel void
#define K_FN           static inline
#define K_GLOBAL       __global
#define K_ID           /* nothing: the reader knows where it is */
#define k_at(axis)     ((k_u32)get_global_id(axis))
#define k_bits(f)      as_uint(f)
#define k_float(u)     as_float(u)
#define k_root(f)      sqrt(f)
#define k_magnitude(f) fabs(f)
#define k_add_to(p, v) atomic_add(p, v) /* the value before */

#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)

typedef unsigned char k_u8;
typedef unsigned short k_u16;
typedef unsigned int k_u32;
typedef unsigned long long k_u64;
typedef short k_i16;
typedef int k_i32;
typedef long long k_i64;
typedef float k_f32;
#define K_KERNEL extern "C" __global__ void
#define K_FN     static __device__ __forceinline__
#define K_GLOBAL
#define K_ID
#define k_at(axis)                                                                                           \
    ((axis) == 0   ? blockIdx.x * blockDim.x + threadIdx.x                                                   \
     : (axis) == 1 ? blockIdx.y * blockDim.y + threadIdx.y                                                   \
                   : blockIdx.z * blockDim.z + threadIdx.z)
#define k_bits(f)      __float_as_uint(f)
#define k_float(u)     __uint_as_float(u)
#define k_root(f)      __fsqrt_rn(f)
#define k_magnitude(f) fabsf(f)
#define k_add_to(p, v) atomicAdd(p, v)

#else /* host C */

#include <math.h>
#include <stdint.h>
#include <string.h>
typedef uint8_t k_u8;
typedef uint16_t k_u16;
typedef uint32_t k_u32;
typedef uint64_t k_u64;
typedef int16_t k_i16;
typedef int32_t k_i32;
typedef int64_t k_i64;
typedef float k_f32;
#define K_KERNEL static inline void
#define K_FN     static inline
#define K_GLOBAL
#define K_ID           , const k_u32 *k_id
#define k_at(axis)     (k_id[axis])
#define k_root(f)      sqrtf(f)
#define k_magnitude(f) fabsf(f)
#define k_add_to(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
static inline k_u32 k_bits(k_f32 f)
{
    k_u32 u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static inline k_f32 k_float(k_u32 u)
{
    k_f32 f;
    memcpy(&f, &u, sizeof f);
    return f;
}

#endif
#endif
