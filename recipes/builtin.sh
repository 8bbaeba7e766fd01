#!/usr/bin/env bash
# The built-in model: English to German and back in one, from openly licensed text. On one GPU; every stage continues
# where it was interrupted.
#
#   recipes/builtin.sh DATA OUT [STAGE...]
#
#   text          pairs of all origins by weight (builtin/weights.yaml), phrases of every day, rough copies
#   corpus        tokenizer and ids; once more by itself what people say every day: phrases, pairs of builtin/everyday.yaml
#   mono          monolingual text of both languages, to be translated
#   teacher-first autoregressive, both directions, builtin/teacher.yaml, at a high rate
#   clean         if asked for: the teacher goes on without the pairs it finds least likely
#   back          the teacher so far translates the monolingual text; turned around, it joins the pairs
#   teacher       goes on with them, the rate falling to its end
#   student-first one model for every K (builtin/student.yaml), from the same text
#   distill       the teacher translates sources of the pairs and the monolingual text, each way
#   student       goes on with the teacher's words and the phrases, the rate falling to its end
#   export        int8
#   evaluate      every test set, both directions
#
# DATA holds ende/train.{en,de,origin}.gz, ende2/train.{en,de,origin}.xz, ende2/mono.{en,de}.xz, valid text
# (ende200k/valid, ende2/valid, tests/tst2013) and tests/. From the environment:
#   TEACHER_STEPS, TEACHER_END    updates of the teacher, before the rate falls (3000) and while it does (3000)
#   STEPS, END                    the same of students (3000, 6000)
#   WORST                         share of pairs that `clean` leaves out (0.04)
#   SOURCES                       sources of the pairs that are distilled (1500000)
#   PROCESSES, DEVICE             processes that translate at the same time (4), and where (cuda)
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

distilled() {  # NAME TEACHER SOURCES BEAM: a corpus of what the teacher makes of those sources
  local name=$1 teacher=$2 sources=$3 beam=$4 processes=${PROCESSES:-4} i jobs=()
  [ ! -d "$out/$name" ] || return 0
  set -- distill "$out/$teacher" "$out/$sources" --out "$out/$name" --beam "$beam" --device "${DEVICE:-cuda}" --batch-tokens 32768
  for ((i = 1; i <= processes; i++)); do $run "$@" --shard "$i/$processes" & jobs+=($!); done
  for i in "${jobs[@]}"; do wait "$i"; done
  $run "$@"
}
joined() { [ -d "$out/$1" ] || "$python" "$here/join.py" "$out/$1" "${@:2}"; }  # NAME PART...

stage_text() {
  [ ! -f "$out/text.en" ] || return 0
  "$python" "$here/pairs.py" "$out" "$data/ende" "$data/ende2"
  "$python" "$here/phrases.py" "$out"
  for side in en de; do
    cat "$out/pairs.$side" "$out/phrases.$side" > "$out/rough.$side"
    for set in ende200k/valid ende2/valid tests/tst2013; do head -250 "$data/$set.$side"; done > "$out/valid.$side"
  done
  "$python" "$here/roughen.py" "$out" rough
  "$python" "$here/pairs.py" "$out/people" "$data/ende" "$data/ende2" --weights "$here/everyday.yaml"
  for side in en de; do cat "$out/phrases.$side" "$out/people/pairs.$side" > "$out/everyday.$side"; done
  "$python" "$here/roughen.py" "$out" everyday --share 0.25
  for side in de en; do mv "$out/rough.$side" "$out/text.$side"; done
}
stage_corpus() { prepared text corpus && prepared everyday everyday --tokenizer-from "$out/corpus"; }
stage_mono() { [ -d "$out/mono" ] || "$python" "$here/sources.py" "$out/mono" "$out/corpus" --mono "$data/ende2"; }
stage_teacher-first() { begun teacher corpus "${TEACHER_STEPS:-3000}" teacher; }
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
stage_back() {
  local pairs=corpus
  [ ! -d "$out/cleaned" ] || pairs=cleaned
  distilled mono-back teacher-first mono 1
  joined first "$out/$pairs" "$out/everyday" "$out/mono-back:turned"
}
stage_teacher() { ended teacher first "${TEACHER_END:-3000}" teacher 2.2e-3; }
stage_student-first() { begun student first "${STEPS:-3000}" student; }
stage_distill() {
  [ -d "$out/sources" ] || "$python" "$here/sources.py" "$out/sources" "$out/corpus" --most "${SOURCES:-1500000}"
  distilled sources-distilled teacher sources 4
  distilled mono-distilled teacher mono 2
  joined second "$out/sources-distilled" "$out/mono-distilled" "$out/everyday"
}
stage_student() { ended student second "${END:-6000}" student 3.0e-3; }
stage_export() {
  [ -d "$out/student-int8" ] || $run export "$out/student" "$out/student-int8" --precision int8 --corpus "$out/corpus"
  # lists change no translation: what they lack is written again (docs/decoding.md)
  [ -f "$out/student-int8/shortlist.npz" ] || $run shortlist "$out/student-int8" --corpus "$out/second"
}
stage_evaluate() {
  local way from to test tests
  for way in "en de" "de en"; do
    read -r from to <<< "$way"
    tests=()
    for test in tests/wiki tests/europarl tests/tst2014 tests/tatoeba tests/docs ende200k/test multi30k/test2016; do
      tests+=(--test "$(basename "$test")=$data/$test.$from,$data/$test.$to")
    done
    $run evaluate --system "student=$out/student-int8:to=$to" "${tests[@]}" --out "$out/report/$from-$to"
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
  text corpus mono teacher-first back teacher student-first distill student export evaluate
)
for stage in "${stages[@]}"; do
  case $stage in
    *+*) IFS=+ read -ra names <<< "$stage" && side_by_side "${names[@]}" ;;
    *) "stage_$stage" ;;
  esac
done
