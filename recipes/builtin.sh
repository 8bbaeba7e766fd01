#!/usr/bin/env bash
# The built-in model: English to German and back in one, from openly licensed text. On one GPU; every stage continues
# where it was interrupted.
#
#   recipes/builtin.sh DATA OUT [STAGE...]
#
#   text          pairs of all origins by weight (builtin/weights.yaml), phrases of every day, rough copies; by themselves
#                 pairs that people wrote and say every day (builtin/everyday.yaml), those of builtin/written too
#   dictionary    Ding, from Debian's package trans-de-en (`apt-get install trans-de-en`)
#   corpus        ids of all of it, with the tokenizer of the built-in model
#   mono          monolingual text of both languages, to be translated
#   back=N        the teacher of piece N - 1, at first the built-in model, translates the monolingual text; turned around,
#                 it joins the pairs
#   teacher=N     piece N of the teacher's training (builtin/teacher.yaml): goes on from the weights of piece N - 1; the
#                 learning rate falls over all PIECES
#   validate      BLEU of every piece of the teacher on validation text, tests/news-valid too, to choose by
#   student-first one model for every K (builtin/student.yaml), from the same text
#   distill       the teacher translates sources of the pairs and the monolingual text, each way
#   student       goes on with the teacher's words and the phrases, the rate falling to its end
#   export        int8
#   evaluate      every test set, both directions
#
# A+B runs A and B side by side. DATA holds train.{en,de,origin} of ende, ende2 and ende3 (as .gz or .xz), ende2/mono.{en,de}.xz,
# validation text (ende200k/valid, ende2/valid, tests/tst2013, tests/news-valid) and tests/. Piece N of the teacher needs OUT/first-N
# and the weights of the piece before it, OUT/teacher-(N-1) as a run or a model folder, so that each can be trained on another
# machine. From the environment:
#   PIECES, TEACHER_STEPS         pieces of the teacher (2), updates of each (7000)
#   STEPS, END                    updates of students (3000, 6000)
#   SOURCES                       sources of the pairs that are distilled (1500000)
#   VALIDATIONS                   how often a piece of the teacher is validated and saved (4)
#   DEADLINE                      see recipes/shared.sh
#   PROCESSES, DEVICE             processes that translate at the same time (4), and where (cuda)
#   SETTINGS                      further settings of every training, for a trial: "model.d_model=32 ..."
#   RECOVERSAT, PYTHON            the commands
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} pieces=${PIECES:-2}
here=$(dirname "$0")/builtin
shift 2
mkdir -p "$out"
. "$(dirname "$0")/shared.sh"
built_in() { "$python" -c "from recoversat.files.model_folder import builtin_model; print(builtin_model('en', 'de'))"; }
newest() {  # NAME N: the folder OUT/NAME-M with the largest M up to N
  local at=$2
  while [ "$at" -gt 1 ] && [ ! -d "$out/$1-$at" ]; do at=$((at - 1)); done
  echo "$out/$1-$at"
}

training() {  # NAME CORPUS STEPS CONFIG [OPTION...]
  local name=$1 corpus=$2 steps=$3 config=$4 setting
  shift 4
  for setting in ${SETTINGS:-}; do set -- "$@" --set "$setting"; done
  [ ! -f "$out/$name/done" ] || return 0
  until_deadline $run train "$corpus" --out "$out/$name" --config "$here/$config.yaml" --set train.steps="$steps" "$@" \
    && touch "$out/$name/done"
}
prepared() {  # NAME CORPUS: text of that name into a corpus
  [ -d "$out/$2" ] || $run prepare --src "$out/$1.en" --tgt "$out/$1.de" --valid-src "$out/valid.en" \
    --valid-tgt "$out/valid.de" --out "$out/$2" --config "$here/student.yaml" --set data.drop_duplicates=false \
    --tokenizer-from "$(built_in)"
}
distilled() {  # NAME MODEL SOURCES BEAM: a corpus of what the model makes of those sources
  local name=$1 model=$2 sources=$3 beam=$4 processes=${PROCESSES:-4} i jobs=()
  [ ! -d "$out/$name" ] || return 0
  set -- distill "$model" "$out/$sources" --out "$out/$name" --beam "$beam" --device "${DEVICE:-cuda}" --batch-tokens 32768
  for ((i = 1; i <= processes; i++)); do $run "$@" --shard "$i/$processes" & jobs+=($!); done
  for i in "${jobs[@]}"; do wait "$i"; done
  $run "$@"
}
joined() { [ -d "$out/$1" ] || "$python" "$here/join.py" "$out/$1" "${@:2}"; }  # NAME PART...

