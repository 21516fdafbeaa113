#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A GPU that starves, and the same GPU fed: one network, one set of photographs, three ways to bring the one to the other.
#
#   examples/starved_gpu.sh [FOLDER]      pictures and traces go there (default: starved)
#
# The program is $STOKE, or the one that `make demo` built, or the one that is installed.
#
# The card is a simulated RTX 3090 with a step of 100 ms for 32 pictures of 512x512: its times are emulated. Reading, decoding and
# augmenting are real, and done by this machine: close other programs, they are what starves it otherwise.
set -eu
built=$(dirname "$0")/../build/cli/stoke
if [ -x "$built" ]; then stoke=${STOKE:-$built}; else stoke=${STOKE:-stoke}; fi
folder=${1:-starved}
steps=${STEPS:-40}
"$(dirname "$0")/../scripts/ours" claim "folder of examples" "$folder"

echo "== 96 photographs of 800x1056 in $folder/data"
"$stoke" synth "$folder/data" --count 96 --size 800x1056 --quiet

# run NAME OPTION...: prints the figures, keeps the timeline and the share of time the card was busy.
run() {
    name=$1
    shift
    "$stoke" bench device "$folder/data" --device sim:rtx3090 --step-ms 100 --batch 32 --size 512 --augment standard \
        --steps "$steps" --timeline "$folder/$name.svg" --trace "$folder/$name.json" --quiet "$@" | tee "$folder/$name.txt"
    echo
}

echo
echo "== Everything in the training loop: no workers, ordinary memory, the loss printed after every step"
run loop --placement host --workers 0 --transfer pageable --sync
echo "== One worker that augments, ordinary memory, the loss printed after every step"
run worker --placement host --workers 1 --transfer pageable --sync
echo "== Two workers that only decode, pinned memory, a second stream, augmenting on the GPU"
run fed --placement device --workers 2 --transfer stream

echo "== What the card did"
for name in loop worker fed; do
    printf '%-8s %s   %s\n' "$name" "$(sed -n 's/^device busy *//p' "$folder/$name.txt")" "$folder/$name.svg"
done
echo "The .json files open in Perfetto (ui.perfetto.dev)."
