/* SPDX-License-Identifier: Apache-2.0
 *
 * Stokehold: reads image/mask pairs, decodes, augments and delivers them at the speed of the hardware.
 * The umbrella header; examples/iterate.c shows the main use in 40 lines.
 */
#ifndef STOKE_STOKE_H
#define STOKE_STOKE_H

#include <stoke/common.h>
#include <stoke/terminal.h>
#include <stoke/machine.h>
#include <stoke/memory.h>
#include <stoke/options.h>
#include <stoke/config.h>
#include <stoke/data.h>
#include <stoke/image.h>
#include <stoke/labels.h>
#include <stoke/augment_plan.h>
#include <stoke/augment.h>
#include <stoke/order.h>
#include <stoke/dataset.h>
#include <stoke/pack.h>
#include <stoke/loader.h>
#include <stoke/rows.h>
#include <stoke/device.h>
#include <stoke/upload.h>
#include <stoke/record.h>
#include <stoke/net.h>
#include <stoke/netbench.h>
#include <stoke/metrics.h>
#include <stoke/train.h>
#include <stoke/evaluate.h>
#include <stoke/findlr.h>
#include <stoke/predict.h>
#include <stoke/probe.h>
#include <stoke/advise.h>
#include <stoke/optimize.h>
#include <stoke/preflight.h>
#include <stoke/monitor.h>
#include <stoke/diagnose.h>
#include <stoke/findbatch.h>
#include <stoke/live.h>
#include <stoke/why.h>
#include <stoke/output.h>
#include <stoke/retry.h>
#include <stoke/synth.h>
#include <stoke/pixbench.h>
#include <stoke/report.h>
#include <stoke/chart.h>
#include <stoke/trace.h>

#endif
