#!/usr/bin/env bash
# A trained model goes on: the built-in one learns from what it writes itself, once as usual and once with a share of the
# rows reading its own words in place of the target's (own_words.py). On a CPU: two cores, under an hour.
#
#   recipes/go_on.sh DATA OUT [STAGE...]
#
#   corpus     the first 24,000 pairs of ende200k, both ways, with the tokenizer of the built-in model
#   distill    the built-in model writes their targets with K = 1
#   gold own   300 updates of 2,048 tokens each
#   export     int8
#   evaluate   ende200k valid and test, both ways
#
# DATA holds ende200k/{train.en.gz,train.de.gz,valid.en,...}. From the environment: LINES (24000), STEPS (300),
# RECOVERSAT, PYTHON. A+B does A and B side by side, a core each.
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} here=$(cd "$(dirname "$0")" && pwd)
shift 2
mkdir -p "$out"
export PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=1
teacher=$("$python" -c "from recoversat.files.model_folder import builtin_model; print(builtin_model('en', 'de'))")

stage_corpus() {
  local side
  [ ! -d "$out/ids" ] || return 0
  for side in en de; do gzip -dc "$data/ende200k/train.$side.gz" | sed -n "1,${LINES:-24000}p" > "$out/train.$side"; done
  $run prepare --src "$out/train.en" --tgt "$out/train.de" --valid-src "$data/ende200k/valid.en" --valid-tgt "$data/ende200k/valid.de" \
    --out "$out/ids" --config "$teacher/config.json" --tokenizer-from "$teacher"
}
stage_distill() {
  $run build
  [ -d "$out/text" ] || $run distill "$teacher" "$out/ids" --out "$out/text" --beam 1 --device cpu --compute-type int8 --batch-tokens 2048
}
training() {  # NAME [OPTION...]
  local name=$1
  shift
  [ ! -f "$out/$name/done" ] || return 0
  $run train "$out/text" --out "$out/$name" --config "$teacher/config.json" --init-from "$teacher" --init-decoder --device cpu \
    --set "train.segments=[1, 2, 3, 4, 5, 6, 8, 10]" --set train.anneal=false --set train.random_prob=0 --set train.optimizer=adamw \
    --set train.steps="${STEPS:-300}" --set train.batch_tokens=2048 --set train.learning_rate=2e-4 --set train.warmup=20 --set train.compile=false \
    --set train.workers=0 --set train.log_every=10 --set train.save_every=1000 --set train.validate_every=100000 "$@"
  touch "$out/$name/done"
}
stage_gold() { training gold; }
stage_own() { training own --set train.objective=own_words:own_words; }
stage_export() {
  local name
  for name in gold own; do
    [ -d "$out/$name-int8" ] || $run export "$out/$name" "$out/$name-int8" --precision int8 --corpus "$out/text"
  done
}
stage_evaluate() {
  local way from to name k named set
  $run build
  for way in "en de" "de en"; do
    read -r from to <<< "$way"
    named=()
    for name in built-in gold own; do
      for k in 1 5 10; do
        set=$out/$name-int8
        [ "$name" != built-in ] || set=$teacher
        named+=(--system "$name $k=$set:to=$to:segments=$k:compute=int8:repairs=none")
      done
    done
    $run evaluate "${named[@]}" --test "valid=$data/ende200k/valid.$from,$data/ende200k/valid.$to" --test "test=$data/ende200k/test.$from,$data/ende200k/test.$to" \
      --at "built-in 1" --device cpu --batch-size 64 --out "$out/report/$from-$to"
  done
}

side_by_side() {
  local name jobs=()
  trap 'trap - TERM; kill 0' INT TERM  # none is left behind
  for name in "$@"; do "stage_$name" & jobs+=($!); done
  for name in "${jobs[@]}"; do wait "$name"; done
}
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(corpus distill gold+own export evaluate)
for stage in "${stages[@]}"; do
  case $stage in
    *+*) IFS=+ read -ra names <<< "$stage" && side_by_side "${names[@]}" ;;
    *) "stage_$stage" ;;
  esac
done
