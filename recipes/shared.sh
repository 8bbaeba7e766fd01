# Functions of ende200k.sh, neighbours.sh, paper.sh and builtin.sh; each sets data, out and run, then sources this file. From the environment:
#   DIRECTION         source and target language (en-de)
#   DEADLINE          seconds since 1970 at which trainings are stopped: they save, and the same command continues them
#   TESTS, SAMPLES    test sets (ende200k tst2013 tst2014), resamples of the bootstrap (1000)
src_lang=${DIRECTION:-en-de}
tgt_lang=${src_lang#*-} src_lang=${src_lang%-*}

stage() {  # NAME or NAME=ARGUMENT
  case $1 in
    *=*) "stage_${1%%=*}" "${1#*=}" ;;
    *) "stage_$1" ;;
  esac
}
side_by_side() {  # STAGES: all at once; says which one failed
  local name jobs=() failed=()
  trap 'trap - TERM; kill 0' INT TERM  # none is left behind
  for name in "$@"; do
    stage "$name" > "$out/$name.log" 2>&1 &
    jobs+=("$!:$name")
  done
  for name in "${jobs[@]}"; do wait "${name%%:*}" || failed+=("$out/${name#*:}.log"); done
  [ ${#failed[@]} = 0 ] || { echo "a training failed: see ${failed[*]}" >&2; return 1; }
}
run_stages() {
  local one names
  for one in "$@"; do
    case $one in
      *+*) IFS=+ read -ra names <<< "$one" && side_by_side "${names[@]}" ;;
      *) stage "$one" ;;
    esac
  done
}

until_deadline() {  # COMMAND...
  local left=$((${DEADLINE:-0} - $(date +%s)))
  if [ -z "${DEADLINE:-}" ]; then
    "$@"
  elif [ "$left" -gt 0 ]; then
    timeout --foreground "$left" "$@"  # the signal goes to the command alone: two of them would end it without saving
  else
    echo "DEADLINE has passed; nothing was started" >&2
    return 1
  fi
}

test_set() {
  local at
  case $1 in
    ende200k) at=$data/ende200k/test ;;
    test2016) at=$data/multi30k/test2016 ;;
    *) at=$data/tests/$1 ;;
  esac
  echo "$1=$at.$src_lang,$at.$tgt_lang"
}
tests=() first=
for name in ${TESTS:-ende200k tst2013 tst2014}; do
  tests+=(--test "$(test_set "$name")")
  first=${first:-$(test_set "$name")}
done

# What follows needs `all_systems`, which fills systems by `add`; `report`, a folder; `baseline`, a system; `is_trained`, of a folder of OUT.
beside=()  # further options of `report`
systems=() form= texts= more=  # of the models: as trained, or -int8; with texts, what they wrote instead of them; more options
add() {  # NAME MODEL[:OPTION...]: where MODELS is empty or names the model, and it or its texts are there
  local model=${2%%:*} at
  [ -z "${MODELS:-}" ] || [[ " $MODELS " == *" $model "* ]] || return 0
  if [ -z "$texts" ]; then
    [ ! -e "$out/$model$form" ] || systems+=(--system "$1=$out/$model$form:${2#*:}$more")
    return
  fi
  for at in "$report" "$out"/written/*; do
    [ ! -f "$at/outputs/${first%%=*}/$1.jsonl" ] || { systems+=(--system "$1=$at/outputs/{test}/$1.jsonl"); return; }
  done
}
evaluated() {  # OPTIONS...
  all_systems
  $run evaluate "${systems[@]}" "${tests[@]}" --at "AT beam 4" --baseline "$baseline" --samples "${SAMPLES:-1000}" "$@"
}
stage_report() {
  local texts=1 MODELS=
  evaluated --subwords "$out/teacher" --out "$report" "${beside[@]}"
}
written() {  # MODELS: all that the systems of these models write, into OUT/written
  local MODELS=$1 name
  for name in $MODELS; do
    is_trained "$name" || { echo "$out/$name: no model whose training has ended; MODELS names folders of $out" >&2; return 1; }
  done
  all_systems
  $run evaluate "${systems[@]}" "${tests[@]}" --batch-size 256 --out "$out/written/${MODELS// /+}"
}
timed() {  # NAME DEVICE OPTIONS...
  local to=$out/speed-$1 size options=()
  shift
  local source=${first#*=}
  [ -n "${UNSCORED:-}" ] || options=(--ref "${source##*,}")
  for size in ${BATCHES:-1 64}; do options+=(--batch "$size"); done
  if [ -d "$to" ]; then
    echo "kept as it is: $to; remove it to time the systems again"
    return 0
  fi
  all_systems
  $run bench "${systems[@]}" --src "${source%%,*}" "${options[@]}" --sentences "${SENTENCES:-64}" \
    --threads 1 --rounds "${ROUNDS:-5}" --warm-up "${WARM_UP:-0.5}" --device "$@" --out "$to"
}
