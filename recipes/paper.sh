#!/usr/bin/env bash
# The paper's recipe to its end, on ende200k: Table 2, and what the end of the annealing costs. On one GPU; every stage continues where
# it was interrupted. One OUT for each seed and direction.
#
#   recipes/paper.sh DATA OUT [STAGE...]
#
#   shared            corpus teacher distill (beam 4), which may be named one by one
#   k2 k5 k10 nat     one student each, as the preset has it: from the teacher's encoder alone, p 1 -> 0, q = 0.5. OUT/paper-kK/best is its
#                     best checkpoint; a copy of the last one is OUT/paper-kK-last. A+B trains A and B side by side
#   write             all test sets, translated by every model there is, side by side (write=MODEL: by one model)
#   bench             milliseconds of a sentence at batch size 1, all systems in turn
#   report            BLEU, Rep, Mis and Step of what was written, with the paper's figures, into OUT/paper; needs no GPU
#   ablations         Tables 3 and 4 with as many updates (not run unless named)
#
# recipes/paper_table.py makes one table of the reports of several seeds. DATA and the environment are those of recipes/ende200k.sh, with
# other defaults: see below. Also PAPER (iwslt16.en-de; the paper's data set beside which ours is set), DEVICE (cuda) of `bench`, and
# SENTENCES, ROUNDS and WARM_UP (see recipes/neighbours.sh). SETTINGS="" has the preset's own sizes, whose two heads of 139 are slow
# (docs/log.md, "Heads of 139").
set -euo pipefail
export SETTINGS=${SETTINGS-model.d_model=256 model.d_hidden=512 model.n_heads=4} TEACHER_STEPS=${TEACHER_STEPS:-3000} \
  PAPER_STEPS=${PAPER_STEPS:-24500} PAPER_BATCH=${PAPER_BATCH:-16384} PAPER_RATE=${PAPER_RATE:-1.2e-3} VALIDATIONS=${VALIDATIONS:-16}
data=$1 out=$2 run=${RECOVERSAT:-recoversat} here=$(dirname "$0")
shift 2
mkdir -p "$out"
. "$here/shared.sh"
models=(teacher paper-nat paper-k2 paper-k5 paper-k10 paper-k2-last paper-k5-last paper-k10-last)

ende200k() { "$here/ende200k.sh" "$data" "$out" "$@"; }
stage_shared() { stage_corpus && stage_teacher && stage_distill; }
stage_corpus() { ende200k corpus; }
stage_teacher() { VALIDATIONS=${TEACHER_VALIDATIONS:-6} ende200k teacher; }
stage_distill() { ende200k distill; }
stage_k2() { student paper-k2; }
stage_k5() { student paper-k5; }
stage_k10() { student paper-k10; }
stage_nat() { student paper-nat; }
student() {  # NAME: a training that DEADLINE stopped is measured as it is
  local ended=0
  ende200k "$1" || ended=$?
  [ "$1" = paper-nat ] || keep_last "$1"
  return $ended
}
keep_last() {  # NAME: the weights of the newest checkpoint
  local checkpoints=("$out/$1"/checkpoints/step-*)
  [ -d "${checkpoints[-1]}" ] || return 0
  rm -rf "$out/$1-last" "$out/$1-last.part"
  cp -r "${checkpoints[-1]}" "$out/$1-last.part"
  rm -f "$out/$1-last.part"/{optimizer.safetensors,state.json,stopped}
  mv "$out/$1-last.part" "$out/$1-last"
}
stage_ablations() { ende200k ablations; }

report=$out/paper baseline="AT beam 4" beside=(--paper "${PAPER:-iwslt16.en-de}")
is_trained() { [ -d "$out/$1/best" ] || [ -f "$out/$1/config.json" ]; }
system() { if [ -n "$texts" ] || is_trained "${2%%:*}"; then add "$@"; fi; }
all_systems() {  # nothing is repaired
  local k
  systems=()
  system "AT greedy" teacher:repairs=none
  system "AT beam 4" teacher:beam=4:repairs=none
  system "NAT" paper-nat:repairs=none
  system "NAT + LPD 9" "paper-nat:lengths=9:teacher=$out/teacher:repairs=none"
  for k in 2 5 10; do
    system "RecoverSAT $k" "paper-k$k:repairs=none"
    system "RecoverSAT $k last" "paper-k$k-last:repairs=none"
  done
}
stage_write() {  # [MODEL]
  local name there=()
  if [ $# -gt 0 ]; then
    written "$1"
    return
  fi
  for name in "${models[@]}"; do if is_trained "$name"; then there+=("write=$name"); fi; done
  side_by_side "${there[@]}"
}
stage_bench() {
  local MODELS="teacher paper-nat paper-k2 paper-k5 paper-k10" UNSCORED=1 BATCHES=${BATCHES:-1}
  timed gpu "${DEVICE:-cuda}" --together
}

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(shared k2+k5+k10+nat write bench report)
run_stages "${stages[@]}"
