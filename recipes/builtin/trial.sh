#!/usr/bin/env bash
# What each part of the built-in model's text is worth: a small autoregressive model, English to German, on one core of
# a CPU, once with all of the text and once without each part of it. Every stage continues where it was interrupted.
#
#   recipes/builtin/trial.sh DATA OUT [VARIANT...]
#
#   full          weights of origins, phrases of every day, rough copies, as stage `text` of builtin.sh
#   no-weights    every origin as often as it occurs
#   no-phrases    without phrases of every day
#   no-rough      without rough copies
#   back          as full, and German monolingual text that the built-in model translated back
#   full-2 ...    each of them with another seed
#
# All text is one 33rd of builtin.sh's, chosen evenly, so that each part keeps its share. Every variant has as many
# updates, the same tokenizer and the same seed. At the end it prints the log-loss (nats a token) of every variant that
# is there on validation text, the same text roughened, and the sentences of first.tsv and second.tsv; full-other is
# full with the source of the next line, which says how much it makes of the source.
# From the environment: STEPS (updates), PAIRS, PHRASES, MONO (lines of each), RECOVERSAT, PYTHON (the commands).
set -euo pipefail
data=$1 out=$2 run=${RECOVERSAT:-recoversat} python=${PYTHON:-python3} here=$(dirname "$0")
shift 2
variants=("$@")
[ ${#variants[@]} -gt 0 ] || variants=(full no-weights full-2 back no-phrases no-rough)
sets=(ende200k parliament talks captions rough everyday)
settings=(data.src_lang=en data.tgt_lang=de data.vocab_size=4000 data.drop_duplicates=false
  model.d_model=128 model.d_hidden=512 model.n_heads=4 model.encoder_layers=3 model.decoder_layers=2 model.dropout=0
  train.segments=1 train.batch_tokens=2048 train.optimizer=muon train.learning_rate=8e-3 train.warmup=50
  train.label_smoothing=0 train.clip_norm=1.0 train.precision=bf16 train.steps="${STEPS:-300}" train.workers=0
  train.log_every=20 train.save_every=100 train.keep_checkpoints=1 train.validate_every=100000 train.tensorboard=false)
settings=("${settings[@]/#/--set=}")
mkdir -p "$out/held"

evenly() { awk -v n="$1" -v of="$(wc -l < "$2")" 'int(NR * n / of) > int((NR - 1) * n / of)' "$2"; }  # LINES FILE

held_out() {  # what is measured with: every set in one file, `lines` says how many lines of each
  [ ! -f "$out/held/lines" ] || return 0
  local side set from column whole
  rm -f "$out"/held/*
  for side in en de; do
    column=$([ $side = en ] && echo 1 || echo 2)
    for set in ende200k=ende200k/valid parliament=ende2/valid talks=tests/tst2013 captions=multi30k/valid; do
      from=$data/${set#*=}.$side
      cat "$from" >> "$out/held/rough.$side"
      evenly 500 "$from" > "$out/held/${set%=*}.$side"
    done
    grep -hv '^#' "$here/first.tsv" "$here/second.tsv" | cut -f "$column" > "$out/held/everyday.$side"
  done
  whole=$(wc -l < "$out/held/rough.en")
  "$python" "$here/roughen.py" "$out/held" rough --share 1
  for side in en de; do
    sed -i "1,${whole}d" "$out/held/rough.$side"  # the copies alone
    evenly 1000 "$out/held/rough.$side" > "$out/held/part" && mv "$out/held/part" "$out/held/rough.$side"
    for set in "${sets[@]}"; do cat "$out/held/$set.$side"; done > "$out/held/all.$side"
  done
  { tail -n +2 "$out/held/all.en" && head -1 "$out/held/all.en"; } > "$out/held/other.en"
  for set in "${sets[@]}"; do wc -l < "$out/held/$set.de"; done > "$out/held/lines"
}

pairs() {  # NAME WEIGHTS
  [ ! -f "$out/$1/few.de" ] || return 0
  [ -s "$out/$1.txt" ] || "$python" "$here/pairs.py" "$out/$1" "$data/ende" "$data/ende2" --weights "$2" > "$out/$1.txt"
  for side in en de; do evenly "${PAIRS:-48000}" "$out/$1/pairs.$side" > "$out/$1/few.$side"; done
}
phrases() { [ -f "$out/phrases.de" ] || "$python" "$here/phrases.py" "$out" --lines "${PHRASES:-4470}"; }
back() {  # German text by the weights of its origins, its translation
  [ ! -f "$out/mono-back.en" ] || return 0
  paste <(xzcat "$data/ende2/mono.de.origin.xz") <(xzcat "$data/ende2/mono.de.xz") | awk -F '\t' -v weights="$here/weights.yaml" \
    'BEGIN { FS = ": "; while ((getline < weights) > 0) weight[$1] = $2; FS = "\t" }
     (taken[$1] += weight[$1]) >= 1 { taken[$1] -= 1; print $2 }' > "$out/mono.de"
  evenly "${MONO:-17000}" "$out/mono.de" > "$out/mono-back.de"
  $run translate --from de --to en --compute-type int8 --quality fast --batch-size 32 --threads 1 < "$out/mono-back.de" > "$out/mono-back.part"
  mv "$out/mono-back.part" "$out/mono-back.en"
}

text() {  # VARIANT
  local name=$1 side weights=weighted parts
  [ ! -f "$out/$name.en" ] || return 0
  if [ "$name" = no-weights ]; then
    sed -E 's/^(\w+): .*/\1: 1/' "$here/weights.yaml" > "$out/ones.yaml"
    weights=ones
    pairs ones "$out/ones.yaml"
  else
    pairs weighted "$here/weights.yaml"
  fi
  phrases
  for side in de en; do
    parts=("$out/$weights/few.$side" "$out/phrases.$side")
    [ "$name" != no-phrases ] || parts=("$out/$weights/few.$side")
    cat "${parts[@]}" > "$out/part.$side"
  done
  [ "$name" = no-rough ] || "$python" "$here/roughen.py" "$out" part
  if [ "$name" = back ]; then
    back
    for side in de en; do cat "$out/mono-back.$side" >> "$out/part.$side"; done
  fi
  for side in de en; do mv "$out/part.$side" "$out/$name.$side"; done
}
corpus() {  # VARIANT
  local name=$1 tokenizer=()
  [ ! -d "$out/corpus-$name" ] || return 0
  text "$name"
  [ "$name" = full ] || { corpus full && tokenizer=(--tokenizer-from "$out/corpus-full"); }
  $run prepare --src "$out/$name.en" --tgt "$out/$name.de" --out "$out/corpus-$name" "${tokenizer[@]}" "${settings[@]}"
}
trained() {  # VARIANT
  local name=$1 seed=1 corpus=$1
  [[ $name != *-2 ]] || { seed=2 && corpus=${name%-2}; }
  [ ! -f "$out/$name/done" ] || return 0
  corpus "$corpus"
  $run train "$out/corpus-$corpus" --out "$out/$name" "${settings[@]}" --set train.seed=$seed
  touch "$out/$name/done"
}
scored() {  # VARIANT SOURCES NAME
  [ ! -f "$out/scores/$3" ] || return 0
  mkdir -p "$out/scores"
  $run score --model "$out/$1" --src "$out/held/$2.en" --tgt "$out/held/all.de" --jsonl > "$out/part.scores"
  mv "$out/part.scores" "$out/scores/$3"
}

held_out
for variant in "${variants[@]}"; do
  trained "$variant"
  scored "$variant" all "$variant"
done
[ ! -f "$out/full/done" ] || scored full other full-other
"$python" "$here/losses.py" "$out" "${sets[@]}"
