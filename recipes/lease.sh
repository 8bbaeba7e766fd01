#!/usr/bin/env bash
# The GPU's part of the results, on a machine that is lent for half an hour, has no network, and may go at any moment.
#
#   recipes/lease.sh pack DATA PACK         here: corpus, test sets and packages into PACK, beside what earlier leases left
#   recipes/lease.sh start PACK PLAN...     there: starts plans (bench, profile, main, ablations, checks), one after the other; returns at once
#   recipes/lease.sh watch SECONDS KEEP     there: waits, says how far it is, puts results and finished models into KEEP
#   recipes/lease.sh unpack PACK KEEP...    here: results into PACK/results, models into PACK/kept, where the next lease starts from
#
# PACK and the repository travel; "there" works in LEASE (default ~/lease) with its own python3 and torch. KEEP gets at
# most 4 files of at most 15 MiB a call: results.tgz, then pieces of models in fp16. Call `watch` until it says "all sent".
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
lease=${LEASE:-${HOME:-.}/lease}
ende200k() { RECOVERSAT=$lease/recoversat PYTHON=$lease/python "$lease/repository/recipes/ende200k.sh" "$lease/data" "$lease/out" "$@"; }

pack() {
  local data=$1 pack=$2
  mkdir -p "$pack/data/ende200k" "$pack/data/tests" "$pack/kept" "$pack/packages"
  cp -f "$data"/ende200k/{valid,test}.{en,de} "$pack/data/ende200k"
  cp -f "$data"/tests/tst201{3,4}.{en,de} "$pack/data/tests"
  if [ ! -f "$pack/kept/corpus.tgz" ]; then
    "$repository/recipes/ende200k.sh" "$data" "$pack/new" corpus
    tar -czf "$pack/kept/corpus.tgz" -C "$pack/new" corpus && rm -r "$pack/new"
  fi
  pip download --quiet --no-deps --python-version "${PACKAGES_FOR:-3.12}" --only-binary :all: --dest "$pack/packages" \
    pydantic=="$(version pydantic)" pydantic-core=="$(version pydantic-core)" typing-inspection annotated-types typing-extensions sentencex
  du -sh "$pack"
}
version() { python3 -c "import importlib.metadata; print(importlib.metadata.version('$1'))"; }

start() {
  local pack=$1 one
  shift
  mkdir -p "$lease/repository" "$lease/out" "$lease/packages" "$lease/pieces"
  cp -r "$repository/src" "$repository/recipes" "$repository/benchmarks" "$repository/configs" "$lease/repository"
  cp -r "$pack/data" "$lease"
  for one in "$pack"/packages/*.whl; do [ ! -f "$one" ] || python3 -m zipfile -e "$one" "$lease/packages"; done
  for one in "$pack"/kept/*.tgz; do [ ! -f "$one" ] || tar -xzf "$one" -C "$lease/out"; done
  printf '#!/bin/sh\nPYTHONPATH=%s PYTHONUNBUFFERED=1 exec python3 "$@"\n' "$lease/repository/src:$lease/packages" > "$lease/python"
  printf '#!/bin/sh\nexec %s -m recoversat "$@"\n' "$lease/python" > "$lease/recoversat"
  chmod +x "$lease/python" "$lease/recoversat"
  for one in "$lease"/out/*/done; do [ ! -f "$one" ] || touch "${one%/done}/sent"; done  # they are at home already
  if [ -d "$lease/out/distilled" ]; then touch "$lease/distilled.sent"; fi
  rm -f "$lease/finished"
  setsid "$lease/repository/recipes/lease.sh" plans "$@" > "$lease/out/plan.log" 2>&1 < /dev/null &
  setsid "$lease/repository/recipes/lease.sh" keep > "$lease/keep.log" 2>&1 < /dev/null &
  echo "started: $*"
}

plans() {
  local one begin
  nvidia-cuda-mps-control -d || true
  for one in "$@"; do
    begin=$SECONDS
    "plan_$one" || echo "$one: failed"
    echo "$one: $((SECONDS - begin)) s, ends at $SECONDS s"
  done
  touch "$lease/finished"
}
plan_main() {  # NAT and the ablations take what the other trainings leave of the GPU: MPS knows priorities
  local rest
  PROCESSES=7 ende200k corpus teacher distill || return 1
  (sleep "${LATER:-45}"; CUDA_MPS_CLIENT_PRIORITY=1 ende200k nat ablations) &
  rest=$!
  ende200k mixed k10+k5+k2 || echo "not all students are trained"
  wait $rest || echo "not all ablations are trained"
  TESTS=ende200k SAMPLES=10 ende200k evaluate && ende200k evaluate
}
plan_ablations() { PROCESSES=7 ende200k corpus teacher distill ablations; }
plan_bench() {
  "$lease/recoversat" bench --untrained wmt14 --vocab 32000 --device cuda --batch 1 --batch 8 --batch 32 --batch 64 --batch 256 \
    --rounds 3 --out "$lease/out/bench-wmt14" > "$lease/out/bench-wmt14.log" 2>&1
}
plan_checks() {
  "$lease/python" "$lease/repository/benchmarks/gpu_check.py" --quick --out "$lease/out/gpu-checks.json" > "$lease/out/gpu-checks.txt" 2>&1
}
plan_profile() {
  ende200k corpus && "$lease/python" "$lease/repository/benchmarks/train_profile.py" "$lease/out/corpus" --preset iwslt16 \
    --set train.segments=10 --set train.batch_tokens=32768 --set train.compile=true > "$lease/out/train-profile.txt" 2>&1
}

