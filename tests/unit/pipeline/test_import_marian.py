"""An imported MarianMT model writes what transformers writes; what cannot be imported is refused with the fix.

`tests/data/marian` holds a small model and what transformers wrote with it (`make.py`).
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from recoversat.config import Config
from recoversat.data.corpus import open_corpus
from recoversat.data.prepare import TextPairs, prepare
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.engine import Engine, Options
from recoversat.engines.torch.engine import TorchEngine
from recoversat.errors import UserError
from recoversat.export.folder import load_original
from recoversat.files.model_folder import read_config
from recoversat.model.transformer import Transformer
from recoversat.model.weights import load_model, read_weights
from recoversat.pipeline.distill import distill
from recoversat.pipeline.import_marian import import_marian
from recoversat.pipeline.options import DistillOptions
from recoversat.text.tokenizer import MarianTokenizer, load_tokenizer
from recoversat.training.loop import start_point, train
from recoversat.translator import Translator
from recoversat.vocab import DEL, EOS, SPECIAL_PIECES, UNK

DATA = Path(__file__).parents[2] / "data"
ORIGINAL = DATA / "marian"
GOLDEN: dict[str, Any] = json.loads((ORIGINAL / "golden.json").read_text(encoding="utf-8"))
SENTENCES: list[dict[str, Any]] = GOLDEN["sentences"]
TEXTS = [one["text"] for one in SENTENCES]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "teacher"
    import_marian(ORIGINAL, out)
    return out


@pytest.fixture(params=["torch", "graphs"])
def engine(request: pytest.FixtureRequest, teacher: Path) -> Engine:
    model, _ = load_model(teacher)
    assert isinstance(model, Transformer)
    return TorchEngine(model, CPU) if request.param == "torch" else GraphEngine(model, CPU, torch.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the original that a test may spoil."""
    copy = tmp_path / "original"
    shutil.copytree(ORIGINAL, copy)
    return copy


def options() -> Options:
    return Options(length_penalty=1.0, as_transformers=True, limits=np.full(len(TEXTS), GOLDEN["most_tokens"]))


def test_text_is_read_and_spelt_as_transformers_does(teacher: Path) -> None:
    tokenizer = load_tokenizer(teacher)
    ids = tokenizer.encode(TEXTS)
    assert [tokenizer.pieces(line) for line in ids] == [one["source"] for one in SENTENCES]
    assert any(UNK in line for line in ids)
    known = {piece: index for index, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}
    written = [[known[piece] for piece in one["greedy"]] for one in SENTENCES]
    assert [tokenizer.decode(line) for line in written] == [one["greedy text"] for one in SENTENCES]


def test_many_lines_are_read_as_few(teacher: Path) -> None:
    tokenizer = load_tokenizer(teacher)
    assert tokenizer.encode(TEXTS * 10) == tokenizer.encode(TEXTS) * 10


def test_text_cannot_spell_special_tokens(teacher: Path) -> None:
    tokenizer = load_tokenizer(teacher)
    (ids,) = tokenizer.encode(["</s> <pad> <del>"])
    assert ids[-1] == EOS
    assert not {EOS, DEL} & set(ids[:-1])
    assert tokenizer.encode(["", " "]) == [[], []]


def test_targets_are_split_by_their_own_model(teacher: Path) -> None:
    tokenizer = load_tokenizer(teacher)
    (source,), (target,) = tokenizer.encode(["Ich habe nichts."]), tokenizer.encode_targets(["Ich habe nichts."])
    assert tokenizer.pieces(source)[:-1] != tokenizer.pieces(target)
    assert tokenizer.decode(target) == "Ich habe nichts."
    assert EOS not in target


def test_a_saved_tokenizer_is_the_same(teacher: Path, tmp_path: Path) -> None:
    load_tokenizer(teacher).save(tmp_path)
    assert load_tokenizer(tmp_path).encode(TEXTS) == load_tokenizer(teacher).encode(TEXTS)
    (tmp_path / "target.spm").unlink()
    with pytest.raises(UserError, match=r"damaged tokenizer .*target.spm.*import the model again"):
        load_tokenizer(tmp_path)


