#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Trains in several processes with mpirun, and goes on with the run when it is called again: after a crash, kill -9 or SIGUSR1, with the
# same number of processes or another. The weights have the same bits.
#
#   examples/mpirun.sh 4 runs/first my_set --epochs 50        four processes on this host
#   HOSTS=node-a:2,node-b:2 examples/mpirun.sh 4 ...          two on each of two hosts, which have my_set at the same place
#
# --replicas is part of the run, like the batch: 8 lanes, for up to 8 processes. A step takes batch x accumulate x 8 pictures.
set -e
[ $# -ge 3 ] || { echo "usage: $0 PROCESSES FOLDER/NAME DATA [options of stoke train]" >&2; exit 2; }
processes=$1 run=$2
shift 2
# Without --bind-to none mpirun gives each of two processes one core. After Ctrl-C it waits this long, asks them to stop, and waits as
# long again before it kills them; its own 1 s is short for a large network.
export OMPI_MCA_odls_base_sigkill_timeout=${GRACE:-5}
exec mpirun --quiet --bind-to none ${HOSTS:+--host "$HOSTS"} -np "$processes" \
  "${STOKE:-stoke}" train "$@" --replicas 8 --runs "$(dirname "$run")" --name "$(basename "$run")" --continue
