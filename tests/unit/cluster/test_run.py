"""Runs in this process: keys, shares, what is skipped, what is set aside, what stops everything, what merge says."""

import errno
import os
import signal
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from recoversat.cluster import run, shards, translating
from recoversat.cluster.crew import Crew, parse_resources, parse_share
from recoversat.cluster.manifest import Manifest, plan, read_manifest
from recoversat.cluster.run import merge
from recoversat.cluster.shards import Shard, Worker
from recoversat.cluster.translating import ModelGuard, read_result, shard_translator, write_result
from recoversat.errors import UserError
from recoversat.files import storage
from recoversat.files.model_folder import model_fingerprint
from recoversat.pipeline.options import TranslateOptions
from recoversat.show.progress import LineBar
from recoversat.translator import WINDOW

SETTINGS = {"model": "made up", "jsonl": False}


@dataclass
class Shouting:
    """Makes workers that translate into capitals and remember what they did; some words are too much for them."""

    done: list[str]
    fails_at: str = ""
    failures: int = 99
    signalled_at: str = ""

    def __call__(self) -> Worker:
        return shard_translator(self.translate, lambda: None, jsonl=False)

    def translate(self, texts: list[str]) -> list[str]:
        if self.fails_at in texts and self.failures > 0:
            self.failures -= 1
            raise RuntimeError("too much for me")
        if self.signalled_at in texts:
            signal.raise_signal(signal.SIGINT)
        self.done += texts
        return [text.upper() for text in texts]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_text("".join(f"line {number}\n" for number in range(25)))
    return path


def planned(text: Path, **settings: object) -> Manifest:
    return plan(text.parent / "out", [text], SETTINGS | settings, 4)


def work_off(manifest: Manifest, load: Shouting, crew: Crew | None = None) -> None:
    run.work_off("test", list(manifest.shards()), load, crew or Crew(), state=manifest.run)


def test_a_run_that_is_continued_does_nothing_twice(text: Path) -> None:
    manifest, load = planned(text), Shouting([], fails_at="line 9")
    with pytest.raises(UserError, match=r"(?s)1 shards were set aside.*in, lines 9-12: .*too much for me"):
        work_off(manifest, load)
    assert load.failures == 99 - shards.MAX_TRIES
    assert load.done == [f"line {number}" for number in (*range(8), *range(12, 25))]  # all others, once each
    with pytest.raises(UserError, match=r"(?s)1 of 7 shards are missing.*lines 9-12 .*set aside.*too much for me"):
        merge(manifest)
    load.fails_at = ""
    work_off(planned(text), load)
    assert sorted(load.done) == sorted(f"line {number}" for number in range(25))
    assert merge(manifest) == {manifest.out / "in": 0}
    assert (manifest.out / "in").read_text() == text.read_text().upper()
    assert "sentences_done 25\n" in (manifest.run / "metrics.prom").read_text()
    assert not list((manifest.run / shards.SET_ASIDE).iterdir())


def test_what_fails_twice_is_done_in_the_end(text: Path) -> None:
    work_off(planned(text), load := Shouting([], fails_at="line 9", failures=2))
    assert load.done[-4:] == ["line 8", "line 9", "line 10", "line 11"]  # behind all others


def test_shares_are_all_of_it_and_nothing_twice(text: Path) -> None:
    load = Shouting([])
    for number in (3, 1, 2):
        work_off(planned(text), load, Crew(share=(number, 3)))
    assert sorted(load.done) == sorted(f"line {number}" for number in range(25))
    merge(planned(text))
    assert (text.parent / "out" / "in").read_text() == text.read_text().upper()


def test_a_damaged_line_takes_only_its_shard_with_it_and_once_repaired_only_that_is_done(text: Path) -> None:
    whole = text.read_bytes()
    text.write_bytes(whole.replace(b"line 13\n", b"line \xff\xff\n"))
    load = Shouting([])
    with pytest.raises(UserError, match="in, line 14: not UTF-8"):
        work_off(planned(text), load)
    assert len(load.done) == 25 - 4
    (said,) = (text.parent / "out" / "run" / shards.SET_ASIDE).iterdir()
    assert storage.read_json(said, "record")["tries"] == 1  # more would not help
    text.write_bytes(whole)
    os.utime(text, ns=(1, 1))
    work_off(manifest := planned(text), load)
    assert sorted(load.done) == sorted(f"line {number}" for number in range(25))
    merge(manifest)