keep() {  # cut every model that is finished into pieces that can travel, and the distilled text
  local name
  while [ ! -f "$lease/finished" ] || ! all_cut; do
    for name in $(finished_models); do
      in_pieces "$name" "$name"/best "$name"/log.jsonl "$name"/done || echo "$name could not be cut into pieces; it stays in $lease/out"
      touch "$lease/out/$name/sent"
    done
    if [ -d "$lease/out/distilled" ] && [ ! -f "$lease/distilled.sent" ]; then
      in_pieces distilled distilled || echo "the distilled text could not be cut into pieces; it stays in $lease/out"
      touch "$lease/distilled.sent"
    fi
    sleep 2
  done
}
finished_models() { cd "$lease/out" && for one in */done; do [ ! -f "$one" ] || [ -f "${one%/done}/sent" ] || echo "${one%/done}"; done; }
all_cut() { [ -z "$(finished_models)" ] && { [ ! -d "$lease/out/distilled" ] || [ -f "$lease/distilled.sent" ]; }; }
in_pieces() {  # NAME PATHS...; each step must work for the next one
  local name=$1 folder
  shift
  folder=$(mktemp -d) \
    && (cd "$lease/out" && cp -r --parents "$@" "$folder") \
    && find "$folder" -name model.safetensors -exec "$lease/python" -c "$halve" {} + \
    && tar -czf "$folder.tgz" -C "$folder" "$name" \
    && split -b 15M -d "$folder.tgz" "$folder/$name.tgz." \
    && mv "$folder/$name".tgz.* "$lease/pieces" \
    && rm -r "$folder" "$folder.tgz"
}
halve='
import sys, numpy, safetensors.numpy as files
for path in sys.argv[1:]:
    weights = files.load_file(path)
    files.save_file({name: array.astype(numpy.float16) for name, array in weights.items()}, path)
'

watch() {
  local end=$((SECONDS + $1)) keep=$2 one
  while [ $SECONDS -lt "$end" ] && [ ! -f "$lease/finished" ]; do sleep 1; done
  mkdir -p "$keep" && keep=$(cd "$keep" && pwd)
  for one in "$lease"/out/*.log; do echo "== ${one##*/}"; tr '\r' '\n' < "$one" | tail -n 2 | cut -c 1-150; done
  cat "$lease/keep.log"
  nvidia-smi --query-gpu=memory.used,utilization.gpu,power.draw --format=csv,noheader 2> /dev/null || true
  find "$lease/pieces" -type f | sort | head -n 3 | while read -r one; do mv "$one" "$keep"; done
  (cd "$lease/out" && find . -type f -size -8M ! -path './corpus/*' ! -path './distilled*/*' ! -path '*/best/*' ! -path '*/checkpoints/*' \
    ! -path './*/average/*' -print0 | tar -czf "$keep/results.tgz" --null --files-from -) || echo "(files that were being written came as they were)"
  if [ -f "$lease/finished" ] && all_cut && [ -z "$(ls "$lease/pieces")" ]; then echo "all sent"; fi
}

unpack() {
  local pack=$1 one name
  shift
  mkdir -p "$pack/results" "$pack/pieces" "$pack/kept"
  for one in "$@"; do
    tar -xzf "$one/results.tgz" -C "$pack/results"
    find "$one" -name '*.tgz.[0-9]*' -exec cp {} "$pack/pieces" \;
  done
  for one in "$pack"/pieces/*.tgz.00; do
    [ -f "$one" ] || continue
    name=${one##*/}
    cat "${one%.00}".* > "$pack/pieces/whole"
    if tar -tzf "$pack/pieces/whole" > /dev/null 2>&1; then
      mv "$pack/pieces/whole" "$pack/kept/${name%.00}"
      rm "${one%.00}".[0-9]*
    else
      echo "${name%.00}: pieces are missing; unpack again when they are here"
    fi
  done
  ls -l "$pack/kept"
}

case ${1:-} in
  pack | start | watch | unpack | plans | keep) "$@" ;;
  *) sed -n '2,7p' "$0" >&2 && exit 2 ;;
esac
