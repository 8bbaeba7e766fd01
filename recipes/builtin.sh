#!/usr/bin/env bash
# The built-in model: English to German and back in one, from openly licensed text. On one GPU; every stage continues
# where it was interrupted.
#
#   recipes/builtin.sh DATA OUT [STAGE...]
#
#   text          pairs of all origins by weight (builtin/weights.yaml), phrases of every day, rough copies
#   corpus        tokenizer and ids
#   teacher-first teacher                      autoregressive, both directions, builtin/teacher.yaml; at first at a high rate, then
#                 falling to its end
#   clean         if asked for, between the two: the teacher goes on without the pairs it finds least likely
#   mono          the teacher translates monolingual text both ways
#   first         pairs and monolingual text with its translations: what students learn from at first
#   student-first tiny-first tiny-at-first     one model for every K of each size (builtin/student.yaml, builtin/tiny.yaml), and
#                 an autoregressive model of the size of tiny, to compare with
#   distill       the teacher translates the sources of all pairs, each way
#   second        the teacher's translations alone, each from the side that a person wrote
#   student tiny tiny-at                       go on with them, the rate falling to its end
#   export        int8
#   evaluate      every test set, both directions
#
# DATA holds ende/train.{en,de,origin}.gz, ende2/train.{en,de,origin}.xz, ende2/mono.{en,de}.xz, valid text
# (ende200k/valid, ende2/valid, tests/tst2013) and tests/. From the environment:
#   TEACHER_STEPS, TEACHER_END    updates of the teacher, before the rate falls (2400) and while it does (1800)
#   STEPS, END                    the same of students (3000, 6000)
#   WORST                         share of pairs that `clean` leaves out (0.04)
#   SOURCES                       sentences of each language that are distilled (1500000)
#   PROCESSES, DEVICE             processes that translate at the same time (6), and where (cuda)
#   SETTINGS                      further settings of every training, for a trial: "model.d_model=32 ..."
#   RECOVERSAT, PYTHON            the commands
# A+B does A and B side by side.
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} here=$(dirname "$0")/builtin
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
begun() { training "$1-first" "$2" "$3" "$4" --set train.schedule=inverse_sqrt "${@:5}"; }  # as `training`
ended() {  # NAME CORPUS STEPS CONFIG RATE [OPTION...]: go on from what `begun` left
  training "$1" "$2" "$3" "$4" --init-from "$out/$1-first" --init-decoder --set train.learning_rate="$5" --set train.warmup=60 "${@:6}"
}

prepared() {  # NAME CORPUS [OPTION...]: text of that name into a corpus
  local name=$1 corpus=$2
  shift 2
  [ -d "$out/$corpus" ] || $run prepare --src "$out/$name.en" --tgt "$out/$name.de" --valid-src "$out/valid.en" \
    --valid-tgt "$out/valid.de" --out "$out/$corpus" --config "$here/student.yaml" --set data.drop_duplicates=false "$@"
}

