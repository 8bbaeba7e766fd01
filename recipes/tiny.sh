#!/usr/bin/env bash
# The small model: preset `tiny`, every K, both directions, taught by the built-in model; and an autoregressive one of the
# same size, text and number of updates to compare it with. Every stage continues where it was interrupted.
#
#   recipes/tiny.sh DATA OUT [STAGE...]
#
#   text          the text of the built-in model (recipes/builtin.sh text, in the same OUT, which holds nothing else of it)
#   sources       ids, with the tokenizer of the built-in model: what it is to translate, phrases and pairs of every day
#   distill       the built-in model writes it with K = 1; on a CPU, in int8, by as many processes as there are cores
#   corpora       what the models learn from: the built-in model's words and phrases of every day; at first every seventh pair
#                 of people's text too
#   first         autoregressive, at a high rate: what both models go on from
#   tiny at       go on, the rate falling to its end: every K, and K = 1 alone
#   export        int8, with a shortlist; the autoregressive one for CTranslate2 too, with the same list
#   evaluate      every test set, both directions
#   bench         one core of a CPU, nothing else at work (needs '.[peers]')
#
# DATA is that of recipes/builtin.sh. From the environment:
#   SOURCES, MONO     sources of the pairs (430000), sentences of monolingual text (170000) that are translated
#   STEPS, END        updates at the high rate (2000), and while it falls (3500)
#   SETTINGS          further settings of every training, for a trial: "model.d_model=32 ..."
#   SENTENCES, ROUNDS     of `bench` (48, 3)
#   PROCESSES         that translate at the same time (all cores)
#   RECOVERSAT, PYTHON    the commands
# A+B does A and B side by side.
set -euo pipefail
if [ -d "$2/teacher-1" ]; then
  echo "$2: recipes/builtin.sh has made more than \`text\` here, under the same names; take another folder" >&2
  exit 2
fi
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} here=$(dirname "$0")/builtin
shift 2
mkdir -p "$out"
teacher() { "$python" -c "from recoversat.files.model_folder import builtin_model; print(builtin_model('en', 'de'))"; }

training() {  # NAME CORPUS STEPS [OPTION...]
  local name=$1 corpus=$2 steps=$3 setting
  shift 3
  for setting in ${SETTINGS:-}; do set -- "$@" --set "$setting"; done
  [ ! -f "$out/$name/done" ] || return 0
  $run train "$out/$corpus" --out "$out/$name" --config "$here/tiny.yaml" --set train.steps="$steps" "$@"
  touch "$out/$name/done"
}
ended() {  # NAME [OPTION...]: go on from what `first` left
  training "$1" corpus "${END:-3500}" --init-from "$out/first" --init-decoder --set train.learning_rate=4.0e-3 --set train.warmup=60 "${@:2}"
}
prepared() {  # NAME: text of that name into ids
  [ -d "$out/$1-ids" ] || $run prepare --src "$out/$1.en" --tgt "$out/$1.de" --valid-src "$out/valid.en" --valid-tgt "$out/valid.de" \
    --out "$out/$1-ids" --config "$here/tiny.yaml" --set data.drop_duplicates=false --tokenizer-from "$(teacher)"
}
distilled() {  # NAME: what the built-in model makes of those sources
  local processes=${PROCESSES:-$(nproc)} i jobs=()
  [ ! -d "$out/$1-distilled" ] || return 0
  trap 'trap - TERM; kill 0' INT TERM  # none is left behind
  set -- distill "$(teacher)" "$out/$1" --out "$out/$1-distilled" --beam 1 --device cpu --compute-type int8 --batch-tokens 2048
  for ((i = 1; i <= processes; i++)); do OMP_NUM_THREADS=1 $run "$@" --shard "$i/$processes" & jobs+=($!); done
  for i in "${jobs[@]}"; do wait "$i"; done
  OMP_NUM_THREADS=1 $run "$@"
}

