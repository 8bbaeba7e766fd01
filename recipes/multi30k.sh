#!/usr/bin/env bash
# Multi30k from raw text to one table: teacher, K = 2, 5, 10, NAT and NAT + LPD, on one GPU in about eight minutes. The
# students start from the teacher's encoder alone, and nothing they write is repaired, as in the paper.
# STEPS is the number of updates of each training (default 3000).
# Usage: recipes/multi30k.sh DATA OUT     DATA holds train.{en,de}.gz, valid.{en,de}, test2016.{en,de}
# Every part resumes: run it again after an interruption. RECOVERSAT names the command (default: recoversat).
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat}
mkdir -p "$out"

$run fit --src "$data/train.en.gz" --tgt "$data/train.de.gz" --valid-src "$data/valid.en" --valid-tgt "$data/valid.de" \
  --test-src "$data/test2016.en" --test-tgt "$data/test2016.de" --out "$out/k5" --segments 5 --encoder-only \
  --set train.steps="${STEPS:-3000}" &
while [ ! -d "$out/k5/distilled" ]; do kill -0 $! || exit 1; sleep 1; done  # the other students need no more than that

student() {  # NAME SETTINGS...: another student of the same teacher, with the settings `fit` chose
  local name=$1 settings=()
  shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  $run train "$out/k5/distilled" --out "$out/$name" --config "$out/k5/teacher/config.yaml" \
    --init-from "$out/k5/teacher-model" "${settings[@]}"
}
student k2 train.segments=2 train.compile=false &
student k10 train.segments=10 train.compile=false &
student nat train.segments=1 model.kind=nat train.compile=false &
wait

teacher=$out/k5/teacher-model
$run evaluate --at "AT beam 4" --baseline "AT beam 4" --batch-size 128 --out "$out/report" \
  --system "AT greedy=$teacher:repairs=none" --system "AT beam 4=$teacher:beam=4:repairs=none" \
  --system "NAT=$out/nat:repairs=none" --system "NAT + LPD 9=$out/nat:teacher=$teacher:lengths=9:repairs=none" \
  --system "RecoverSAT 2=$out/k2:repairs=none" --system "RecoverSAT 5=$out/k5:repairs=none" \
  --system "RecoverSAT 10=$out/k10:repairs=none" \
  --test "test2016=$data/test2016.en,$data/test2016.de" --test "valid=$data/valid.en,$data/valid.de"
