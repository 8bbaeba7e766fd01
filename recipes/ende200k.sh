#!/usr/bin/env bash
# The paper's main table on ende200k, sizes of the iwslt16 preset, from raw text: teacher, NAT, one model for every K,
# K = 2, 5, 10, and the ablations. On one GPU; every stage continues where it was interrupted.
#
#   recipes/ende200k.sh DATA OUT [STAGE...]     stages: corpus teacher distill students ablations evaluate; report
#                                               makes the tables again from what was translated; single trainings:
#                                               mixed nat k10 k5 k2 p1-0 p0 p1 q0 encoder words;
#                                               A+B trains A and B side by side
#
# DATA holds ende200k/{train,valid,test}.{en,de} (train as .gz) and tests/tst201{3,4}.{en,de}. STEPS is the number of
# updates of the one model, of 32k target tokens (default 6000; the teacher takes 2500, NAT a quarter, all others three tenths),
# RECOVERSAT and PYTHON the commands, PROCESSES how many translate at once, TESTS the test sets. Under CUDA's MPS
# (nvidia-cuda-mps-control -d) four trainings side by side are 1.4 times as fast as one alone. What OUT/NAME/done marks is
# not trained again, and what report/outputs holds is not translated again.
#
# K = 2, 5 and 10 start from the one model: after as many updates it writes as well with each K as a model of its own.
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} steps=${STEPS:-6000}
shift 2
mkdir -p "$out"

training() {  # NAME CORPUS SETTINGS...: train with the sizes of the preset, and what fits few updates of large batches
  local name=$1 corpus=$2 settings=() every=$(((steps + 4) / 5))
  shift 2
  [ ! -f "$out/$name/done" ] || return 0
  for setting in "$@"; do settings+=(--set "$setting"); done
  $run train "$out/$corpus" --out "$out/$name" --preset iwslt16 --set train.steps="$steps" --set train.batch_tokens=32768 \
    --set train.learning_rate=1.5e-3 --set train.warmup=300 --set train.clip_norm=1 --set train.compile=true \
    --set train.validate_every=$every --set train.save_every=$every --set train.tensorboard=false "${settings[@]}" "${from[@]}" \
    && touch "$out/$name/done"
}

student() {  # NAME SETTINGS...: from the teacher's text, encoder and decoder
  local name=$1 from=(--init-from "$out/teacher" --init-decoder)
  shift
  training "$name" distilled decode.join_overlaps=true "$@"
}

dedicated() {  # NAME SETTINGS...: the one model, made to write with one K
  local name=$1 steps=$((steps * 3 / 10)) from=(--init-from "$out/mixed" --init-decoder)
  shift
  training "$name" distilled decode.join_overlaps=true train.random_prob=0.3 train.learning_rate=7e-4 "$@"
}

ablated() {  # NAME SETTINGS...: Tables 2 and 3, with K = 10, shorter and as the paper writes
  local name=$1 steps=$((steps * 3 / 10)) from=(--init-from "$out/teacher" --init-decoder)
  shift
  training "$name" distilled train.segments=10 "$@"
}

stage_corpus() {
  [ -d "$out/corpus" ] || $run prepare --src "$data/ende200k/train.en.gz" --tgt "$data/ende200k/train.de.gz" \
    --valid-src "$data/ende200k/valid.en" --valid-tgt "$data/ende200k/valid.de" --out "$out/corpus" --preset iwslt16 \
    --set data.src_lang=en --set data.tgt_lang=de
}
stage_teacher() {
  local steps=${TEACHER_STEPS:-2500} from=()
  training teacher corpus train.segments=1
}
stage_distill() {
  [ -d "$out/distilled" ] || "$python" -m torch.distributed.run --nproc_per_node "${PROCESSES:-4}" -m recoversat distill \
    "$out/teacher" "$out/corpus" --out "$out/distilled" --beam 4 --shard-size 10000 --batch-tokens 32768
}
stage_mixed() { student mixed "train.segments=[1, 2, 3, 4, 5, 6, 8, 10]"; }
stage_nat() {
  local steps=$((steps / 4))
  student nat model.kind=nat train.segments=1 train.compile=false
}
stage_k2() { dedicated k2 train.segments=2; }
stage_k5() { dedicated k5 train.segments=5; }
stage_k10() { dedicated k10 train.segments=10; }
stage_p0() { ablated p0 train.random_prob=0; }
stage_p1() { ablated p1 train.random_prob=1 train.anneal=false; }
stage_p1-0() { ablated p1-0; }
stage_q0() { ablated q0 train.repeat_prob=0; }
stage_words() { ablated words train.cut_at=word; }  # segments of whole words
stage_encoder() {  # as the paper does: only the encoder comes from the teacher
  local steps=$((steps * 3 / 10)) from=(--init-from "$out/teacher")
  training encoder distilled train.segments=10
}

side_by_side() {  # NAMES: all at once; says which one failed
  local name jobs=() failed=()
  trap 'trap - TERM; kill 0' INT TERM  # none is left behind
  for name in "$@"; do
    "stage_$name" > "$out/$name.log" 2>&1 &
    jobs+=("$!:$name")
  done
  for name in "${jobs[@]}"; do wait "${name%%:*}" || failed+=("$out/${name#*:}.log"); done
  [ ${#failed[@]} = 0 ] || { echo "a training failed: see ${failed[*]}" >&2; return 1; }
}
stage_students() { side_by_side mixed nat && side_by_side k10 k5 k2; }
stage_ablations() { side_by_side p1-0 q0 p0 p1 && side_by_side encoder words; }

test_set() {
  case $1 in
    ende200k) echo "ende200k=$data/ende200k/test.en,$data/ende200k/test.de" ;;
    *) echo "$1=$data/tests/$1.en,$data/tests/$1.de" ;;
  esac
}

from_model() { [ ! -d "$out/${2%%:*}/best" ] || systems+=(--system "$1=$out/$2"); }
from_output() { [ ! -f "$out/report/outputs/ende200k/$1.jsonl" ] || systems+=(--system "$1=$out/report/outputs/{test}/$1.jsonl"); }
evaluated() {  # from_model or from_output, OPTIONS...
  local add=$1 systems=() tests=() name
  shift
  $add "AT greedy" teacher
  $add "AT beam 4" teacher:beam=4
  $add "NAT" nat
  $add "NAT + LPD 9" "nat:lengths=9:teacher=$out/teacher"
  for name in 2 5 10; do $add "RecoverSAT $name" "k$name"; done
  for name in 2 5 10; do $add "RecoverSAT $name kept" "k$name:overlaps=keep"; done
  for name in 1 2 5 10 auto; do $add "one model $name" "mixed:segments=$name"; done
  for name in p1-0 p0 p1 q0 encoder words; do $add "ablation $name" "$name"; done
  for name in ${TESTS:-ende200k tst2013 tst2014}; do tests+=(--test "$(test_set "$name")"); done
  $run evaluate "${systems[@]}" "${tests[@]}" --at "AT beam 4" --baseline "AT beam 4" --samples "${SAMPLES:-1000}" "$@" --out "$out/report"
}
stage_evaluate() { evaluated from_model --batch-size 256 --latency "${LATENCY:-100}"; }
stage_report() { evaluated from_output --subwords "$out/teacher"; }  # the tables again, where there is no GPU

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(corpus teacher distill students ablations evaluate)
for stage in "${stages[@]}"; do
  case $stage in
    *+*) IFS=+ read -ra names <<< "$stage" && side_by_side "${names[@]}" ;;
    *) "stage_$stage" ;;
  esac
done
