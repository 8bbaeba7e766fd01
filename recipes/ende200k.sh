#!/usr/bin/env bash
# The paper's main table on ende200k, sizes of the iwslt16 preset, from raw text: teacher, NAT, K = 2, 5, 10, and one
# model for every K; then the ablations. On one GPU; every stage continues where it was interrupted.
#
#   recipes/ende200k.sh DATA OUT [STAGE...]     stages: corpus teacher distill k10 mixed k2 k5 nat ablation evaluate
#
# DATA holds ende200k/{train,valid,test}.{en,de} (train as .gz) and tests/tst201{3,4}.{en,de}. STEPS is the number of
# updates of 32k target tokens (default 2500), RECOVERSAT and PYTHON the commands, PROCESSES how many translate at once.
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} steps=${STEPS:-2500}
shift 2
mkdir -p "$out"

training() {  # NAME CORPUS SETTINGS...: train with the sizes of the preset, and what fits few updates of large batches
  local name=$1 corpus=$2 settings=()
  shift 2
  for setting in "$@"; do settings+=(--set "$setting"); done
  $run train "$out/$corpus" --out "$out/$name" --preset iwslt16 --set train.steps="$steps" --set train.batch_tokens=32768 \
    --set train.learning_rate=1.5e-3 --set train.warmup=300 --set train.clip_norm=1 --set train.compile=true \
    --set train.validate_every=500 --set train.save_every=500 --set train.tensorboard=false "${settings[@]}" "${from[@]}"
}

student() {  # NAME SETTINGS...: as the paper does, from the teacher's text and with its encoder (WARM=1: its decoder too)
  local name=$1
  shift
  from=(--init-from "$out/teacher" ${WARM:+--init-decoder})
  training "$name" distilled "$@"
}

stage_corpus() {
  [ -d "$out/corpus" ] || $run prepare --src "$data/ende200k/train.en.gz" --tgt "$data/ende200k/train.de.gz" \
    --valid-src "$data/ende200k/valid.en" --valid-tgt "$data/ende200k/valid.de" --out "$out/corpus" --preset iwslt16 \
    --set data.src_lang=en --set data.tgt_lang=de
}
stage_teacher() { from=(); training teacher corpus train.segments=1; }
stage_distill() {
  [ -d "$out/distilled" ] || "$python" -m torch.distributed.run --nproc_per_node "${PROCESSES:-4}" -m recoversat distill \
    "$out/teacher" "$out/corpus" --out "$out/distilled" --beam 4 --shard-size 10000 --batch-tokens 32768
}
stage_k2() { student k2 train.segments=2; }
stage_k5() { student k5 train.segments=5; }
stage_k10() { student k10 train.segments=10; }
stage_mixed() { student mixed "train.segments=[1, 2, 3, 4, 5, 6, 8, 10]"; }
stage_nat() { student nat model.kind=nat train.segments=1 train.compile=false; }
stage_ablation() {  # Tables 2 and 3 with K = 10, shorter
  local steps=$((steps * 2 / 5))
  student p0 train.segments=10 train.random_prob=0
  student p1 train.segments=10 train.random_prob=1 train.anneal=false
  student p1-0 train.segments=10
  student q0 train.segments=10 train.repeat_prob=0
}
stage_evaluate() {
  local systems=() name
  add() { if [ -d "$out/${2%%:*}/best" ]; then systems+=(--system "$1=$out/$2"); fi; }
  add "AT greedy" teacher
  add "AT beam 4" teacher:beam=4
  add "NAT" nat
  add "NAT + LPD 9" "nat:lengths=9:teacher=$out/teacher"
  for name in 2 5 10; do add "RecoverSAT $name" "k$name"; done
  for name in 1 2 5 10 auto; do add "one model $name" "mixed:segments=$name"; done
  for name in p0 p1 p1-0 q0; do add "ablation $name" "$name"; done
  $run evaluate "${systems[@]}" --at "AT beam 4" --baseline "AT beam 4" --batch-size 256 --latency "${LATENCY:-100}" \
    --test "ende200k=$data/ende200k/test.en,$data/ende200k/test.de" \
    --test "tst2013=$data/tests/tst2013.en,$data/tests/tst2013.de" \
    --test "tst2014=$data/tests/tst2014.en,$data/tests/tst2014.de" --out "$out/report"
}

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(corpus teacher distill k10 mixed k2 k5 nat ablation evaluate)
for stage in "${stages[@]}"; do "stage_$stage"; done
