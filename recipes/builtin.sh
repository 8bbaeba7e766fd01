#!/usr/bin/env bash
# The built-in model: English to German and back in one, from openly licensed text. On one GPU; every stage continues
# where it was interrupted.
#
#   recipes/builtin.sh DATA OUT [STAGE...]
#
#   text         pairs of all origins by weight (builtin/weights.yaml), phrases of every day, rough copies
#   corpus       tokenizer and ids
#   teacher      autoregressive, both directions, builtin/teacher.yaml
#   clean        leaves out the pairs that the teacher finds least likely, each origin measured by itself
#   mono         the teacher translates monolingual text both ways: sources for the targets they were made from
#   corpus2      what is left, and the monolingual text with its translations
#   teacher2     the teacher goes on with it
#   distill      everything translated by the teacher
#   student tiny one model for every K of each size (builtin/student.yaml, builtin/tiny.yaml)
#   tiny-at      an autoregressive model of the size of tiny, to compare with
#   export       int8
#   evaluate     every test set, both directions
#
# DATA holds ende/train.{en,de,origin}.gz, ende2/train.{en,de,origin}.xz, ende2/mono.{en,de}.xz, valid text
# (ende200k/valid, ende2/valid, tests/tst2013) and tests/. From the environment:
#   TEACHER_STEPS, TEACHER2_STEPS, STEPS    updates of the teacher (10000), of its second round (6000), of students (12000)
#   WORST                                   share of pairs that `clean` leaves out (0.04)
#   PROCESSES                               processes that translate at the same time (4)
#   SETTINGS                                further settings of every training, for a trial: "model.d_model=32 ..."
#   RECOVERSAT, PYTHON                      the commands
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} here=$(dirname "$0")/builtin
processes=${PROCESSES:-4}
shift 2
mkdir -p "$out"

training() {  # NAME CORPUS STEPS CONFIG [OPTION...]
  local name=$1 corpus=$2 steps=$3 config=$4 setting
  shift 4
  for setting in ${SETTINGS:-}; do set -- "$@" --set "$setting"; done
  [ ! -f "$out/$name/done" ] || return 0
  $run train "$out/$corpus" --out "$out/$name" --config "$here/$config.yaml" --set train.steps="$steps" "$@"
  touch "$out/$name/done"
}

prepared() {  # NAME CORPUS [OPTION...]: text of that name into a corpus
  local name=$1 corpus=$2
  shift 2
  [ -d "$out/$corpus" ] || $run prepare --src "$out/$name.en" --tgt "$out/$name.de" --valid-src "$out/valid.en" \
    --valid-tgt "$out/valid.de" --out "$out/$corpus" --config "$here/student.yaml" --set data.drop_duplicates=false "$@"
}

stage_text() {
  [ ! -f "$out/text.en" ] || return 0
  "$python" "$here/pairs.py" "$out" "$data/ende" "$data/ende2"
  "$python" "$here/phrases.py" "$out"
  for side in en de; do
    cat "$out/pairs.$side" "$out/phrases.$side" > "$out/rough.$side"
    for set in ende200k/valid ende2/valid tests/tst2013; do head -250 "$data/$set.$side"; done > "$out/valid.$side"
  done
  "$python" "$here/roughen.py" "$out" rough
  for side in de en; do mv "$out/rough.$side" "$out/text.$side"; done
}
stage_corpus() { prepared text corpus; }
stage_teacher() { training teacher corpus "${TEACHER_STEPS:-10000}" teacher; }
stage_clean() {
  [ ! -f "$out/clean.en" ] || return 0
  for way in "en de" "de en"; do
    read -r from to <<< "$way"
    $run score --model "$out/teacher" --from "$from" --to "$to" --src "$out/text.$from" --tgt "$out/text.$to" \
      > "$out/scores.$from-$to.part"
    mv "$out/scores.$from-$to.part" "$out/scores.$from-$to"
  done
  "$python" "$here/clean.py" "$out" --worst "${WORST:-0.04}"
}
stage_mono() {
  for way in "en de" "de en"; do
    read -r from to <<< "$way"
    [ ! -f "$out/mono.$from" ] || continue
    xz -dc "$data/ende2/mono.$from.xz" > "$out/mono.$from.txt"
    for ((i = 1; i <= processes; i++)); do
      $run translate "$out/mono.$from.txt" --model "$out/teacher" --from "$from" --to "$to" --segments 1 \
        --batch-size 512 --shard "$i/$processes" --shard-size 20000 --out "$out/mono-$from" &
    done
    wait
    $run merge "$out/mono-$from"
    mv "$out/mono-$from/mono.$from.txt" "$out/mono.$from-$to"
    mv "$out/mono.$from.txt" "$out/mono.$from"
  done
}
stage_corpus2() {
  cat "$out/clean.en" "$out/mono.en" "$out/mono.de-en" > "$out/text2.en"
  cat "$out/clean.de" "$out/mono.en-de" "$out/mono.de" > "$out/text2.de"
  prepared text2 corpus2 --tokenizer-from "$out/corpus"
}
stage_teacher2() {
  training teacher2 corpus2 "${TEACHER2_STEPS:-6000}" teacher --init-from "$out/teacher" --init-decoder
}
stage_distill() {
  [ -d "$out/distilled" ] || "$python" -m torch.distributed.run --nproc_per_node "$processes" -m recoversat distill \
    "$out/teacher2" "$out/corpus2" --out "$out/distilled" --beam 4 --shard-size 20000 --batch-tokens 32768
}
stage_student() { training student distilled "${STEPS:-12000}" student; }
stage_tiny() { training tiny distilled "${STEPS:-12000}" tiny; }
stage_tiny-at() { training tiny-at distilled "${STEPS:-12000}" tiny --set train.segments=1; }
stage_export() {
  for name in student tiny tiny-at; do
    [ ! -d "$out/$name" ] || [ -d "$out/$name-int8" ] || $run export "$out/$name" "$out/$name-int8" --precision int8 --corpus "$out/corpus"
  done
  for name in student tiny; do  # lists change no translation: what they lack is written again (docs/decoding.md)
    [ ! -d "$out/$name-int8" ] || [ -f "$out/$name-int8/onnx/shortlist.npz" ] || $run shortlist "$out/$name-int8" --corpus "$out/distilled"
  done
}
stage_evaluate() {
  local name way from to test systems tests
  for way in "en de" "de en"; do
    read -r from to <<< "$way"
    systems=() tests=()
    for name in student tiny tiny-at; do
      [ ! -d "$out/$name-int8" ] || systems+=(--system "$name=$out/$name-int8:to=$to")
    done
    for test in tests/wiki tests/europarl tests/tst2014 tests/tatoeba tests/docs ende200k/test multi30k/test2016; do
      tests+=(--test "$(basename "$test")=$data/$test.$from,$data/$test.$to")
    done
    $run evaluate "${systems[@]}" "${tests[@]}" --out "$out/report/$from-$to"
  done
}

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(
  text corpus teacher clean mono corpus2 teacher2 distill student tiny tiny-at export evaluate
)
for stage in "${stages[@]}"; do "stage_$stage"; done
