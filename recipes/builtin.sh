#!/usr/bin/env bash
# The built-in model: English to German and back in one, from the openly licensed lines of ende. On one GPU; every
# stage continues where it was interrupted.
#
#   recipes/builtin.sh DATA OUT [STAGE...]      stages: corpus teacher distill student export
#
# DATA holds ende/train.{en,de,origin}.gz and ende200k/valid.{en,de}. RECOVERSAT and PYTHON name the commands, STEPS the updates of
# 64k target tokens, PROCESSES how many processes translate at the same time.
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} steps=${STEPS:-3000}
shift 2
mkdir -p "$out"

training() {  # NAME CORPUS SETTINGS...
  local name=$1 corpus=$2 settings=()
  shift 2
  for setting in "$@"; do settings+=(--set "$setting"); done
  $run train "$out/$corpus" --out "$out/$name" --config "$(dirname "$0")/builtin.yaml" --set train.steps="$steps" \
    "${settings[@]}" "${from[@]}"
}

stage_corpus() {
  [ -d "$out/corpus" ] && return
  [ -f "$out/open.en" ] || "$python" "$(dirname "$0")/open_pairs.py" "$data/ende" "$out"
  for side in en de; do head -400 "$data/ende200k/valid.$side" > "$out/valid.$side"; done
  $run prepare --src "$out/open.en" --tgt "$out/open.de" --valid-src "$out/valid.en" --valid-tgt "$out/valid.de" \
    --out "$out/corpus" --config "$(dirname "$0")/builtin.yaml"
}
stage_teacher() { from=(); training teacher corpus train.segments=1; }
stage_distill() {
  [ -d "$out/distilled" ] || "$python" -m torch.distributed.run --nproc_per_node "${PROCESSES:-4}" -m recoversat distill \
    "$out/teacher" "$out/corpus" --out "$out/distilled" --beam 4 --shard-size 20000 --batch-tokens 32768
}
stage_student() { from=(--init-from "$out/teacher" --init-decoder); training student distilled; }
stage_export() { $run export "$out/student" "$out/builtin" --precision int8 --corpus "$out/corpus"; }

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(corpus teacher distill student export)
for stage in "${stages[@]}"; do "stage_$stage"; done
