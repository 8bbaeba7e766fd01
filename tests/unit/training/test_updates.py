"""An update is what torch does with the plain formula, every setting has its say; where a student starts."""

import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from recoversat.config import Config, parse_config
from recoversat.data.batching import Batches
from recoversat.data.corpus import Corpus
from recoversat.data.randomness import derived_seed
from recoversat.model.build import Model, build_model
from recoversat.model.weights import read_weights, start_from_teacher
from recoversat.training.loop import start_point, train
from recoversat.training.schedules import learning_rate
from recoversat.vocab import PAD
from tests.unit.training.tiny import settings

CONFIG = settings(
    steps=8, batch_tokens=128, accumulate=2, learning_rate=0.02, label_smoothing=0.15, adam_beta2=0.9, weight_decay=0.1,
    clip_norm=0.45,
)  # fmt: skip


def new_model(config: Config, corpus: Corpus) -> Model:
    return build_model(config.model.model_copy(update={"vocab_size": corpus.tokenizer.size}))


def losses_by_hand(config: Config, corpus: Corpus) -> list[float]:
    torch.manual_seed(derived_seed(config.train.seed))
    model = new_model(config, corpus).train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.9), eps=1e-9, weight_decay=0.1)
    batches = Batches.of(corpus.train, config.train, corpus.tokenizer.word_ends)
    losses, norms = [], []
    for update in range(config.train.steps):
        torch.manual_seed(derived_seed(config.train.seed, update, 0))  # dropout's
        total, n_labels = torch.zeros(()), 0
        for batch in (one.to("cpu") for one in batches[update]):
            hidden = model(
                batch.src_tokens, batch.src_positions, batch.src_sentence,
                batch.tokens, batch.steps, batch.segments, batch.sentence,
            )  # fmt: skip
            logits, labels = model.logits(hidden).flatten(0, 1), batch.labels.flatten()
            total = total + F.cross_entropy(logits, labels, ignore_index=PAD, label_smoothing=0.15, reduction="sum")
            n_labels += int((labels != PAD).sum())
        optimizer.zero_grad()
        (total / n_labels).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.45)))
        optimizer.param_groups[0]["lr"] = learning_rate(config.train, 16, update)
        optimizer.step()
        losses.append(float(total.detach()) / n_labels)
    assert min(norms) < 0.45 < max(norms)  # some updates are clipped, and some are not
    return losses


def test_a_training_is_torchs_adam_on_the_plain_loss(corpus: Corpus, tmp_path: Path) -> None:
    config = parse_config(CONFIG)
    train(config, corpus, tmp_path, device="cpu", quiet=True)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == pytest.approx(losses_by_hand(config, corpus), rel=1e-5)


@pytest.mark.parametrize("with_decoder", [False, True])
def test_a_student_starts_with_parts_of_its_teacher_and_no_others(
    corpus: Corpus, tmp_path: Path, with_decoder: bool
) -> None:
    config = parse_config(CONFIG)
    train(config, corpus, tmp_path, device="cpu", quiet=True)
    start, student = start_point(tmp_path, with_decoder), new_model(config, corpus)
    assert start is not None
    start_from_teacher(student, start.teacher, start.parts)
    teacher = read_weights(start.teacher)
    taken = [name for name, weight in student.state_dict().items() if torch.equal(weight, teacher[name])]
    parts = {"encoder", "embedding"} | ({"decoder", "segment_embedding"} if with_decoder else set())
    assert taken == [name for name in student.state_dict() if name.split(".")[0] in parts]


@pytest.mark.parametrize("most", [2, 7])
def test_of_segments_as_many_are_known_as_both_have(corpus: Corpus, tmp_path: Path, most: int) -> None:
    config = parse_config(CONFIG)
    train(config, corpus, tmp_path, device="cpu", quiet=True)
    start, known = start_point(tmp_path, True), config.model.max_segments
    assert start is not None
    student = new_model(
        config.model_copy(update={"model": config.model.model_copy(update={"max_segments": most})}), corpus
    )
    before = student.segment_embedding.weight.detach().clone()
    start_from_teacher(student, start.teacher, start.parts)
    both = min(most, known)
    assert torch.equal(
        student.segment_embedding.weight[:both], read_weights(start.teacher)["segment_embedding.weight"][:both]
    )
    assert torch.equal(student.segment_embedding.weight[both:], before[both:])
