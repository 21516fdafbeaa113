/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL as found at run time: the functions of the ICD loader, and the devices behind it with what is wrong
 * with them. Nothing is linked: the headers give types, dlopen gives the rest.
 */
#ifndef STOKE_SRC_DEVICE_OPENCL_DRIVER_H
#define STOKE_SRC_DEVICE_OPENCL_DRIVER_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <stoke/device.h>

/* Each function as a member of its own name; tests put others in their place. */
typedef struct stk_opencl_driver {
#define OPENCL(name) __typeof__(&name) name;
#include "src/device/opencl_functions.def"
#undef OPENCL
} stk_opencl_driver;

#define STK_OPENCL_LIBRARY "libOpenCL.so.1"
/* STOKE_E_NOTFOUND: no such library; STOKE_E_UNSUPPORTED: it lacks a function. A loaded library stays for the
 * life of the process (drivers keep threads and exit handlers in it), so there is nothing to close. */
int stk_opencl_load(stk_opencl_driver *cl, const char *library, stoke_error *err);

const char *stk_opencl_code_name(cl_int code); /* "CL_INVALID_VALUE"; "an unknown code" */

/* Text of a device, or of a platform when `device` is NULL: cut to fit, blanks tidied; "" when the driver
 * does not say. */
void stk_opencl_text(const stk_opencl_driver *cl, cl_platform_id platform, cl_device_id device, cl_uint what,
                     char *text, size_t size);
/* A number or a set of flags of `size` bytes; zeroed when the driver does not say. */
void stk_opencl_value(const stk_opencl_driver *cl, cl_device_id device, cl_device_info what, void *value,
                      size_t size);

typedef struct stk_opencl_found {
    cl_platform_id platform;
    cl_device_id device; /* NULL: a platform without devices, or no platform at all: info.problem says why */
    unsigned number;     /* of the device, over all platforms */
    stoke_device_info info; /* with info.problem: no use */
} stk_opencl_found;

typedef int stk_opencl_visit(void *context, const stk_opencl_found *found);
/* Visits every device of every platform, usable or not; non-zero from `visit` ends it. A platform that fails
 * is one visit without a device and hides nobody. */
void stk_opencl_walk(const stk_opencl_driver *cl, stk_opencl_visit *visit, void *context);

#endif