translated() {  # NAME FROM TO: OUT/NAME.FROM into OUT/NAME.FROM-TO, by the teacher
  local name=$1 from=$2 to=$3 processes=${PROCESSES:-6} i
  [ ! -f "$out/$name.$from-$to" ] || return 0
  for ((i = 1; i <= processes; i++)); do
    $run translate "$out/$name.$from" --model "$out/teacher" --from "$from" --to "$to" --segments 1 --device "${DEVICE:-cuda}" \
      --batch-size 512 --shard "$i/$processes" --shard-size 8192 --out "$out/$name-$from" &
  done
  wait
  $run merge "$out/$name-$from"
  mv "$out/$name-$from/$name.$from" "$out/$name.$from-$to"
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
stage_teacher-first() { begun teacher corpus "${TEACHER_STEPS:-2400}" teacher; }
stage_clean() {
  if [ ! -f "$out/clean.en" ]; then
    for way in "en de" "de en"; do
      read -r from to <<< "$way"
      $run score --model "$out/teacher-first" --from "$from" --to "$to" --src "$out/text.$from" --tgt "$out/text.$to" \
        > "$out/scores.$from-$to.part"
      mv "$out/scores.$from-$to.part" "$out/scores.$from-$to"
    done
    "$python" "$here/clean.py" "$out" --worst "${WORST:-0.04}"
  fi
  prepared clean cleaned --tokenizer-from "$out/corpus"
}
stage_teacher() {
  local corpus=corpus
  [ ! -d "$out/cleaned" ] || corpus=cleaned
  ended teacher $corpus "${TEACHER_END:-1800}" teacher 3.5e-4
}
stage_mono() {
  for side in en de; do [ -f "$out/mono.$side" ] || xz -dc "$data/ende2/mono.$side.xz" > "$out/mono.$side"; done
  translated mono en de
  translated mono de en
}
one_way() {  # NAME: what the teacher made of OUT/NAME.{en,de}; each pair is good in the direction in which it was translated
  ln -sf "$1.en" "$out/$1-forward.en" && ln -sf "$1.en-de" "$out/$1-forward.de"
  ln -sf "$1.de-en" "$out/$1-backward.en" && ln -sf "$1.de" "$out/$1-backward.de"
  prepared "$1-forward" "$1-forward" --tokenizer-from "$out/corpus" &
  prepared "$1-backward" "$1-backward" --tokenizer-from "$out/corpus"
  wait $!
}
stage_first() {
  [ ! -d "$out/first" ] || return 0
  one_way mono
  "$python" "$here/join.py" "$out/first" "$out"/{corpus,mono-forward,mono-backward}  # both ways: a person's words are a good target
}
stage_student-first() { begun student first "${STEPS:-3000}" student; }
stage_tiny-first() { begun tiny first "${STEPS:-3000}" tiny; }
stage_tiny-at-first() { begun tiny-at first "${STEPS:-3000}" tiny --set train.segments=1; }
stage_distill() {
  for side in en de; do  # as many as wanted of those that differ, always the same ones
    [ -f "$out/sources.$side" ] || awk '!seen[$0]++' "$out/text.$side" \
      | shuf -n "${SOURCES:-1500000}" --random-source="$out/text.$side" > "$out/sources.$side"
  done
  translated sources en de
  translated sources de en
}
stage_second() {
  [ ! -d "$out/second" ] || return 0
  one_way sources
  "$python" "$here/join.py" "$out/second" "$out"/{mono,sources}-forward:forward "$out"/{mono,sources}-backward:backward
}
stage_student() { ended student second "${END:-6000}" student 7.0e-4; }
stage_tiny() { ended tiny second "${END:-6000}" tiny 7.0e-4; }
stage_tiny-at() { ended tiny-at second "${END:-6000}" tiny 7.0e-4 --set train.segments=1; }
stage_export() {
  for name in student tiny tiny-at; do
    [ ! -d "$out/$name" ] || [ -d "$out/$name-int8" ] || $run export "$out/$name" "$out/$name-int8" --precision int8 --corpus "$out/corpus"
  done
  for name in student tiny; do  # lists change no translation: what they lack is written again (docs/decoding.md)
    [ ! -d "$out/$name-int8" ] || [ -f "$out/$name-int8/onnx/shortlist.npz" ] || $run shortlist "$out/$name-int8" --corpus "$out/second"
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

side_by_side() {
  local name jobs=()
  trap 'trap - TERM; kill 0' INT TERM  # none is left behind
  for name in "$@"; do "stage_$name" & jobs+=($!); done
  for name in "${jobs[@]}"; do wait "$name"; done
}
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(
  text corpus teacher-first teacher mono first student-first+tiny-first+tiny-at-first distill second student+tiny+tiny-at export evaluate
)
for stage in "${stages[@]}"; do
  case $stage in
    *+*) IFS=+ read -ra names <<< "$stage" && side_by_side "${names[@]}" ;;
    *) "stage_$stage" ;;
  esac
done
