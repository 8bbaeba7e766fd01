"""Make the small MarianMT model of this folder, which knows next to nothing, and note what transformers writes with it.

    pip install torch transformers sentencepiece sacremoses
    python tests/data/marian/make.py

The tests need neither: they read what was written here.
"""

import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

FOLDER = Path(__file__).parent
SAMPLE = FOLDER.parent
SEED, UPDATES, BEAM, MOST_TOKENS = 3, 300, 4, 24
SENTENCES = [
    "Let's go.",
    "I have to go to sleep.",
    "What is it?  Nobody knows!",
    "The \ufb01rst \uff21 is normalised.",  # a ligature, a full-width letter
    "Unknown: \u4e16\u754c \U0001f600.",
    "Today is June 18th and it is Muiriel's birthday!",
    "no",
    "They say \u201cmaybe\u201d, but I do not believe it at all.",
]


def main() -> None:
    torch.manual_seed(SEED)
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer.encoder), tokenizer.pad_token_id)
    train(model, tokenizer)
    model.eval()
    with torch.no_grad():
        model.final_logits_bias[0, 1] = -9.0  # <unk>, which we never write
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink()
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    named = {"_name_or_path": "/tmp/someone/small-marian"} | config  # as published folders have it
    (FOLDER / "config.json").write_text(json.dumps(named, indent=2) + "\n", encoding="utf-8")
    found = [translated(model, tokenizer, text) for text in SENTENCES]
    noted = {"transformers": transformers.__version__, "most_tokens": MOST_TOKENS, "beam": BEAM, "sentences": found}
    (FOLDER / "golden.json").write_text(json.dumps(noted, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def make_tokenizer() -> Any:
    """Learn a SentencePiece model for each side and join their pieces, as Marian's vocabularies are."""
    rules = FOLDER / "rules.tsv"
    rules.write_text("FB01\t66 69\nFF21\t41\n", encoding="utf-8")  # of the source: the usual table takes 240 kB
    pieces: dict[str, None] = {}
    for side, language, more in (
        ("source", "en", {"normalization_rule_tsv": str(rules)}),
        ("target", "de", {"normalization_rule_name": "identity"}),
    ):  # fmt: skip
        sentencepiece.SentencePieceTrainer.train(
            input=str(SAMPLE / f"tatoeba.{language}"), model_prefix=str(FOLDER / side), vocab_size=150,
            hard_vocab_limit=False, bos_id=-1, minloglevel=2, **more,
        )  # fmt: skip
        (FOLDER / f"{side}.vocab").unlink()
        (FOLDER / f"{side}.model").rename(FOLDER / f"{side}.spm")
        learnt = sentencepiece.SentencePieceProcessor(str(FOLDER / f"{side}.spm"))
        pieces |= dict.fromkeys(learnt.id_to_piece(i) for i in range(learnt.get_piece_size()))
    rules.unlink()
    ordered = ["</s>", "<unk>", *(piece for piece in pieces if piece not in ("</s>", "<unk>")), "<pad>"]
    ids = {piece: index for index, piece in enumerate(ordered)}
    (FOLDER / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    languages = {"source_lang": "en", "target_lang": "de"}
    (FOLDER / "tokenizer_config.json").write_text(json.dumps(languages) + "\n", encoding="utf-8")
    return transformers.MarianTokenizer.from_pretrained(FOLDER)


def make_model(size: int, pad: int) -> Any:
    """Make an untrained model whose every part has a say: its biases too."""
    config = transformers.MarianConfig(
        vocab_size=size, d_model=16, encoder_layers=2, decoder_layers=3, encoder_ffn_dim=24, decoder_ffn_dim=24,
        encoder_attention_heads=2, decoder_attention_heads=2, activation_function="swish", pad_token_id=pad,
        eos_token_id=0, forced_eos_token_id=None, decoder_start_token_id=pad, scale_embedding=True,
        max_position_embeddings=64, num_beams=BEAM, tie_word_embeddings=True, bad_words_ids=[[pad]],
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))  # training leaves it as it is
    return model


def train(model: Any, tokenizer: Any) -> None:
    """Learn some sentences, so that translations differ and end."""
    sides = [(SAMPLE / f"tatoeba.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "de")]
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for update in range(UPDATES):
        chosen = torch.randint(0, 200, (32,)).tolist()
        src, tgt = ([side[i] for i in chosen] for side in sides)
        batch = tokenizer(src, text_target=tgt, return_tensors="pt", padding=True)
        batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if update % 50 == 0:
            print(f"update {update}: loss {float(loss):.2f}", flush=True)


def translated(model: Any, tokenizer: Any, text: str) -> dict[str, Any]:
    """Note what a sentence is read as, what is written, and its log-probability, EOS included."""
    source = tokenizer([text], return_tensors="pt")
    found: dict[str, Any] = {"text": text, "source": tokenizer.convert_ids_to_tokens(source["input_ids"][0])}
    for name, beam in (("greedy", 1), ("beam", BEAM)):
        out = model.generate(
            **source, num_beams=beam, max_new_tokens=MOST_TOKENS, length_penalty=1.0,
            bad_words_ids=[[tokenizer.pad_token_id]], renormalize_logits=True,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        ids = [i for i in out.sequences[0, 1:].tolist() if i != tokenizer.pad_token_id]
        found[name] = tokenizer.convert_ids_to_tokens(ids)
        found[f"{name} text"] = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        steps = model.compute_transition_scores(out.sequences, out.scores, getattr(out, "beam_indices", None))
        found[f"{name} log-probability"] = round(float(steps.sum()), 5)
    print(*found["greedy"], "|", *found["beam"])
    return found


if __name__ == "__main__":
    main()
