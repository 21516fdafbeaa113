/* SPDX-License-Identifier: Apache-2.0
 *
 * Stokehold: reads image/mask pairs, decodes, augments and delivers them at the speed of the hardware, and
 * trains networks on them. This is what is promised: functions and structs change only with the major
 * version, which the library's soname carries, and struct_size catches a program built with other headers.
 * <stoke/tools/tools.h> has what our own programs use besides; that may change with any version.
 * examples/iterate.c shows the main use in 40 lines.
 */
#ifndef STOKE_STOKE_H
#define STOKE_STOKE_H

#include <stoke/common.h>
#include <stoke/memory.h>
#include <stoke/data.h>
#include <stoke/image.h>
#include <stoke/labels.h>
#include <stoke/augment_plan.h>
#include <stoke/augment.h>
#include <stoke/dataset.h>
#include <stoke/loader.h>
#include <stoke/device.h>
#include <stoke/upload.h>
#include <stoke/net.h>
#include <stoke/metrics.h>
#include <stoke/train.h>
#include <stoke/evaluate.h>
#include <stoke/predict.h>

#endif