def test_greedy_output_is_that_of_transformers(engine: Engine, teacher: Path) -> None:
    tokenizer = load_tokenizer(teacher)
    got = engine.decode(tokenizer.encode(TEXTS), np.ones(len(TEXTS), np.int64), options())
    assert [tokenizer.pieces(one.segments[0]) for one in got] == [one["greedy"] for one in SENTENCES]
    sums = [sum(one.log_probs[0]) for one in got]
    np.testing.assert_allclose(sums, [one["greedy log-probability"] for one in SENTENCES], atol=2e-3)


def test_beam_search_is_that_of_transformers(engine: Engine, teacher: Path) -> None:
    tokenizer = load_tokenizer(teacher)
    got = engine.search(tokenizer.encode(TEXTS), GOLDEN["beam"], options())
    assert [tokenizer.pieces(one.segments[0]) for one in got] == [one["beam"] for one in SENTENCES]
    sums = [sum(one.log_probs[0]) for one in got]
    np.testing.assert_allclose(sums, [one["beam log-probability"] for one in SENTENCES], atol=2e-3)


def test_what_a_beam_of_transformers_wrote_is_as_likely_here(engine: Engine, teacher: Path) -> None:
    tokenizer = load_tokenizer(teacher)
    known = {piece: index for index, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}
    ended = [one for one in SENTENCES if one["beam"][-1] == "</s>"]
    assert len(ended) >= 4
    targets = [[known[piece] for piece in one["beam"][:-1]] for one in ended]
    scored = engine.score(list(zip(tokenizer.encode([one["text"] for one in ended]), targets, strict=True)))
    sums = [sum(one.log_probs[0]) for one in scored]
    np.testing.assert_allclose(sums, [one["beam log-probability"] for one in ended], atol=2e-3)


def test_a_whole_translator_runs_it(teacher: Path) -> None:
    translator = Translator(teacher, device="cpu")
    assert (translator.source, translator.target) == ("en", "de")
    assert translator.translate(TEXTS[:1])[0].text == SENTENCES[0]["greedy text"]


def test_what_is_noted_with_an_imported_model(teacher: Path) -> None:
    config, facts = read_config(teacher)
    assert facts["derived from"] == "someone/small-marian"
    assert (config.decode.beam_rule, config.decode.beam) == ("transformers", 4)
    assert (config.decode.length_penalty, config.train.segment_choices, config.model.max_segments) == (1.0, [1], 1)
    weights = read_weights(teacher)
    assert not weights["embedding.weight"][DEL].any()
    assert not weights["segment_embedding.weight"].any()


@pytest.mark.parametrize("half", [False, True])
def test_pickled_weights_are_the_same(folder: Path, teacher: Path, tmp_path: Path, half: bool) -> None:
    weights = load_file(folder / "model.safetensors")
    weights |= {
        f"model.{side}.embed_tokens.weight": weights["model.shared.weight"] for side in ("encoder", "decoder")
    } | {"lm_head.weight": weights["model.shared.weight"]}
    (folder / "model.safetensors").unlink()
    torch.save({name: one.half() if half else one for name, one in weights.items()}, folder / "pytorch_model.bin")
    import_marian(folder, tmp_path / "again")
    for name, tensor in read_weights(tmp_path / "again").items():
        torch.testing.assert_close(tensor, read_weights(teacher)[name], rtol=1e-3 * half, atol=1e-6 * half)