def test_a_full_disk_stops_the_run_and_leaves_nothing_half(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, load = planned(text), Shouting([])
    real = os.replace

    def replace(scratch: Path, final: Path) -> None:
        if str(final).endswith(".gz") and len(load.done) > 12:
            raise OSError(errno.ENOSPC, "No space left on device", str(final))
        real(scratch, final)

    monkeypatch.setattr(storage.os, "replace", replace)
    with pytest.raises(UserError, match=r"the disk is full.*3 of 7 shards are done; the same command continues"):
        work_off(manifest, load)
    assert len(load.done) == 16  # it was noticed at once
    assert not list(manifest.run.rglob("*.partial"))
    monkeypatch.undo()
    del load.done[12:]
    work_off(manifest, load)
    assert load.done == [f"line {number}" for number in range(25)]


def test_ctrl_c_finishes_what_was_begun(text: Path) -> None:
    manifest, load = planned(text), Shouting([], signalled_at="line 5")
    with pytest.raises(UserError, match=r"stopped\. 2 of 7 shards are done"):
        work_off(manifest, load)
    assert len(load.done) == 8


def test_keys_depend_on_text_model_and_settings_and_on_nothing_else(text: Path, tmp_path: Path) -> None:
    def keys(path: Path, out: str, **settings: object) -> list[str]:
        return [s.key for s in plan(tmp_path / out, [path], SETTINGS | settings, 4).shards()]

    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "copy"
    copy.write_bytes(text.read_bytes())
    first = keys(text, "1")
    assert len(set(first)) == 7
    assert keys(copy, "2") == first
    assert not set(keys(text, "3", model="another")) & set(first)
    assert not set(keys(text, "4", beam=4)) & set(first)
    copy.write_text(copy.read_text().replace("line 24", "line 42"))
    assert keys(copy, "2")[:6] == first[:6]
    assert keys(copy, "2")[6] != first[6]
    with pytest.raises(UserError, match=r"(?s)another model; write elsewhere.*model: made up -> another"):
        keys(text, "1", model="another")


def test_a_file_that_did_not_change_is_not_read_again(text: Path) -> None:
    first = planned(text)
    state = text.stat()
    text.write_text(text.read_text().replace("line 1\n", "LINE 1\n"))
    os.utime(text, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert planned(text).files == first.files
    os.utime(text)
    assert planned(text).files != first.files


def test_damage_to_results_is_noticed(text: Path) -> None:
    manifest = planned(text)
    work_off(manifest, Shouting([]))
    result = list(manifest.shards())[2].result
    assert read_result(result) == [f"LINE {number}" for number in range(8, 12)]
    whole = result.read_bytes()
    for damaged in (whole[:-9], whole[:20] + b"x" + whole[21:], storage.gzip.compress(b"LINE 8\n")):
        result.write_bytes(damaged)
        with pytest.raises(UserError, match="remove it and start the run again"):
            merge(manifest)
        assert not (manifest.out / "in").exists()


@pytest.mark.parametrize("jsonl", [False, True])
@pytest.mark.parametrize("lines", [0, 3, 5])
def test_a_result_with_another_number_of_lines_is_not_merged(tmp_path: Path, lines: int, jsonl: bool) -> None:
    path = tmp_path / "in"
    path.write_text("".join(f'{{"text": "line {number}"}}\n' for number in range(9)))
    manifest = plan(tmp_path / "out", [path], SETTINGS | {"jsonl": jsonl}, 4)
    for shard in manifest.shards():
        write_result(shard.result, ["x"] * shard.sentences)
    write_result(list(manifest.shards())[1].result, ["x"] * lines)
    with pytest.raises(UserError, match=rf"{lines} lines for in, lines 5-8; remove it and start the run again"):
        merge(manifest)
    assert not (manifest.out / "in").exists()


@pytest.mark.parametrize(("shard_size", "windows"), [(1, 1), (2 * WINDOW, 1), (2 * WINDOW + 1, 2), (5 * WINDOW, 3)])
def test_shards_end_where_windows_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard_size: int, windows: int
) -> None:
    """A run writes what one translator writes: its shards cut no window of sentences that are batched together."""
    window = 2 * WINDOW
    (tmp_path / "in").write_text("".join(f"line {number}\n" for number in range(4 * window + 3)))
    monkeypatch.setattr(run, "load_translator", lambda *_: Shouting([])())
    asked = TranslateOptions(
        [tmp_path / "in"], source="en", target="de", device="cpu", batch_size=2, shard_size=shard_size
    )
    run.translate_corpus(asked, tmp_path / "out", Crew())
    (file,) = read_manifest(tmp_path / "out").files
    assert [part.first for part in file.parts] == list(range(0, 4 * window + 3, windows * window))
    assert (tmp_path / "out" / "in").read_text() == (tmp_path / "in").read_text().upper()


def test_the_same_text_is_translated_once(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a\nb\n" * 10)
    manifest = plan(tmp_path / "out", [tmp_path / "in"], SETTINGS, 2)
    work_off(manifest, load := Shouting([]))
    assert load.done == ["a", "b"]
    assert "run_sentences 2\n" in (manifest.run / "metrics.prom").read_text()
    merge(manifest)
    assert (tmp_path / "out" / "in").read_text() == "A\nB\n" * 10


def test_names_that_would_collide_are_refused(text: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "in").write_text("a\n")
    with pytest.raises(UserError, match="two inputs are called in"):
        plan(tmp_path / "out", [text, tmp_path / "other" / "in"], SETTINGS, 4)
    with pytest.raises(UserError, match="is an input: write to another folder"):  # before any work
        plan(tmp_path, [text], SETTINGS, 4)
    assert not (tmp_path / "run").exists()
    manifest = replace(plan(tmp_path / "out", [text], SETTINGS, 4), out=tmp_path)
    work_off(manifest, Shouting([]))
    with pytest.raises(UserError, match="is an input: write to another folder"):
        merge(manifest)
    assert text.read_text().startswith("line 0\n")


def test_a_model_that_changes_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights").write_bytes(b"before")
    guard = ModelGuard(tmp_path, model_fingerprint(tmp_path))
    guard.check()
    (tmp_path / "README.md").write_text("A card is no part of it.")
    guard.check()
    (tmp_path / "weights").write_bytes(b"after")
    with pytest.raises(shards.RunStoppedError, match="not the one this run began with"):
        guard.check()
    (tmp_path / "weights").write_bytes(b"before")
    guard.check()
    monkeypatch.setattr(translating, "model_fingerprint", None)
    guard.check()  # what looks the same is not read again


def test_nothing_is_kept_that_a_changed_model_wrote(text: Path) -> None:
    def check() -> None:
        raise shards.RunStoppedError("another model")

    manifest, worker = planned(text), shard_translator(lambda texts: texts, check, jsonl=False)
    with pytest.raises(UserError, match=r"another model\. 0 of 7 shards are done"):
        run.work_off("test", list(manifest.shards()), lambda: worker, Crew(), state=manifest.run)
    assert not any(shard.is_done for shard in manifest.shards())


def test_two_runs_never_work_in_one_folder(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "held", partial(storage.held, patience=0))
    asked, out = TranslateOptions([text], source="en", target="de", device="cpu", shard_size=512), text.parent / "out"
    with storage.held(out / "run", ""), pytest.raises(UserError, match="another run is at work here"):
        run.translate_corpus(asked, out, Crew())


@pytest.mark.parametrize("wrong", ["0/3", "4/3", "1", "a/b", "1/3/5"])
def test_shares_that_do_not_exist_are_refused(wrong: str) -> None:
    with pytest.raises(UserError, match="--shard"):
        parse_share(wrong)


@pytest.mark.parametrize("wrong", ["", "2", "cpus=0", "cpus=2 gpus=1", "gpus=-1", "tpus=1"])
def test_resources_that_do_not_exist_are_refused(wrong: str) -> None:
    with pytest.raises(UserError, match="--per-worker"):
        parse_resources(wrong)


def test_other_clusters_are_refused() -> None:
    with pytest.raises(UserError, match="there is ray"):
        Crew.of(1, "dask", None, None)
    assert Crew.of(2, None, None, None).ray
    assert Crew.of(1, "ray=1.2.3.4:6379", None, None).address == "1.2.3.4:6379"
    assert not Crew.of(1, None, None, "1/2").ray


def test_a_shard_that_somebody_else_has_done_meanwhile_is_skipped(tmp_path: Path) -> None:
    two = [Shard(str(n), f"shard {n}", 1, tmp_path / str(n)) for n in (1, 2)]
    todo = shards.WorkList(two, LineBar("test", 2, 0), tmp_path)
    two[0].result.touch()
    assert todo.next() == two[1]
