/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything: what <stoke/stoke.h> promises, and what our own programs use besides. No promise for the
 * latter.
 */
#ifndef STOKE_TOOLS_TOOLS_H
#define STOKE_TOOLS_TOOLS_H

#include <stoke/stoke.h>

#include <stoke/tools/advise.h>
#include <stoke/tools/augment.h>
#include <stoke/tools/chart.h>
#include <stoke/tools/comm.h>
#include <stoke/tools/commbench.h>
#include <stoke/tools/config.h>
#include <stoke/tools/data.h>
#include <stoke/tools/dataset.h>
#include <stoke/tools/device.h>
#include <stoke/tools/device_rows.h>
#include <stoke/tools/diagnose.h>
#include <stoke/tools/findbatch.h>
#include <stoke/tools/findlr.h>
#include <stoke/tools/image.h>
#include <stoke/tools/labels.h>
#include <stoke/tools/lease.h>
#include <stoke/tools/live.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/metrics.h>
#include <stoke/tools/monitor.h>
#include <stoke/tools/net.h>
#include <stoke/tools/netbench.h>
#include <stoke/tools/optimize.h>
#include <stoke/tools/options.h>
#include <stoke/tools/order.h>
#include <stoke/tools/output.h>
#include <stoke/tools/pack.h>
#include <stoke/tools/pixbench.h>
#include <stoke/tools/predict.h>
#include <stoke/tools/preflight.h>
#include <stoke/tools/probe.h>
#include <stoke/tools/record.h>
#include <stoke/tools/report.h>
#include <stoke/tools/retry.h>
#include <stoke/tools/rows.h>
#include <stoke/tools/synth.h>
#include <stoke/tools/terminal.h>
#include <stoke/tools/trace.h>
#include <stoke/tools/train.h>
#include <stoke/tools/upload.h>
#include <stoke/tools/why.h>

#endif