def test_it_distils_and_starts_students(teacher: Path, tmp_path: Path) -> None:
    for name in ("tatoeba.en", "tatoeba.de"):
        lines = (DATA / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[:40]), encoding="utf-8")
    config, _ = read_config(teacher)
    pairs = TextPairs(tmp_path / "tatoeba.en", tmp_path / "tatoeba.de")
    prepare(pairs, tmp_path / "corpus", config.data, tokenizer_from=teacher, quiet=True)
    corpus, out = open_corpus(tmp_path / "corpus"), tmp_path / "distilled"
    assert all(corpus.train.src[i][-1] == EOS for i in range(len(corpus.train)))
    assert not any(EOS in corpus.train.tgt[i] for i in range(len(corpus.train)))
    distill(DistillOptions(teacher, tmp_path / "corpus", out, beam=2, device="cpu", quiet=True))
    settings = config.model_dump()
    settings["model"]["max_segments"] = 4
    settings["train"] |= {"steps": 2, "segments": 3, "batch_tokens": 64, "workers": 0, "tensorboard": False}
    student = Config.model_validate(settings)
    train(student, open_corpus(out), tmp_path / "run", start_from=start_point(teacher, True), device="cpu", quiet=True)
    weights, first = read_weights(tmp_path / "run" / "checkpoints" / "step-00000002"), read_weights(teacher)
    assert torch.allclose(weights["output_bias"], first["output_bias"], atol=0.01)
    assert weights["output_bias"][EOS] != first["output_bias"][EOS]  # it learns too
    plain = Config.model_validate(settings | {"model": settings["model"] | {"norm": "before"}})
    with pytest.raises(UserError, match=r"its model.norm is after, this model's before; add --set model.norm=after"):
        train(plain, open_corpus(out), tmp_path / "no", start_from=start_point(teacher), device="cpu", quiet=True)


def test_imported_layers_are_not_exported(teacher: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be exported; train a student"):
        load_original(teacher)


def test_a_licence_goes_with_the_model(folder: Path, tmp_path: Path) -> None:
    assert "has no licence file" in import_marian(folder, tmp_path / "none").warnings[0]
    (folder / "LICENSE.txt").write_text("CC BY 4.0", encoding="utf-8")
    assert import_marian(folder, tmp_path / "with").warnings == []
    assert (tmp_path / "with" / "original-LICENSE.txt").read_text(encoding="utf-8") == "CC BY 4.0"
    assert read_config(tmp_path / "with")[1]["original licence"] == "LICENSE.txt"


def changed(path: Path, **values: Any) -> None:
    """Change keys of a JSON file; None takes one out."""
    noted = json.loads(path.read_text(encoding="utf-8")) | values
    path.write_text(json.dumps({key: one for key, one in noted.items() if one is not None}), encoding="utf-8")


def weights_changed(folder: Path, **values: torch.Tensor | None) -> None:
    weights: dict[str, Any] = load_file(folder / "model.safetensors") | values
    save_file({name: one for name, one in weights.items() if one is not None}, folder / "model.safetensors")


def multilingual(folder: Path) -> None:
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    pieces = sorted(ids, key=lambda piece: int(ids[piece]))
    for place, code in ((20, ">>fra<<"), (21, ">>ita<<")):
        del ids[pieces[place]]
        ids[code] = place
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")


def test_a_multilingual_model_takes_a_target_token(folder: Path, tmp_path: Path) -> None:
    multilingual(folder)
    import_marian(folder, tmp_path / "out", target_token="fra")
    tokenizer = load_tokenizer(tmp_path / "out")
    assert isinstance(tokenizer, MarianTokenizer)
    (ids,) = tokenizer.encode(["Let's go."])
    assert tokenizer.pieces(ids[:1]) == [">>fra<<"]
    assert not tokenizer.decode(ids).startswith(">>")
    assert tokenizer.encode([""]) == [[]]
    assert read_config(tmp_path / "out")[0].data.languages == "en -> fra"
    for asked, told in ((None, "add --target-token, one of fra, ita"), ("fre", "no >>fre<<; did you mean fra?")):
        with pytest.raises(UserError, match=told):
            import_marian(folder, tmp_path / "no", target_token=asked)
    with pytest.raises(UserError, match="one target language and no such tokens; leave it out"):
        import_marian(ORIGINAL, tmp_path / "no", target_token="fra")


def damaged_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"PK\3\4 not a pickle")


