"""Which sub-words Rep and Mis are counted in: one tokenizer for all systems, or the counts mean nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recoversat.config import DataConfig
from recoversat.files.model_folder import read_config, resolve_model
from recoversat.measuring.peers import peer_of
from recoversat.measuring.quality.outputs import SystemOutput, TestSet, read_test_set
from recoversat.measuring.specs import SystemSpec, TestSpec
from recoversat.measuring.system import JSON
from recoversat.text.directions import directed
from recoversat.text.tokenizer import Tokenizer, join_subwords, load_tokenizer, vocabulary_fingerprint

_GLUE = "@@ "


@dataclass(frozen=True)
class Subwords:
    """The tokenizer that counts, by default the AT system's; without any model there is none."""

    tokenizer: Tokenizer | None = None
    vocabulary: str | None = None
    is_split_text: bool = False  # text comes with '@@ ' in it
    data: DataConfig | None = None  # of the model: knows the tags that validation text may have

    @classmethod
    def of(cls, systems: Sequence[SystemSpec], at_system: str | None, model: Path | None = None) -> "Subwords":
        """Take the tokenizer of the model given, else of the AT system, else (it may be a file) of the first model."""
        models = [spec for spec in systems if spec.kind == "model" and not peer_of(spec.path)]
        if not models and not model:
            return cls()
        chosen = model or Path(next((spec for spec in models if spec.name == at_system), models[0]).path)
        folder = resolve_model(chosen)
        config, _ = read_config(folder)
        return cls(load_tokenizer(folder), vocabulary_fingerprint(folder), config.data.tokenizer == "bpe", config.data)

    def read_test_set(self, spec: TestSpec) -> TestSet:
        """Read a test set with everything that can be counted in it."""
        test_set = read_test_set(spec.name, spec.sources, spec.references)
        if self.tokenizer is None:
            return test_set
        sources = test_set.sources
        if self.data and self.data.tagged:
            sources = [text for _, text in directed(sources, self.data, self.data.tgt_lang)]
        references = [join_subwords(line) if self.is_split_text else line for line in test_set.references]
        tokens, source_tokens = map(self.tokenizer.encode, (test_set.references, sources))
        return replace(test_set, references=references, reference_tokens=tokens, source_tokens=source_tokens)

    def align(self, output: SystemOutput) -> SystemOutput:
        """Give an output tokens of this vocabulary; those of another one are replaced by a new encoding."""
        lines = output.hypotheses
        if self.is_split_text:
            output = replace(output, hypotheses=[join_subwords(line) for line in lines])
        if output.tokens is not None and output.settings.get("vocabulary") == self.vocabulary:
            return output
        if self.tokenizer is None:
            return output
        if self.is_split_text and not any(_GLUE in line for line in lines):
            return replace(output, tokens=None)  # words that were never split: most of them would be unknown
        settings: dict[str, JSON] = {**output.settings, "tokens": "encoded again"}
        return replace(output, tokens=self.tokenizer.encode_targets(lines), settings=settings)
