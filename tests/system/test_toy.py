"""From text to translations by the command: tiny models of digits that are copied or reversed.

One segment learns that well in 500 updates, K = 4 has only begun in 300. Elsewhere what the command writes is compared
with what a Translator writes, right or wrong.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from recoversat import Translator
from tests.system.conftest import Run

# q = 0.1: half of the toy's sentences repeating would leave a model of this size nothing else to learn
REPEAT = ["--set", "train.repeat_prob=0.1"]
LEARN = {
    4: [*REPEAT, "--set", "train.steps=300", "--set", "train.validate_every=150"],
    1: [*REPEAT, "--set", "train.steps=500", "--set", "train.validate_every=250", "--set", "train.batch_tokens=512"],
}


@pytest.fixture(scope="module")
def trained(toy: Path, one_thread: dict[str, str]) -> dict[int, Path]:
    """K = 4 and K = 1, trained side by side on a core each."""
    runs = {k: toy / f"k{k}" for k in (4, 1)}
    base = [sys.executable, "-m", "recoversat", "train", str(toy / "corpus"), "--config", str(toy / "toy.yaml")]
    processes = [
        subprocess.Popen(
            [*base, "--out", str(run), "--set", f"train.segments={k}", *LEARN[k]],
            env=one_thread,
            stderr=subprocess.PIPE,
            text=True,
        )
        for k, run in runs.items()
    ]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    return runs


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def written(run: Path, *texts: str) -> list[str]:
    found = [one.text for one in Translator(run, device="cpu").translate(texts)]
    assert all(found)
    return found


def test_it_learns_and_needs_fewer_steps(trained: dict[int, Path], toy: Path, recoversat: Run) -> None:
    steps, bleu = {}, {}
    for k, run in trained.items():
        done = recoversat("translate", "--model", run, toy / "test.src")
        output = done.stdout.splitlines()
        bleu[k] = BLEU().corpus_score(output, [lines(toy / "test.tgt")]).score
        translations = Translator(run, device="cpu").translate(lines(toy / "test.src"))
        assert [t.text for t in translations] == output
        steps[k] = sum(t.steps for t in translations) / len(translations)
    assert bleu[1] > 50  # over 34 seeds at least 93.0; K = 4, which has only begun, at most 22.2 over 4
    assert steps[4] < 0.6 * steps[1]


def test_every_k_up_to_the_maximum_is_possible_and_more_is_refused(
    trained: dict[int, Path], toy: Path, recoversat: Run
) -> None:
    translator = Translator(trained[4], device="cpu")
    for k in (1, 2, 3):
        assert len(translator.translate(lines(toy / "test.src")[:3], segments=k)[0].segments) == k
    refused = recoversat("translate", "--model", trained[4], "--segments", 5, stdin="copy 1\n", expect=2)
    assert "this model writes 1 to 4 segments" in refused.stderr


def test_output_does_not_depend_on_the_batch(trained: dict[int, Path], toy: Path) -> None:
    texts = lines(toy / "test.src")[:40]
    for run in trained.values():
        translator = Translator(run, device="cpu")
        alone = [translator.translate([text])[0].text for text in texts]
        for batch_size in (2, 7, 40):
            assert [t.text for t in translator.translate(texts, batch_size=batch_size)] == alone
        assert [t.text for t in translator.translate(texts[::-1], batch_size=9)] == alone[::-1]


def test_lines_in_are_lines_out(trained: dict[int, Path], toy: Path, tmp_path: Path, recoversat: Run) -> None:
    text = "copy 1 2 3 4\n\nreverse 4 5 6 7\n   \n\u2028\nlast line without end"
    done = recoversat("translate", "--model", trained[1], stdin=text)
    out = done.stdout.split("\n")
    assert len(out) == 7  # six lines and what follows the last line break
    first, third = written(trained[1], "copy 1 2 3 4", "reverse 4 5 6 7")
    assert first != third
    assert (out[0], out[1], out[2], out[3]) == (first, "", third, "   ")
    (tmp_path / "in.txt").write_text(text)
    recoversat(
        "translate", "--model", trained[1], tmp_path / "in.txt", "--out", tmp_path / "out.txt", "--batch-size", 1
    )
    assert (tmp_path / "out.txt").read_text() == done.stdout


def test_texts_and_pages_keep_their_shape(trained: dict[int, Path], tmp_path: Path, recoversat: Run) -> None:
    """Spacing, line breaks, placeholders and tags come back as they were, whatever the model does."""
    text = "copy 1 2 3 4  \r\n\r\n\t{{name}} https://x.org/a?b=1 %1$s\n"
    (tmp_path / "text.txt").write_bytes(text.encode())
    done = recoversat(
        "translate", "--model", trained[1], "--format", "text", tmp_path / "text.txt", "--out", tmp_path / "o"
    )
    out = (tmp_path / "o").read_bytes().decode()
    (copied,) = written(trained[1], "copy 1 2 3 4")
    assert out.startswith(f"{copied}  \r\n\r\n\t"), done.stderr
    assert [part for part in ("{{name}}", "https://x.org/a?b=1", "%1$s") if out.count(part) == 1] == text.split()[-3:]
    page = '<p class="copy">copy 1 2 3 4</p><script>copy 1</script>'
    html = recoversat("translate", "--model", trained[1], "--format", "html", stdin=page).stdout
    assert html == f'<p class="copy">{copied}</p><script>copy 1</script>'
    both = recoversat("translate", "--model", trained[1], "--format", "html", "--jsonl", stdin=page, expect=2)
    assert "goes without" in both.stderr


def test_jsonl_keeps_what_it_does_not_know(trained: dict[int, Path], recoversat: Run) -> None:
    records = [{"id": 7, "text": "copy 1 2 3 4", "x": None}, {"text": "", "y": [1]}]
    done = recoversat(
        "translate", "--model", trained[4], "--jsonl", stdin="".join(json.dumps(record) + "\n" for record in records)
    )
    out = [json.loads(line) for line in done.stdout.splitlines()]
    (copied,) = written(trained[4], "copy 1 2 3 4")
    assert out == [records[0] | {"translation": copied}, records[1] | {"translation": ""}]
    bad = recoversat("translate", "--model", trained[4], "--jsonl", stdin='{"text": "copy 1"}\n{"txt": 1}\n', expect=1)
    assert 'line 2: expected an object with a "text"' in bad.stderr


def test_averaging_and_strangers(trained: dict[int, Path], toy: Path, tmp_path: Path, recoversat: Run) -> None:
    recoversat("average", trained[1], "--last", 2, "--out", tmp_path / "mean")
    done = recoversat("translate", "--model", tmp_path / "mean", stdin="copy 1 2 3 4\n")
    assert done.stdout.splitlines() == written(tmp_path / "mean", "copy 1 2 3 4")
    mixed = recoversat("average", trained[4] / "best", toy / "k1" / "best", "--out", tmp_path / "both")
    assert (tmp_path / "both" / "config.json").is_file(), mixed.stderr  # one shape, one vocabulary: allowed
    for wrong, message in ((tmp_path / "nowhere", "no such model folder"), (toy / "corpus", "neither a model folder")):
        refused = recoversat("translate", "--model", wrong, stdin="x\n", expect=2)
        assert message in refused.stderr
    (tmp_path / "mean" / "model.safetensors").write_bytes(b"damaged")
    damaged = recoversat("translate", "--model", tmp_path / "mean", stdin="x\n", expect=2)
    assert "damaged" in damaged.stderr


def test_a_student_starts_from_its_teacher_or_says_why_not(
    trained: dict[int, Path], toy: Path, tmp_path: Path, recoversat: Run
) -> None:
    base = ["train", toy / "corpus", "--config", toy / "toy.yaml", "--set", "train.steps=1", "--set", "train.warmup=0"]
    start = ["--set", "train.learning_rate=1e-12", "--set", "train.final_learning_rate=0", "--init-from", trained[1]]
    recoversat(*base, *start, "--out", tmp_path / "student")
    from recoversat.model.weights import read_weights

    teacher, student = read_weights(trained[1] / "best"), read_weights(tmp_path / "student" / "best")
    same = {name for name in teacher if bool((teacher[name] - student[name]).abs().max() < 1e-6)}
    assert {name for name in teacher if name.startswith(("encoder.", "embedding."))} <= same
    assert not any(name.endswith("qkv.weight") and name.startswith("decoder.") for name in same)
    wider = ["--set", "model.d_hidden=130", "--init-from", trained[1], "--out", tmp_path / "wide"]
    assert "this model needs (130, 64)" in recoversat(*base, *wider, expect=2).stderr
    shorter = ["--src", toy / "valid.src", "--tgt", toy / "valid.tgt", "--config", toy / "toy.yaml"]
    recoversat("prepare", *shorter, "--out", tmp_path / "other", "--set", "data.vocab_size=16")
    other = ["train", tmp_path / "other", *base[2:], "--init-from", trained[1], "--out", tmp_path / "foreign"]
    assert "its vocabulary is not that of" in recoversat(*other, expect=2).stderr


def test_help_has_an_example_for_every_verb(recoversat: Run) -> None:
    help_text = recoversat("--help").stdout
    for verb in (
        "prepare",
        "train",
        "translate",
        "average",
        "distill",
        "score",
        "fit",
        "evaluate",
        "sweep",
        "export",
        "serve",
    ):
        assert verb in help_text
        assert "Example:" in recoversat(verb, "--help").stdout
