#!/usr/bin/env bash
# The paper's tables on ende200k, sizes of the iwslt16 preset, from raw text. On one GPU; every stage continues where it was
# interrupted.
#
#   recipes/ende200k.sh DATA OUT [STAGE...]
#
#   corpus teacher distill    what all students learn from
#   students                  our recipe (Table 2): one model for every K, NAT, and K = 2, 5, 10
#   paper                     the paper's recipe (Table 2): K = 2, 5, 10 each from the teacher's encoder alone, p 1 -> 0
#   ablations                 Tables 3 and 4: p and q, K = 10, by `sweep configs/ablations.yaml`, which measures them too
#   evaluate                  everything but the ablations, on all test sets; report makes its tables again without a GPU
#   mixed nat k10 k5 k2 paper-k10 paper-k5 paper-k2 paper-nat     one training alone; A+B trains A and B side by side
#
# What might make the one model better, each a training of its own, not run unless named; `evaluate` finds those that are there:
#   mixed12                   twice the updates
#   mixed-word                borders at words (also decoded with decode.begin_at=word)
#   deleting                  token-wise deletion (train.delete_tokens)
#   both                      the text of the beam and the references
#   all                       borders at words, the text of the beam and the references, twice the updates
#   words-deleting            borders at words, token-wise deletion
#   words-deleting-long       the same with LONG_STEPS updates
#
# DATA holds ende200k/{train,valid,test}.{en,de} (train as .gz) and tests/tst201{3,4}.{en,de}. From the environment:
#   CORPUS                    another folder of DATA with {train,valid}.{en,de}: multi30k, whose test set is test2016
#   SETTINGS                  settings for every training, as "model.d_model=256 model.n_heads=4"
#   SEED                      train.seed of every training
#   DIRECTION, DEADLINE       see recipes/shared.sh
#   STEPS, BATCH              updates of the one model (6000), target tokens of an update (32768); the teacher takes
#                             TEACHER_STEPS (2500), NAT a quarter of STEPS, K = 2, 5, 10 three tenths
#   LONG_STEPS                of words-deleting-long (twice STEPS)
#   OPTIMIZER, RATE, LATE_RATE  muon with a peak of 4e-3, and of 2e-3 where a student goes on from the one model
#                             (the tables of 2026-11-16: adamw, 1.5e-3, 7e-4)
#   VALIDATIONS               how often a training is validated and saved (5)
#   PAPER_STEPS, PAPER_BATCH  of each training of `paper` and `ablations` (STEPS; 8192, as the preset has it)
#   PAPER_NAT_STEPS           of paper-nat (PAPER_STEPS)
#   PAPER_RATE                their peak learning rate, with a warm-up and clipping, where large batches and few updates ask for
#                             more than the paper's 3e-4
#   ABLATIONS                 sweep file of `ablations` (configs/ablations.yaml)
#   INIT_DECODER=1            the ablations start from the teacher's decoder too: a shorter training then suffices
#   JOBS, PROCESSES           ablations trained at once (5), processes that distil (4)
#   TESTS                     test sets: ende200k tst2013 tst2014
#   RECOVERSAT, PYTHON        the commands
#
# Under CUDA's MPS (nvidia-cuda-mps-control -d) four trainings side by side are 1.4 times as fast as one alone. What
# OUT/NAME/done marks is not trained again, and what report/outputs holds is not translated again.
#
# K = 2, 5 and 10 of our recipe start from the one model: after as many updates it writes as well with each K as a model
# of its own.
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} steps=${STEPS:-6000} corpus=${CORPUS:-ende200k}
read -ra chosen <<< "${SETTINGS:-}"
shift 2
mkdir -p "$out"
. "$(dirname "$0")/shared.sh"
[ -z "${SEED:-}" ] || chosen+=(train.seed="$SEED")

training() {  # NAME CORPUS SETTINGS...: train with the sizes of the preset
  local name=$1 text=$2 settings=() setting times=${VALIDATIONS:-5}
  local every=$(((steps + times - 1) / times))
  shift 2
  [ ! -f "$out/$name/done" ] || return 0
  for setting in "${chosen[@]}" "$@"; do settings+=(--set "$setting"); done
  until_deadline $run train "$out/$text" --out "$out/$name" --preset iwslt16 --set train.steps="$steps" --set train.compile=true \
    --set train.validate_every=$every --set train.save_every=$every --set train.tensorboard=false "${settings[@]}" "${from[@]}" \
    && touch "$out/$name/done"
}