def pickle_with_code(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Path("anything")}, folder / "pytorch_model.bin")


Spoil = Callable[[Path], object]
ZEROS = torch.zeros(4, 16)
SPOILT: dict[str, tuple[Spoil, str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), r"MarianMT model \(config.json is missing\)"),
    "another kind": (lambda f: changed(f / "config.json", model_type="bart"), "model_type 'bart', not 'marian'"),
    "ours": (lambda f: changed(f / "config.json", model_type=None, format="recoversat-1"), "recoversat already"),
    "learnt positions": (lambda f: changed(f / "config.json", static_position_embeddings=False), "only True"),
    "heads differ": (lambda f: changed(f / "config.json", decoder_attention_heads=4), "decoder_attention_heads differ"),
    "gelu": (lambda f: changed(f / "config.json", activation_function="gelu"), "activation 'gelu' is not known"),
    "no pieces": (lambda f: (f / "target.spm").unlink(), "target.spm is missing"),
    "damaged pieces": (lambda f: (f / "source.spm").write_bytes(b"no"), "damaged source.spm"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors or pytorch_model.bin is missing"),
    "damaged weights": (lambda f: (f / "model.safetensors").write_bytes(b"no"), "model.safetensors: damaged"),
    "damaged pickle": (damaged_pickle, "pytorch_model.bin: damaged, or holds more than weights"),
    "pickle with code": (pickle_with_code, "could run code"),
    "ids too large": (lambda f: changed(f / "vocab.json", more=100_000), "vocab.json: does not fit config.json"),
    "ids twice": (lambda f: changed(f / "vocab.json", more=7), "two pieces have the same id"),
    "no unk": (lambda f: changed(f / "vocab.json", **{"<unk>": None}), "<unk> and </s>"),
    "another end": (lambda f: changed(f / "config.json", eos_token_id=5), "does not fit config.json"),
    "another start": (lambda f: changed(f / "config.json", decoder_start_token_id=0), "decoder_start_token_id is not"),
    "no language": (lambda f: (f / "tokenizer_config.json").unlink(), "add --from and --to"),
    "a layer missing": (lambda f: changed(f / "config.json", encoder_layers=9), "layers.2.self_attn.q_proj.weight is"),
    "a layer more": (lambda f: changed(f / "config.json", encoder_layers=1), "hold model.encoder.layers.1"),
    "another width": (lambda f: changed(f / "config.json", encoder_ffn_dim=8, decoder_ffn_dim=8), "asks for"),
    "another embedding": (lambda f: weights_changed(f, **{"model.shared.weight": ZEROS}), "vocab.json and config.json"),
    "not shared": (lambda f: weights_changed(f, **{"lm_head.weight": ZEROS}), "lm_head.weight differs"),
    "infinite": (lambda f: weights_changed(f, **{"lm_head.weight": ZEROS / 0}), "else than finite numbers"),
    "other positions": (
        lambda f: weights_changed(f, **{"model.encoder.embed_positions.weight": torch.ones(64, 16)}),
        "learnt positions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_what_cannot_be_imported_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    spoil, told = SPOILT[name]
    spoil(folder)
    with pytest.raises(UserError, match=told):
        import_marian(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_languages_that_are_asked_for_win(folder: Path, tmp_path: Path) -> None:
    import_marian(folder, tmp_path / "out", source="sco", target="nds")
    assert read_config(tmp_path / "out")[0].data.languages == "sco -> nds"
    with pytest.raises(UserError, match="exists"):
        import_marian(folder, tmp_path / "out")
    assert list(SPECIAL_PIECES) == load_tokenizer(tmp_path / "out").pieces(range(len(SPECIAL_PIECES)))