stage_text() {
  local origins=("$data/ende" "$data/ende2" "$data/ende3")
  [ ! -f "$out/text.en" ] || return 0
  "$python" "$here/pairs.py" "$out" "${origins[@]}"
  "$python" "$here/phrases.py" "$out"
  for side in en de; do
    cat "$out/pairs.$side" "$out/phrases.$side" > "$out/rough.$side"
    for set in ende200k/valid ende2/valid tests/tst2013; do head -250 "$data/$set.$side"; done > "$out/valid.$side"
  done
  "$python" "$here/roughen.py" "$out" rough
  "$python" "$here/pairs.py" "$out/people" "${origins[@]}" "$here/written" --weights "$here/everyday.yaml"
  for side in en de; do cat "$out/phrases.$side" "$out/people/pairs.$side" > "$out/everyday.$side"; done
  "$python" "$here/roughen.py" "$out" everyday --share 0.25
  for side in de en; do mv "$out/rough.$side" "$out/text.$side"; done
}
stage_dictionary() {
  [ -f "$out/from-de.de" ] || "$python" "$here/dictionary.py" "$out" --without "$data"/*/{valid,test}*.{en,de} "$data"/tests/*.{en,de}
}
stage_corpus() { prepared text corpus && prepared everyday everyday && prepared from-en from-en && prepared from-de from-de; }
stage_mono() { [ -d "$out/mono" ] || "$python" "$here/sources.py" "$out/mono" "$out/corpus" --mono "$data/ende2"; }
stage_back() {  # N
  local model=$out/teacher-$(($1 - 1))
  [ "$1" -gt 1 ] || model=$(built_in)
  distilled "mono-back-$1" "$model" mono 1
  joined "first-$1" "$out/corpus" "$out/everyday" "$out/from-en:forward" "$out/from-de:backward" "$out/mono-back-$1:turned"
}
rate() { awk -v done="$1" -v all="$pieces" 'BEGIN { rate = 3.5e-3 * (1 - done / all); print (rate > 1e-5 ? rate : 1e-5) }'; }
stage_teacher() {  # N
  local before=$(($1 - 1)) steps=${TEACHER_STEPS:-7000} every from=(--set train.warmup=300)
  every=$(((steps + ${VALIDATIONS:-4} - 1) / ${VALIDATIONS:-4}))
  [ "$before" = 0 ] || from=(--set train.warmup=60 --init-from "$out/teacher-$before" --init-decoder)
  training "teacher-$1" "$(newest first "$1")" "$steps" teacher "${from[@]}" --set train.learning_rate="$(rate "$before")" \
    --set train.final_learning_rate="$(rate "$1")" --set train.validate_every=$every --set train.save_every=$every
}
stage_validate() {
  local way from to name set tests named
  for way in "en de" "de en"; do
    read -r from to <<< "$way"
    named=() tests=()
    for name in "$out"/teacher-*; do named+=(--system "${name##*/}=$name:to=$to"); done
    for set in ende200k/valid ende2/valid tests/tst2013 tests/news-valid; do
      tests+=(--test "${set//\//-}=$data/$set.$from,$data/$set.$to")
    done
    $run evaluate "${named[@]}" "${tests[@]}" --device "${DEVICE:-cuda}" --batch-size 256 --out "$out/validation/$from-$to"
  done
}
stage_student-first() {
  training student-first "$(newest first "$pieces")" "${STEPS:-3000}" student --set train.schedule=inverse_sqrt
}
stage_distill() {
  [ -d "$out/sources" ] || "$python" "$here/sources.py" "$out/sources" "$out/corpus" --most "${SOURCES:-1500000}"
  distilled sources-distilled "$out/teacher-$pieces" sources 4
  distilled mono-distilled "$out/teacher-$pieces" mono 2
  joined second "$out/sources-distilled" "$out/mono-distilled" "$out/everyday"
}
stage_student() {
  training student "$out/second" "${END:-6000}" student --init-from "$out/student-first" --init-decoder \
    --set train.learning_rate=3.0e-3 --set train.warmup=60
}
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

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(
  text dictionary corpus mono back=1 teacher=1 back=2 teacher=2 validate student-first distill student export evaluate
)
run_stages "${stages[@]}"
