/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiler that remembers the text. What has the word BROKEN in it does not compile; options that would
 * change the pixels are refused.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/device/cuda.h"
#include "tests/fake/fake_cuda.h"

#define NVRTC_FN(type, name, arguments) type name arguments;
#include "src/device/nvrtc_functions.def"
#undef NVRTC_FN

struct _nvrtcProgram {
    char *text, *ptx;
    char log[64];
};

static const char head[] = "// fake PTX of compute_%d\n%s";
static _Atomic unsigned long calls;
static _Atomic int alive;
static unsigned long fail_at;
static int fail_code, lowest = 50;
static const char *failed = "";

#define BEGIN()                                                                                              \
    if (++calls == fail_at) {                                                                                \
        failed = __func__;                                                                                   \
        return fail_code;                                                                                    \
    }

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    BEGIN()
    *major = 12;
    *minor = 4;
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    return result == NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR unknown";
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    BEGIN()
    *count = 3;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *architectures)
{
    BEGIN()
    const int known[] = { lowest, 80, 90 };
    memcpy(architectures, known, sizeof known);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name, int n_headers,
                               const char *const *headers, const char *const *header_names)
{
    BEGIN()
    *program = calloc(1, sizeof **program);
    if (!*program) abort();
    (*program)->text = strdup(text);
    alive++;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    free((*program)->text);
    free((*program)->ptx);
    free(*program);
    *program = NULL;
    alive--;
    BEGIN()
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n_options, const char *const *options)
{
    BEGIN()
    int architecture = 0, separate = 0;
    for (int i = 0; i < n_options; i++) {
        sscanf(options[i], "--gpu-architecture=compute_%d", &architecture);
        separate |= !strcmp(options[i], "--fmad=false");
    }
    if ((architecture != lowest && architecture != 80 && architecture != 90) || !separate) {
        snprintf(program->log, sizeof program->log, "an architecture and --fmad=false are wanted");
        return NVRTC_ERROR_COMPILATION;
    }
    if (strstr(program->text, "BROKEN")) {
        snprintf(program->log, sizeof program->log, "augment(1): error: BROKEN");
        return NVRTC_ERROR_COMPILATION;
    }
    const size_t bytes = sizeof head + 16 + strlen(program->text);
    program->ptx = malloc(bytes);
    if (!program->ptx) abort();
    snprintf(program->ptx, bytes, head, architecture, program->text);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes)
{
    BEGIN()
    *bytes = strlen(program->ptx) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *text)
{
    BEGIN()
    strcpy(text, program->ptx);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes)
{
    BEGIN()
    *bytes = strlen(program->log) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *text)
{
    BEGIN()
    strcpy(text, program->log);
    return NVRTC_SUCCESS;
}

/* ---- controls ---- */

static void set_fail_at(unsigned long call, int code)
{
    calls = 0;
    fail_at = call;
    fail_code = code;
    failed = "";
}

static void set_lowest(int architecture)
{
    lowest = architecture;
}

static void reset(void)
{
    set_fail_at(0, 0);
    set_lowest(50);
}

static unsigned long get_calls(void)
{
    return calls;
}

static const char *get_failed(void)
{
    return failed;
}

static int get_programs(void)
{
    return alive;
}

extern const fake_nvrtc_control fake_nvrtc;
const fake_nvrtc_control fake_nvrtc = { reset, set_fail_at, get_calls, get_failed, get_programs, set_lowest };