ours=(train.batch_tokens="${BATCH:-32768}" train.optimizer="${OPTIMIZER:-muon}" train.learning_rate="${RATE:-4e-3}" train.warmup=300
  train.clip_norm=1)
papers=(train.batch_tokens="${PAPER_BATCH:-8192}")
[ -z "${PAPER_RATE:-}" ] || papers+=(train.learning_rate="$PAPER_RATE" train.warmup=300 train.clip_norm=1)

student() {  # NAME SETTINGS...: from the teacher's text, encoder and decoder
  local name=$1 from=(--init-from "$out/teacher" --init-decoder)
  shift
  training "$name" "${text:-distilled}" "${ours[@]}" decode.join_overlaps=true "$@"
}

going_on() {  # NAME SETTINGS...: from the one model
  local name=$1 from=(--init-from "$out/mixed" --init-decoder)
  shift
  training "$name" "${text:-distilled}" "${ours[@]}" decode.join_overlaps=true train.random_prob=0.3 \
    train.learning_rate="${LATE_RATE:-2e-3}" "$@"
}
dedicated() {  # NAME K: the one model, made to write with one K
  local steps=$((steps * 3 / 10))
  going_on "$1" train.segments="$2"
}

as_in_the_paper() {  # NAME SETTINGS...: from the teacher's encoder alone
  local name=$1 steps=${PAPER_STEPS:-$steps} from=(--init-from "$out/teacher")
  shift
  training "$name" distilled "${papers[@]}" "$@"
}

stage_corpus() {
  [ -d "$out/corpus" ] || $run prepare --src "$data/$corpus/train.$src_lang.gz" --tgt "$data/$corpus/train.$tgt_lang.gz" \
    --valid-src "$data/$corpus/valid.$src_lang" --valid-tgt "$data/$corpus/valid.$tgt_lang" --out "$out/corpus" --preset iwslt16 \
    --set data.src_lang="$src_lang" --set data.tgt_lang="$tgt_lang" "${chosen[@]/#/--set=}"
}
stage_teacher() {
  local steps=${TEACHER_STEPS:-2500} from=()
  training teacher corpus "${ours[@]}" train.segments=1
}
distilled_as() {  # NAME MODEL OPTIONS...
  local name=$1 model=$2
  shift 2
  [ -d "$out/$name" ] || "$python" -m torch.distributed.run --standalone --nproc_per_node "${PROCESSES:-4}" -m recoversat distill \
    "$out/$model" "$out/corpus" --out "$out/$name" --shard-size 10000 --batch-tokens 32768 "$@"
}
stage_distill() { distilled_as distilled teacher --beam 4; }
all_k="train.segments=[1, 2, 3, 4, 5, 6, 8, 10]"
every_k() { student "$@" "$all_k"; }  # NAME SETTINGS...: one model for every K
stage_mixed() { every_k mixed; }
stage_mixed12() {
  local steps=$((steps * 2))
  every_k mixed12
}
stage_mixed-word() { every_k mixed-word train.cut_at=word; }
stage_deleting() { every_k deleting train.delete_tokens=0.2; }
stage_words-deleting() { every_k "${1:-words-deleting}" train.cut_at=word train.delete_tokens=0.2; }
stage_words-deleting-long() {
  local steps=${LONG_STEPS:-$((steps * 2))}
  stage_words-deleting words-deleting-long
}
stage_distill-both() {  # as `distill --with-references` would write it, but nothing is translated again
  [ -d "$out/distilled-both" ] || "$python" "$(dirname "$0")/builtin/join.py" "$out/distilled-both" "$out/distilled" "$out/corpus"
}
stage_both() {
  stage_distill-both
  local text=distilled-both
  every_k both
}
stage_all() {
  stage_distill-both
  local text=distilled-both steps=$((steps * 2))
  every_k all train.cut_at=word
}
stage_nat() {
  local steps=$((steps / 4))
  student nat model.kind=nat train.segments=1
}
stage_k2() { dedicated k2 2; }
stage_k5() { dedicated k5 5; }
stage_k10() { dedicated k10 10; }
stage_paper-k2() { as_in_the_paper paper-k2 train.segments=2; }
stage_paper-k5() { as_in_the_paper paper-k5 train.segments=5; }
stage_paper-k10() { as_in_the_paper paper-k10 train.segments=10; }
stage_paper-nat() {
  local PAPER_STEPS=${PAPER_NAT_STEPS:-${PAPER_STEPS:-$steps}}
  as_in_the_paper paper-nat model.kind=nat train.segments=1
}

