#!/usr/bin/env bash
# The paper's neighbours beside RecoverSAT, on ende200k: the same text, sizes, start and number of updates. On one GPU; every
# stage continues where it was interrupted.
#
#   recipes/neighbours.sh DATA OUT [STAGE...]
#
#   shared            corpus, teacher, distilled text and the one RecoverSAT (divided at words, as `fit` does), by recipes/ende200k.sh in the same OUT
#   trainings         SAT, NAT, CMLM, CTC and the deep-shallow AT, side by side; then deep-mixed
#   sat nat cmlm ctc deep     one of them alone; A+B trains A and B side by side
#   deep-mixed        RecoverSAT in the shape of the deep-shallow AT, every K, from its weights
#   evaluate          the whole table, into OUT/neighbours; also `long RecoverSAT`, where ende200k.sh has trained words-deleting-long
#   write             what `evaluate` needs of the models in MODELS alone (folders of OUT: "sat nat-full"), into OUT/written, while others train
#   bench             milliseconds of a sentence on a GPU, the systems in turn, into OUT/speed-cuda
#   bench-cpu         the same on one core by ONNX Runtime, exported to int8 first, into OUT/speed-cpu
#   bench-native      the same by the engine in C++, which writes step by step alone, into OUT/speed-native
#   report            the table of what `evaluate` or, where it has not run, `write` has left, into OUT/neighbours: no model is loaded. Needs what
#                     the teacher and RecoverSAT wrote; remove OUT/neighbours and OUT/written of an earlier training
#
# DATA and what is read from the environment are those of recipes/ende200k.sh: STEPS (6000), BATCH (32768), TESTS, SAMPLES,
# LATENCY, RECOVERSAT, CORPUS and so on. Also CTC_PARTS, passes an update of CTC is split into (2: its decoder has three rows a
# source token), and SENTENCES, ROUNDS and WARM_UP of `bench` (64, 5, 0.5; UNSCORED=1: without BLEU). docs/neighbours.md says what
# each system does.
#
# One SAT learns K = 2, 4 and 6, as one RecoverSAT learns every K. NAT of ende200k.sh has a quarter of the updates: the one here
# (OUT/nat-full) has as many as the others. The deep-shallow AT (12+1 layers) learns from the same text, from nothing.
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} steps=${STEPS:-6000}
read -ra chosen <<< "${SETTINGS:-}"
shift 2
mkdir -p "$out"
. "$(dirname "$0")/shared.sh"

from=(--init-from "$out/teacher" --init-decoder)
neighbour() {  # NAME SETTINGS...: from the teacher's text, encoder and decoder, as the students of ende200k.sh
  local name=$1 settings=() setting times=${VALIDATIONS:-5}
  local every=$(((steps + times - 1) / times))
  shift
  [ ! -f "$out/$name/done" ] || return 0
  for setting in train.steps="$steps" train.batch_tokens="${BATCH:-32768}" train.optimizer="${OPTIMIZER:-muon}" \
    train.learning_rate="${RATE:-4e-3}" train.warmup=300 train.clip_norm=1 train.validate_every=$every train.save_every=$every \
    train.compile=true train.tensorboard=false "${chosen[@]}" "$@"; do
    settings+=(--set "$setting")
  done
  $run train "$out/distilled" --out "$out/$name" --preset iwslt16 "${settings[@]}" "${from[@]}" && touch "$out/$name/done"
}

one_step() { neighbour "$@" train.segments=1; }

stage_shared() { "$(dirname "$0")/ende200k.sh" "$data" "$out" corpus teacher distill mixed-word; }
stage_sat() { neighbour sat model.kind=sat "train.segments=[2, 4, 6]" train.random_prob=0 train.repeat_prob=0; }
stage_nat() { one_step nat-full model.kind=nat; }
stage_cmlm() { one_step cmlm model.kind=cmlm; }
stage_deep() {
  local from=()
  neighbour deep-shallow train.segments=1 model.encoder_layers=12 model.decoder_layers=1
}
stage_deep-mixed() {
  local from=(--init-from "$out/deep-shallow" --init-decoder)
  neighbour deep-mixed "train.segments=[1, 2, 3, 4, 5, 6, 8, 10]" train.cut_at=word model.encoder_layers=12 model.decoder_layers=1
}
stage_ctc() { one_step ctc model.kind=ctc train.accumulate="${CTC_PARTS:-2}"; }

stage_trainings() { side_by_side sat nat cmlm ctc deep && stage_deep-mixed; }

report=$out/neighbours baseline="RecoverSAT 5"
is_trained() { [ -f "$out/$1/done" ]; }
all_systems() {  # nothing is repaired, as in the papers
  local name
  systems=()
  add "AT greedy" teacher:repairs=none
  add "AT beam 4" teacher:beam=4:repairs=none
  add "deep-shallow AT" deep-shallow:repairs=none
  add "NAT" nat-full:repairs=none
  add "NAT + LPD 9" "nat-full:lengths=9:teacher=$out/teacher$form:repairs=none"
  add "CTC" ctc:repairs=none
  for name in 4 10; do add "CMLM $name" "cmlm:iterations=$name:lengths=5:repairs=none"; done
  for name in 2 4 6; do add "SAT $name" "sat:segments=$name:repairs=none"; done
  for name in 1 2 5 10 auto; do add "RecoverSAT $name" "mixed-word:segments=$name:repairs=none"; done
  add "RecoverSAT tolerant" mixed-word:segments=10:exact=true:tolerance=0.5:repairs=none
  add "RecoverSAT exact" mixed-word:segments=auto:quality=exact:repairs=none
  for name in 1 2 5 10 auto; do add "deep-shallow RecoverSAT $name" "deep-mixed:segments=$name:repairs=none"; done
  add "deep-shallow RecoverSAT tolerant" deep-mixed:segments=10:exact=true:tolerance=0.5:repairs=none
  for name in 1 2 5 10 auto; do add "long RecoverSAT $name" "words-deleting-long:segments=$name:repairs=none"; done
  add "long RecoverSAT tolerant" words-deleting-long:segments=10:exact=true:tolerance=0.5:repairs=none
  add "long RecoverSAT exact" words-deleting-long:segments=auto:quality=exact:repairs=none
}
stage_evaluate() { evaluated --batch-size 256 --latency "${LATENCY:-100}" --out "$report"; }
stage_write() { written "${MODELS:?name models: MODELS=\"sat nat-full\" (folders of OUT whose training has ended)}"; }
stage_bench() { timed cuda cuda --together; }
exported() {
  local name
  for name in teacher deep-shallow nat-full ctc cmlm sat mixed-word deep-mixed words-deleting-long; do
    [ -f "$out/$name/done" ] || continue
    [ ! "$out/$name/done" -nt "$out/$name$form" ] || rm -rf "${out:?}/$name$form"  # of an earlier training
    [ -d "$out/$name$form" ] || $run export "$out/$name" "$out/$name$form" --precision int8 --corpus "$out/distilled"
  done
}
stage_bench-cpu() {
  local form=-int8 more=:compute=int8_onnx
  exported
  timed cpu cpu
}
stage_bench-native() {
  local form=-int8 more=:compute=int8 MODELS="teacher deep-shallow sat mixed-word deep-mixed words-deleting-long"
  exported
  timed native cpu
}

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(shared trainings evaluate bench)
run_stages "${stages[@]}"