stage_text() { "$here.sh" "$data" "$out" text; }
stage_sources() {
  prepared text
  prepared everyday
  [ -d "$out/sources" ] || "$python" "$here/sources.py" "$out/sources" "$out/text-ids" --most "${SOURCES:-430000}"
  [ -d "$out/mono" ] || "$python" "$here/sources.py" "$out/mono" "$out/text-ids" --mono "$data/ende2" --most "${MONO:-170000}"
}
stage_distill() {
  $run build
  distilled sources
  distilled mono
}
joined() { [ -d "$out/$1" ] || "$python" "$here/join.py" "$out/$1" "${@:2}"; }  # NAME PART...
stage_corpora() {
  joined text-seventh "$out/text-ids:7"
  joined corpus "$out/sources-distilled" "$out/mono-distilled" "$out/everyday-ids"
  joined first-corpus "$out/text-seventh" "$out/corpus"
}
stage_first() { training first first-corpus "${STEPS:-2000}" --set train.schedule=inverse_sqrt --set train.segments=1; }
stage_tiny() { ended tiny; }
stage_at() { ended at --set train.segments=1; }
stage_export() {
  local name
  for name in tiny at; do
    [ -d "$out/$name-int8" ] || $run export "$out/$name" "$out/$name-int8" --precision int8 --corpus "$out/corpus"
  done
  [ -f "$out/tiny-int8/shortlist.npz" ] || $run shortlist "$out/tiny-int8" --corpus "$out/corpus" --likeliest 50
  [ -d "$out/at-ct2" ] || $run export "$out/at" "$out/at-ct2" --format ctranslate2
  [ -d "$out/at-ct2-map" ] || "$python" "$here/vmap.py" "$out/tiny-int8" "$out/at-ct2" "$out/at-ct2-map" --to de
}
systems() {  # TO: both models in the engine in C++, nothing repaired
  local how=to=$1:compute=int8:repairs=none k
  named=(--system "AT=$out/at-int8:$how")
  for k in 1 2 3 5; do named+=(--system "tiny $k=$out/tiny-int8:segments=$k:shortlist=false:$how"); done
  for k in "14 4" "30 2"; do
    named+=(--system "tiny by length ${k% *}=$out/tiny-int8:segments=auto:segment_length=${k% *}:most_segments=${k#* }:shortlist=false:$how")
  done
  named+=(--system "tiny tolerant=$out/tiny-int8:segments=2:exact=true:tolerance=0.5:shortlist=false:$how")
}
stage_evaluate() {
  local way from to test named tests
  $run build
  for way in "en de" "de en"; do
    read -r from to <<< "$way"
    systems "$to" && tests=()
    named+=(--system "tiny by length 30 joined=$out/tiny-int8:to=$to:segments=auto:segment_length=30:most_segments=2:shortlist=false:compute=int8")
    for test in tests/wiki tests/europarl tests/tst2014 tests/tatoeba tests/docs ende200k/test multi30k/test2016; do
      tests+=(--test "$(basename "$test")=$data/$test.$from,$data/$test.$to")
    done
    $run evaluate "${named[@]}" "${tests[@]}" --at AT --device cpu --batch-size 64 --out "$out/report/$from-$to"
  done
}
stage_bench() {  # English to German, one core: lists as they are, of the same pieces for CTranslate2
  local named list=to=de:compute=int8:repairs=none:verify_shortlist=false
  systems de
  named+=(
    --system "AT ONNX Runtime=$out/at-int8:to=de:compute=int8_onnx:repairs=none"
    --system "tiny 1 list=$out/tiny-int8:segments=1:$list" --system "tiny 2 list=$out/tiny-int8:segments=2:$list"
    --system "tiny by length 14 list=$out/tiny-int8:segments=auto:segment_length=14:most_segments=4:$list"
    --system "tiny by length 30 list=$out/tiny-int8:segments=auto:segment_length=30:most_segments=2:$list"
    --system "CTranslate2=$out/at-ct2:to=de:compute=int8" --system "CTranslate2 map=$out/at-ct2-map:to=de:compute=int8"
    --system "built-in=$(teacher):to=de:compute=int8:repairs=none"
  )
  taskset -c 0 $run bench "${named[@]}" --src "$data/ende200k/test.en" --ref "$data/ende200k/test.de" --sentences "${SENTENCES:-48}" --batch 1 --batch 64 \
    --threads 1 --rounds "${ROUNDS:-3}" --out "$out/bench"
}

side_by_side() {
  local name jobs=()
  trap 'trap - TERM; kill 0' INT TERM  # none is left behind
  for name in "$@"; do "stage_$name" & jobs+=($!); done
  for name in "${jobs[@]}"; do wait "$name"; done
}
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(text sources distill corpora first tiny+at export evaluate bench)
for stage in "${stages[@]}"; do
  case $stage in
    *+*) IFS=+ read -ra names <<< "$stage" && side_by_side "${names[@]}" ;;
    *) "stage_$stage" ;;
  esac
done