stage_students() { side_by_side mixed nat && side_by_side k10 k5 k2; }
stage_paper() { side_by_side paper-k10 paper-k5 paper-k2; }
stage_ablations() {  # a sweep of its own, in OUT/ablations
  local steps=${PAPER_STEPS:-$steps} options=() setting
  local every=$(((steps + 4) / 5))
  for setting in "${papers[@]}" train.steps="$steps" train.validate_every=$every train.save_every=$every train.compile=true \
    train.tensorboard=false "${chosen[@]}"; do options+=(--set "$setting"); done
  [ -z "${INIT_DECODER:-}" ] || options+=(--init-decoder)
  [ ! -d "$out/nat/best" ] || options+=(--system "NAT=$out/nat:repairs=none")
  until_deadline $run sweep "${ABLATIONS:-$(dirname "$0")/../configs/ablations.yaml}" --corpus "$out/distilled" --init-from "$out/teacher" \
    --at "$out/teacher:beam=4" --jobs "${JOBS:-5}" --batch-size 256 "${options[@]}" "${tests[@]}" --out "$out/ablations"
}

from_model() { [ ! -d "$out/${2%%:*}/best" ] || systems+=(--system "$1=$out/$2"); }
from_output() { [ ! -f "$out/report/outputs/ende200k/$1.jsonl" ] || systems+=(--system "$1=$out/report/outputs/{test}/$1.jsonl"); }
evaluated() {  # from_model or from_output, OPTIONS...
  local add=$1 systems=() name
  shift
  $add "AT greedy" teacher
  $add "AT beam 4" teacher:beam=4
  $add "NAT" nat:repairs=none
  $add "NAT + LPD 9" "nat:lengths=9:teacher=$out/teacher:repairs=none"
  for name in 2 5 10; do $add "RecoverSAT $name" "k$name"; done
  for name in 2 5 10; do $add "RecoverSAT $name unrepaired" "k$name:repairs=none"; done
  for name in 2 5 10; do $add "paper recipe $name" "paper-k$name:repairs=none"; done
  for name in 1 2 5 10 auto; do $add "one model $name" "mixed:segments=$name"; done
  for name in 1 2 5 10 auto; do $add "all $name" "all:segments=$name"; done
  for name in "one model=mixed" all=all "long=words-deleting-long"; do
    $add "${name%=*} tolerant" "${name#*=}:segments=10:exact=true:tolerance=0.5"
  done
  for name in 5 10; do
    $add "one model $name word" "mixed:segments=$name:begin_at=word"
    $add "12k $name" "mixed12:segments=$name"
    $add "words $name" "mixed-word:segments=$name"
    $add "words $name word" "mixed-word:segments=$name:begin_at=word"
    $add "beam and reference $name" "both:segments=$name"
    $add "one model $name kept" "mixed:segments=$name:overlaps=keep"
    $add "deleting $name" "deleting:segments=$name"
    $add "deleting $name deleted" "deleting:segments=$name:delete_tokens=true"
    $add "deleting $name kept" "deleting:segments=$name:overlaps=keep"
    $add "deleting $name kept deleted" "deleting:segments=$name:overlaps=keep:delete_tokens=true"
  done
  for name in 1 2 5 10 auto; do $add "long $name" "words-deleting-long:segments=$name"; done
  $add "long beam 4" words-deleting-long:segments=1:beam=4
  for name in 5 10; do
    $add "words deleting $name" "words-deleting:segments=$name"
    $add "words deleting $name kept" "words-deleting:segments=$name:overlaps=keep"
    $add "words deleting $name deleted" "words-deleting:segments=$name:delete_tokens=true"
    $add "long $name kept" "words-deleting-long:segments=$name:overlaps=keep"
    $add "long $name deleted" "words-deleting-long:segments=$name:delete_tokens=true"
  done
  $run evaluate "${systems[@]}" "${tests[@]}" --at "AT beam 4" --baseline "AT beam 4" --samples "${SAMPLES:-1000}" "$@" --out "$out/report"
}
stage_evaluate() { evaluated from_model --batch-size 256 --latency "${LATENCY:-100}"; }
stage_report() { evaluated from_output --subwords "$out/teacher"; }  # the tables again, where there is no GPU

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(corpus teacher distill students paper ablations evaluate)
run_stages "${stages[@]}"
