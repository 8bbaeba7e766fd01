"""Small faults that a test must notice: `make mutants` puts them in one at a time and names those that live.

A fault goes into a copy of src/, and only the tests beside it run. `python tests/mutants.py WORD` takes those with
WORD in their name. A fault is stale when its old text is gone, or when no test can run with it: write it anew.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Edit(NamedTuple):
    """A change of one file below src/recoversat; the old text stands there once."""

    file: str
    old: str
    new: str


class Fault(NamedTuple):
    """What is wrong, the tests below tests/ of which one must fail, and the edits that make it wrong."""

    name: str
    tests: str
    edits: list[Edit]


def fault(name: str, tests: str, *edits: tuple[str, str, str]) -> Fault:
    return Fault(name, tests, [Edit(*edit) for edit in edits])


# fmt: off
FAULTS = [
    # files
    fault("a .po file's fuzzy guesses are overwritten", "unit/text/documents/test_po.py",
          ("text/documents/po.py", "if place is None or not place.text:", "if True:")),
    fault("plural forms of .po are always two", "unit/text/documents/test_po.py",
          ("text/documents/po.py", "for n in range(count):", "for n in range(2):")),
    fault("Markdown escapes nothing", "unit/text/documents/test_markdown.py",
          ("text/documents/markdown.py", "escaped = character in _ESCAPED or", "escaped = False and")),
    fault("a link named by its text loses its name", "unit/text/documents/test_markdown.py",
          ("text/documents/markdown.py", 'if raw in ("]", "][]") else ""', 'if raw == "?" else ""')),
    fault("times within a line of .vtt are lost", "unit/text/documents/test_vtt.py",
          ("text/documents/vtt.py", 'translation = _HIDDEN_TIME.sub(r"<\\1>", translation)', "pass")),
    fault("formats of Word runs are not told apart", "unit/text/documents/test_office.py",
          ("text/documents/docx.py", "if format != _key(self._bases[-1]):", "if False:")),
    fault("page numbers of Word are translated", "unit/text/documents/test_office.py",
          ("text/documents/docx.py", "if seen is None or not code", "if seen is None or False and code")),
    fault("spaces of .odt are not seen", "unit/text/documents/test_office.py",
          ("text/documents/odt.py", 'etree.SubElement(node, f"{_TEXT}s"', 'etree.SubElement(node, f"{_TEXT}x"')),
    fault("a memory's own translations are replaced", "unit/text/documents/test_office.py",
          ("text/documents/tmx.py", "(there is None or not", "(True or not")),
    fault("XML may declare entities", "unit/text/documents/test_office.py",
          ("text/documents/xml_nodes.py", 'if b"<!ENTITY" in source.replace(b"\\0", b""):', "if False:"),
          ("text/documents/xml_nodes.py", "if dtd is not None and any", "if False and any")),
    fault("zip bombs are unpacked", "unit/text/documents/test_office.py",
          ("text/documents/packages.py", "if size > min(", "if size > max(10**12, ")),
    fault("files are held for ever", "unit/serve/test_serve_files.py",
          ("serve/http/files.py", "if file.until > now}", "if True}")),
    fault("a client may have any number of files translated", "unit/serve/test_serve_files.py",
          ("serve/http/files.py", "self._busy[address] >= _UPLOADS_OF_ONE", "False")),
    fault("a file counts as one request", "unit/serve/test_serve_files.py",
          ("serve/http/files.py", "client = admit(cost)", "client = admit(1)")),
    # rules for texts
    fault("a text rule: protected text is not missed", "unit/inference/repairs/test_keep_protected.py",
          ("inference/repairs/keep_protected.py", "return bool(watched) and not", "return False and not")),
    fault("a text rule: what was masked stays masked", "unit/inference/repairs/test_keep_protected.py",
          ("inference/repairs/keep_protected.py", "source=source) for one", "source=one.source) for one")),
    fault("a text rule: runs of blanks are not put back", "unit/inference/repairs/test_keep_spacing.py",
          ("inference/repairs/keep_spacing.py", "if _has_runs(given) else translation", "if False else translation")),
    fault("a text rule: sentences are not split", "unit/inference/repairs/test_split_sentences.py",
          ("inference/repairs/split_sentences.py", "if len(spans) > 1 else None", "if len(spans) > 9 else None")),
    fault("a text rule: numbers are not checked at a named K", "unit/inference/repairs/test_check_numbers.py",
          ("inference/repairs/check_numbers.py", "return _wrong(draft) > 0",
           "return _wrong(draft) > 0 and not isinstance(self.request.segments, int)")),
    fault("a text rule: made-up numbers stay", "unit/inference/repairs/test_check_numbers.py",
          ("inference/repairs/check_numbers.py", '_NUMBER.sub("", draft.text)', "draft.text")),
    fault("a text rule: any decimal is a quantity", "unit/inference/repairs/test_localize_numbers.py",
          ("text/numbers.py", 'return language == "de" or _SEPARATORS["en"][0] in number or is_amount', "return True")),
    fault("a text rule: quotes are paired blindly", "unit/inference/repairs/test_one_quote_style.py",
          ("inference/repairs/one_quote_style.py", "if not paired or glued or", "if len(marks) % 2 or")),
    fault("a text rule: any two lines are a paragraph", "unit/text/test_wrapping.py",
          ("text/wrapping.py", "return 3 * goes_on >= len(nexts) and 2 * open_ends > len(nexts)", "return True")),
    fault("a text rule: notranslate does not hold for attributes", "unit/text/documents/test_attributes.py",
          ("text/documents/attributes.py", 'if is_untranslated(opening["attributes"]):', "if False:")),
    fault("a text rule: lang is set whatever it was", "unit/text/documents/test_attributes.py",
          ("text/documents/attributes.py", 'in ("lang", "xml:lang") and same', 'in ("lang", "xml:lang")')),
    # segments
    fault("m is drawn from [1, len - 1]", "unit/test_segments.py",
          ("segments.py",
           "take_along_axis(division.length, chosen, 1)).ast",
           "take_along_axis((division.length - 1).clip(1), chosen, 1)).ast")),
    fault("the first segment is always the one repeated", "unit/test_segments.py",
          ("segments.py", "pick = (draws[:, _DRAW_WHICH] * filled.sum(axis=1))", "pick = (0 * filled.sum(axis=1))")),
    fault("p is ignored unless 1", "unit/test_segments.py",
          ("segments.py", "draws[:, _DRAW_RANDOM] < random_prob", "draws[:, _DRAW_RANDOM] < int(random_prob)")),
    fault("the repetition uses p's draw", "unit/test_segments.py",
          ("segments.py", "draws[:, _DRAW_REPEAT] < repeat_prob", "draws[:, _DRAW_RANDOM] < repeat_prob")),
    fault("which segment and how much of it are one draw", "unit/test_segments.py",
          ("segments.py", "draws[:, _DRAW_COPIED, None]", "draws[:, _DRAW_WHICH, None]")),
    fault("a random cut never falls at the end", "unit/test_segments.py",
          ("segments.py", "eligible = places <= lengths[:, None]", "eligible = places < lengths[:, None]")),
    fault("with a repetition there are K + 1 segments", "unit/test_segments.py",
          ("segments.py", "parts = n_segments - repeats", "parts = n_segments - 0 * repeats")),
    # data
    fault("a sentence is divided alike in all epochs", "unit/data/test_batching.py",
          ("data/batching.py",
           "uniforms(self.config.seed * 2 + _DIVIDE, epoch,",
           "uniforms(self.config.seed * 2 + _DIVIDE, 0,")),
    fault("order and division share their draws", "unit/data/test_batching.py",
          ("data/batching.py", "_SHUFFLE, _DIVIDE = 0, 1", "_SHUFFLE, _DIVIDE = 1, 1")),
    fault("K and p share a draw", "unit/data/test_batching.py",
          ("data/batching.py",
           "self.config.repeat_prob, draws[:, 1:], may_cut)",
           "self.config.repeat_prob, draws, may_cut)")),
    # model
    fault("sines and cosines in halves, everywhere", "parity/test_transformer.py unit/engines/onnx/test_onnx_engine.py",
          ("model/attention.py",
           "torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)",
           "torch.cat([angles.sin(), angles.cos()], dim=-1)"),
          ("engines/onnx/stepper.py",
           "np.stack([np.sin(angles), np.cos(angles)], axis=-1)",
           "np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)")),
    fault("no dropout on the decoder's input", "parity/test_transformer.py",
          ("model/transformer.py",
           "return self.dropout(self._embed(tokens) + position)",
           "return self._embed(tokens) + position")),
    fault("dropout on what passes by a sub-layer", "parity/test_transformer.py",
          ("model/layers.py",
           "        x = x + self.dropout(self.cross_attention(self.cross_norm(x), key, value, memory_allowed))",
           "        x = self.dropout(x + self.cross_attention(self.cross_norm(x), key, value, memory_allowed))")),
    fault("a row does not see its own step", "parity/test_transformer.py",
          ("model/transformer.py", "steps[:, None, None, :] <= steps", "steps[:, None, None, :] < steps")),
    fault("attention takes the dropout of sub-layers", "parity/test_transformer.py",
          ("model/layers.py",
           "config.n_heads, config.attention_dropout)\n        self.cross_norm",
           "config.n_heads, config.dropout)\n        self.cross_norm")),
    fault("weights begin ten times as large", "parity/test_transformer.py unit/model/test_nat.py",
          ("model/transformer.py", "std=0.02", "std=0.2")),
    fault("the copied source is rounded down", "unit/model/test_nat.py",
          ("model/nat.py",
           "(2 * steps * src_length + tgt_length) // (2 * tgt_length)", "steps * src_length // tgt_length")),
    # training
    fault("wmt16 is larger than the paper's", "unit/test_config.py",
          ("presets.yaml", "wmt16: *wmt", "wmt16:\n  <<: *wmt\n  model: {d_hidden: 2048, dropout: 0.3}")),
    fault("labels are not smoothed", "unit/training/test_updates.py",
          ("training/objective.py",
           "model.embedding.weight, batch.labels, smoothing, fused)",
           "model.embedding.weight, batch.labels, 0.0, fused)")),
    fault("the mass of smoothing goes to the label as well", "unit/training/test_loss_and_schedules.py",
          ("training/loss.py", "(smoothing - 1).expand_as(nll)", "torch.full_like(nll, -1.0)")),
    fault("a gradient may be wrong by half before training", "unit/training/test_loss_of_a_training.py",
          ("training/loss_check.py", "torch.float32: 5e-3", "torch.float32: 0.5")),
    fault("in bf16 a gradient may be wrong by half", "unit/training/test_loss_of_a_training.py",
          ("training/loss_check.py", "torch.bfloat16: 1e-2", "torch.bfloat16: 0.5")),
    fault("the linear schedule forgets its warmup", "unit/training/test_loss_and_schedules.py",
          ("training/schedules.py",
           "(update - config.warmup) / max(config.falls_until - config.warmup, 1)",
           "update / config.falls_until")),
    fault("the inverse root falls from the start", "unit/test_doctests.py",
          ("training/schedules.py",
           "(max(config.warmup, 1) / max(update + 1, 1)) ** 0.5",
           "(1 / max(update + 1, 1)) ** 0.5")),
    fault("Adam's beta2 is fixed", "unit/training/test_updates.py",
          ("training/loop.py", "betas=(0.9, config.train.adam_beta2)", "betas=(0.9, 0.98)")),
    fault("weights do not decay", "unit/training/test_updates.py",
          ("training/loop.py", "weight_decay=config.train.weight_decay", "weight_decay=0.0")),
    fault("gradients are not clipped", "unit/training/test_updates.py",
          ("training/loop.py", "parameters(), self.config.train.clip_norm)", "parameters(), 1e9)")),
    fault("gradients are sums", "unit/training/test_updates.py",
          ("training/loop.py", "torch._foreach_div_(gradients, totals[2])", "torch._foreach_div_(gradients, 1.0)")),
    fault("dropout is the same in every update", "unit/training/test_updates.py",
          ("training/loop.py",
           "derived_seed(self.config.train.seed, update, self.processes.rank)",
           "derived_seed(self.config.train.seed, 0, self.processes.rank)")),
    fault("a student always takes the decoder", "unit/training/test_updates.py",
          ("training/loop.py", '(("decoder.",) if with_decoder else ())', '("decoder.",)')),
    fault("a student does not take the embeddings", "unit/training/test_updates.py",
          ("training/loop.py", '("encoder.", "embedding.", ', '("encoder.", ')),
    # decoding
    fault("a deleted segment writes on", "unit/inference/test_translator_segments.py unit/decoding",
          ("decoding/segmentwise.py", "chosen[number] not in TERMINATORS", "chosen[number] != TERMINATORS[0]")),
    fault("a segment may take a step too many",
          "unit/decoding unit/show/test_trace.py unit/inference/test_translator_segments.py",
          ("decoding/segmentwise.py", "step < place.limit", "step <= place.limit")),
    fault("all of a batch take the steps of the longest", "unit/decoding unit/inference/test_translator_segments.py",
          ("decoding/segmentwise.py",
           "result.steps = max(map(len, result.segments))",
           "result.steps = step")),
    fault("the length penalty leaves out EOS", "unit/decoding/test_beam.py",
          ("decoding/beam.py", "penalty(np.array(step), alpha)", "penalty(np.array(step - 1), alpha)")),
    fault("a search stops as if no hypothesis could grow", "unit/decoding/test_beam.py",
          ("decoding/beam.py", "largest[members]", "penalty(np.array(step), alpha)")),
    fault("lengths are tried only from the predicted one on", "unit/decoding/test_oneshot.py",
          ("decoding/oneshot.py", "np.maximum(predicted - n_lengths // 2, 1)", "np.maximum(predicted, 1)")),
    # engines
    fault("torch: one segment may be deleted", "parity/test_onnx.py unit/decoding/test_beam.py",
          ("engines/torch/engine.py",
           "        logits[..., DEL].masked_fill_(self._single[:, None], -torch.inf)\n",
           "")),
    fault("torch: a forced token has the best one's score", "parity/test_onnx.py",
          ("engines/torch/engine.py",
           "            chosen_log_prob = log_probs.gather(-1, chosen[..., None])[..., 0]\n",
           "")),
    fault("scores: DEL takes no part in several segments", "unit/engines/torch/test_scoring.py",
          ("engines/torch/scoring.py",
           "if n_segments == 1 else list(NEVER_EMITTED)",
           "if n_segments else list(NEVER_EMITTED)")),
    fault("ONNX: another epsilon in norms", "parity/test_onnx.py",
          ("export/onnx_graph.py", '"epsilon": 1e-5', '"epsilon": 1e-3')),
    fault("ONNX: padding is hidden but from sharp models", "parity/test_onnx.py unit/engines/onnx/test_onnx_engine.py",
          ("export/onnx_graph.py", "HIDDEN = -10_000.0", "HIDDEN = -50.0")),
    fault("ONNX: a row does not see its own step", "parity/test_onnx.py",
          ("engines/onnx/stepper.py", "np.maximum(self._filled, 1,", "np.maximum(self._filled - rows.counts, 1,")),
    fault("ONNX: in one pass a row sees later steps", "parity/test_onnx.py",
          ("engines/onnx/scoring.py", "visible(own, own)", "np.ones((width, width), dtype=bool)")),
    fault("ONNX: in one pass a row sees padding", "parity/test_onnx.py",
          ("engines/onnx/scoring.py", " & real[:, None, :]", "")),
    # measuring
    fault("a token repeats within ten tokens", "unit/measuring/quality/test_errors.py",
          ("measuring/quality/errors.py", "WINDOW = 9", "WINDOW = 10")),
    fault("Mis is relative to itself", "unit/measuring/quality/test_errors.py",
          ("measuring/quality/errors.py",
           "missing_ratio(at_tokens, reference_tokens)",
           "missing_ratio(tokens, reference_tokens)")),
    fault("the bootstrap draws 100 samples", "unit/measuring/quality/test_results.py",
          ("measuring/quality/results.py", "n_samples: int = 1000", "n_samples: int = 100")),
    fault("chrF of a sentence knows no words", "unit/measuring/quality/test_metrics.py",
          ("measuring/quality/metrics.py", "metric = CHRF(word_order=2)", "metric = CHRF()")),
    fault("deleted segments have lengths too", "unit/measuring/quality/test_segment_stats.py",
          ("measuring/quality/segment_stats.py", ' if one.ending != "del"', "")),
    fault("a range of lengths lacks its upper end", "unit/measuring/quality/test_length_buckets.py",
          ("measuring/quality/length_buckets.py", "lengths(test_set)[0])  #", "lengths(test_set)[0], 'right')  #")),
    fault("the surer half is the other one", "unit/measuring/quality/test_confidence.py",
          ("measuring/quality/confidence.py", "np.argsort(-np.asarray(scores", "np.argsort(np.asarray(scores")),
    fault("a signature leaves out a decode key", "unit/measuring/test_own.py",
          ("measuring/own.py", "**config.decode.model_dump(),", '**config.decode.model_dump(exclude={"cut_loops"}),')),
    # pipeline
    fault("batches of distillation are not powers of two", "unit/pipeline/test_distill.py",
          ("pipeline/distill.py", "size = 1 << (most.bit_length() - 1)", "size = most")),
    fault("batches of distillation begin with the shortest", "unit/pipeline/test_distill.py",
          ("pipeline/distill.py", "key=lambda i: -len(sources[i])", "key=lambda i: len(sources[i])")),
    # repairs
    fault("repairs act in the order of the alphabet", "unit/inference/test_repairing.py",
          ("inference/repairing.py",
           "[name for name in REPAIRS if getattr(decode, name)]",
           "[name for name in sorted(REPAIRS) if getattr(decode, name)]")),
    fault("what is written again skips the repairs before", "unit/inference/test_repairing.py",
          ("translator.py", "partial(self._rewrite, repairs[:n])", "partial(self._rewrite, [])")),
    fault("a deleted segment overlaps too", "unit/inference/repairs/test_join_overlaps.py",
          ("inference/repairs/join_overlaps.py",
           "[] if segment and segment[-1] == DEL else [token for token in segment if token != EOS]",
           "[token for token in segment if token not in (EOS, DEL)]")),
    fault("the shortest overlap is taken", "unit/inference/repairs/test_join_overlaps.py",
          ("inference/repairs/join_overlaps.py", "range(longest, 0, -1)", "range(1, longest + 1)")),
    fault("a mark is taken away where the source has none", "unit/inference/repairs/test_keep_ending.py",
          ("inference/repairs/keep_ending.py", "if wanted and words", "if words")),
    fault("subtitles are broken a character too early for each line", "unit/text/documents/test_srt.py",
          ("text/documents/breaking.py", "end + 1 + length", "end + length")),
    fault("subtitles are broken in tags", "unit/text/documents/test_srt.py",
          ("text/documents/breaking.py", "if at not in unseen", "if True")),
    fault("a subtitle without an empty line before it is text", "unit/text/documents/test_srt.py",
          ("text/documents/srt.py", " and not _begins(lines, end)", "")),
    fault("a loop is what stands three times", "unit/inference/repairs/test_cut_loops.py",
          ("inference/repairs/cut_loops.py", "_LOOP = 4", "_LOOP = 3")),
    fault("a loop is cut to one round whatever the source says", "unit/inference/repairs/test_cut_loops.py",
          ("inference/repairs/cut_loops.py", "del kept[start + size * said : stop]", "del kept[start + size : stop]")),
    fault("an invented number is not wrong", "unit/inference/repairs/test_check_numbers.py",
          ("text/numbers.py", "return (lost + invented).total()", "return lost.total()")),
    fault("a second try is taken if it is no worse", "unit/inference/repairs/test_check_numbers.py",
          ("inference/repairs/check_numbers.py", "_wrong(again) < _wrong(first)", "_wrong(again) <= _wrong(first)")),
    fault("of two equally wrong tries the second is taken", "unit/inference/repairs/test_check_numbers.py",
          ("inference/repairs/check_numbers.py", "min(pair, key=_wrong)", "min(reversed(pair), key=_wrong)")),
    fault("what was forced is written again for its numbers", "unit/inference/repairs/test_check_numbers.py",
          ("translator.py", "may_rewrite=not request.is_forced", "may_rewrite=True")),
    fault("blanks around nothing are something", "unit/inference/repairs/test_never_empty.py",
          ("inference/repairs/never_empty.py", "return not draft.text.strip() and", "return not draft.text and")),
    fault("a torn character is shown where it stays torn", "unit/inference/repairs/test_whole_characters.py",
          ("inference/repairs/whole_characters.py",
           "draft.saying(draft.source.text) if _is_broken(draft) else draft",
           "draft")),
    fault("a capital stands at the first digit", "unit/inference/repairs/test_capitals.py",
          ("inference/repairs/lower_capitals.py", "letter.isalpha()", "letter.isalnum()")),
    fault("one long word in capitals is a shout", "unit/inference/repairs/test_capitals.py",
          ("inference/repairs/lower_capitals.py", ">= 2", ">= 1")),
    fault("auto K makes segments longer than asked", "unit/inference/test_translator_segments.py",
          ("translator.py", "bisect_left(choices, length / each, hi", "bisect_left(choices, length / each - 1, hi")),
    # files and checkpoints
    fault("folder: a newer format is not told apart", "unit/files/test_model_folder.py",
          ("files/model_folder.py", "if int(number) > _NUMBER:", "if int(number) > 99:")),
    fault("folder: its own version is newer", "unit/files/test_model_folder.py",
          ("files/model_folder.py", "return theirs > ours", "return theirs >= ours")),
    fault("checkpoint: a damaged optimizer is not looked at", "unit/training/test_checkpoints.py",
          ("training/checkpoint.py", "return read_weights(folder), read_weights(folder, OPTIMIZER), TrainingState",
           "return read_weights(folder), {}, TrainingState")),
    fault("checkpoint: a damaged one stays in the way", "unit/training/test_checkpoints.py",
          ("training/checkpoint.py", "folder.rename(aside)", "pass")),
    fault("checkpoint: where none can be read it starts over", "unit/training/test_checkpoints.py",
          ("training/checkpoint.py", "        if damaged:\n            found", "        if False:\n            found")),
    fault("fit: the dry run does not look at the folder", "unit/pipeline/test_fit_job.py",
          ("pipeline/fit.py", "    check_folder(job, force)\n        return", "    pass\n        return")),
    fault("fit: the dry run does not notice another one at work", "unit/pipeline/test_fit_job.py",
          ("pipeline/fit.py", "with held(job.out, _AT_WORK, patience=0) if job.out.exists() else nullcontext():",
           "with nullcontext():")),
    fault("fit: there is always room", "unit/pipeline/test_fit_job.py",
          ("pipeline/fit_job.py", "if needed - taken > free:", "if needed < 0:")),
    fault("table: LaTeX gets & as it is", "unit/measuring/reports/test_table.py",
          ("measuring/reports/table.py", 'for mark in "&%$#_{}"', 'for mark in "%$#_{}"')),
    fault("extend: a falling learning rate is no hindrance", "unit/training/test_extending.py",
          ("training/run_folder.py", "if train.falling and train.falls_until != fell_until:", "if False:")),
    fault("extend: p is thought constant", "unit/training/test_extending.py",
          ("config.py", "divides = self.anneal and self.random_prob > 0 and max(self.segment_choices) > 1",
           "divides = False")),
    fault("extend: the learning rate falls over all updates", "unit/training/test_extending.py",
          ("training/schedules.py", "config.falls_until - config.warmup", "config.steps - config.warmup")),
    fault("own loss: its file may change", "unit/training/test_own_loss.py",
          ("training/loop.py", 'facts |= {"objective": own.fingerprint} if own else {}', "facts |= {}")),
    fault("own loss: it is not asked", "unit/training/test_own_loss.py",
          ("training/loop.py", "own or batch_loss", "batch_loss")),
    fault("checkpoint: saved under its final name at once", "unit/training/test_checkpoints.py",
          ("files/storage.py",
           'scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=".partial", dir=final.parent))',
           "scratch = final\n    scratch.mkdir(exist_ok=True)")),
    # translate: files, languages, records
    fault("a torn line is kept", "unit/files/test_partial.py",
          ("files/partial.py", "        os.ftruncate(file, self._kept.size)\n", "")),
    fault("the text before a stop may be another one", "unit/files/test_partial.py",
          ("files/partial.py",
           "(self._kept.lines, self._kept.digest) != (self._seen.lines, self._seen.digest)",
           "False")),
    fault("a shorter text is finished by what is kept", "unit/files/test_partial.py",
          ("files/partial.py", "error is None and self._seen.lines < self._kept.lines", "False")),
    fault("the settings before a stop may be others", "unit/files/test_partial.py",
          ("files/partial.py", "        if mark.lines:\n", "        if mark.lines < 0:\n")),
    fault("errors before a stop are forgotten", "unit/files/test_partial.py",
          ("files/partial.py", "        self.errors = self._kept.errors\n", "")),
    fault("somebody's own OUT.partial is taken", "unit/files/test_partial.py",
          ("files/partial.py", "or (size and not self._record.is_file())", "")),
    fault("an interrupted output takes its name", "unit/files/test_partial.py",
          ("files/partial.py", "if error is None and self._file is not None", "if self._file is not None")),
    fault("what is done is done again for its neighbour", "unit/files/test_partial.py",
          ("files/partial.py", "        if self._one_of_many:", "        if False:")),
    fault("an output may be a link to its input", "unit/pipeline/test_outputs.py",
          ("pipeline/outputs.py", "one.is_file() and one.samefile(other)", "one.is_file() and one == other")),
    fault("an input may be called OUT.partial", "unit/pipeline/test_outputs.py",
          ("pipeline/outputs.py", "for own in (path, *partial_names(path))", "for own in (path,)")),
    fault("two inputs write one name", "unit/pipeline/test_outputs.py",
          ("pipeline/outputs.py", "        refuse_same_names(files)\n", "")),
    fault("French is English", "unit/text/test_languages.py",
          ("text/languages.py", "return Guess(other=best) if is_other", "return Guess(code) if is_other")),
    fault("every short text is of another language", "unit/text/test_languages.py",
          ("text/languages.py", "is_other = scores[best] >= _CLEAR or", "is_other = scores[best] >= 0 or")),
    fault("one of several alike is no language", "unit/text/test_languages.py",
          ("text/languages.py", " or likely < _RULED_OUT", "")),
    fault("a guess is made of anything", "unit/text/test_languages.py",
          ("text/languages.py", "if likely >= _LIKELY:", "if likely >= 0:")),
    fault("a line at a terminal is refused", "unit/text/test_languages.py",
          ("pipeline/direction.py", "if self._may_refuse and not alone:", "if self._may_refuse:")),
    fault("a direction that was named is guessed", "unit/text/test_languages.py",
          ("pipeline/direction.py", "source == AUTO or (source is None and target is None)", "True")),
    fault("half a character is text", "unit/pipeline/test_translate_files.py",
          ("files/records.py", "if not _is_whole(fields[TEXT]):", "if False:")),
    fault("a bad record ends the file", "unit/pipeline/test_translate_files.py",
          ("files/records.py", "except (ValueError, RecursionError) as error:", "except KeyError as error:")),
    fault("line breaks are lost with their text", "unit/pipeline/test_translate_files.py",
          ("pipeline/translate_files.py",
           "Translation(text, one.text, confidence=least)",
           "Translation(text, one.text.strip(), confidence=least)")),
    # token-wise deletion
    fault("before a repetition comes the repetition", "unit/data/test_batching.py",
          ("data/drafts.py", "np.where(skipping, proper, labels)", "labels")),
    fault("every draft repeats something", "unit/data/test_batching.py",
          ("data/drafts.py", "(draws[:, _DRAW_COUNT] * (MOST_REPEATED + 1)).astype(np.int64)",
           "1 + (draws[:, _DRAW_COUNT] * MOST_REPEATED).astype(np.int64)")),
    fault("nothing is left of a draft", "unit/inference/repairs/test_delete_tokens.py",
          ("inference/repairs/delete_tokens.py", "if 0 < len(marked) < len(marks):", "if marked:")),
    fault("ONNX marks the token after", "parity/test_onnx.py",
          ("engines/onnx/engine.py", "np.exp(own[1:])", "np.exp(own[:-1])")),
    fault("a second round keeps what did not end", "unit/pipeline/test_distill.py",
          ("pipeline/second_round.py", "if _ended(one) else []", "if True else []")),
    fault("references take the place of what was written", "unit/pipeline/test_distill.py",
          ("pipeline/distill.py", "tgt += [corpus.train.tgt[i]", "tgt = [corpus.train.tgt[i]")),
    fault("auto takes the largest K there is", "unit/inference/test_translator_segments.py",
          ("config.py", "if most is None or k <= most]", "if True]")),
    # what segments begin with
    fault("K = 1 may not begin inside a word", "unit/engines/cuda/test_graph_engine.py",
          ("engines/torch/engine.py", "self._barred & ~self._single[:, None, None]", "self._barred"),
          ("engines/cuda/segments.py", "barred & (self._state.single == 0)[:, None]", "barred")),
    fault("later steps choose as the first does", "parity/test_onnx.py",
          ("engines/onnx/stepper.py", "if self._later:", "if False:")),
    fault("a list begins with anything", "unit/engines/onnx/test_shortlist.py",
          ("engines/onnx/shortlist.py", "bias[:, : len(self._pieces)][:, ~allowed[self._pieces]] = -np.inf", "pass")),
]
# fmt: on


def main() -> None:
    chosen = [one for one in FAULTS if all(word in one.name for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as folder:
        package = Path(shutil.copytree(ROOT / "src", Path(folder) / "src")) / "recoversat"
        everything = sorted({test for one in chosen for test in one.tests.split()})
        if run(everything, package.parent) != 0:
            sys.exit(f"without any fault these fail, or are gone: {' '.join(everything)}")
        died = 0
        for one in chosen:
            fate = fate_of(one, package)
            print(f"{fate:5} {one.name}", flush=True)
            died += fate == "died"
    print(f"{died} of {len(chosen)} faults were noticed")
    sys.exit(died != len(chosen))


def fate_of(one: Fault, package: Path) -> str:
    """Put a fault in, run its tests, take it out; say whether it died, lived or is stale."""
    if not all((package / edit.file).is_file() for edit in one.edits):
        return "stale"
    sources = {edit.file: (package / edit.file).read_text(encoding="utf-8") for edit in one.edits}
    if any(sources[edit.file].count(edit.old) != 1 for edit in one.edits):
        return "stale"
    for edit in one.edits:
        (package / edit.file).write_text(sources[edit.file].replace(edit.old, edit.new), encoding="utf-8")
    code = run(one.tests.split(), package.parent)
    for file, text in sources.items():
        (package / file).write_text(text, encoding="utf-8")
    return {0: "lived", 1: "died"}.get(code, "stale")


def run(tests: list[str], src: Path) -> int:
    """Run tests of this checkout on the package in `src`, and return pytest's exit code."""
    # no bytecode: it is told from its source by seconds and size, and a fault may keep both
    environment = os.environ | {"PYTHONPATH": str(src), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=ci"]  # no chance, nothing remembered
    command = [sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
    return subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    main()
