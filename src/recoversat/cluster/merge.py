"""Put the results of all shards together, in the order of the input; what is missing is named."""

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from recoversat.cluster.inputs import Part, open_input
from recoversat.cluster.manifest import Manifest, refuse_own_input
from recoversat.cluster.shards import SET_ASIDE, Shard
from recoversat.cluster.translating import read_result
from recoversat.errors import UserError
from recoversat.files.storage import read_json, sweep_partial

_NAMED = 20  # missing shards that a message lists


def merge(manifest: Manifest) -> dict[Path, int]:
    """Check that every key of the manifest is there and write an output for each input.

    Returns their paths, and how many records of each were in error.
    """
    shards = list(manifest.shards())
    if missing := [shard for shard in shards if not shard.is_done]:
        raise UserError(_describe(manifest, missing, len(shards)))
    outputs = {}
    for file in manifest.files:
        out = manifest.folder.out / file.path.name
        refuse_own_input(out, file.path)
        source = open_input(file.path, jsonl=manifest.settings["jsonl"])
        outputs[out] = source.write(out, _translated(manifest.shards_of(file)))
    for folder in {shard.result.parent for shard in shards}:
        sweep_partial(folder)
    return outputs


def _translated(shards: Iterable[Shard]) -> Iterator[tuple[Part, list[str]]]:
    for shard in shards:
        try:
            lines = read_result(shard.result)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise UserError(f"{shard.result}: damaged ({error}); remove it and start the run again") from None
        part = shard.content[1]
        if len(lines) != part.count:
            raise UserError(f"{shard.result}: {len(lines)} lines for {shard.name}; remove it and start the run again")
        yield part, lines


def _describe(manifest: Manifest, missing: list[Shard], total: int) -> str:
    lines = []
    for shard in missing[:_NAMED]:
        record = manifest.folder.run / SET_ASIDE / f"{shard.key}.json"
        reason = f": set aside, {read_json(record, 'record')['reason']}" if record.is_file() else ""
        lines.append(f"{shard.name} ({shard.key}){reason}")
    if len(missing) > _NAMED:
        lines.append(f"and {len(missing) - _NAMED:,} more")
    return "\n  ".join([f"{len(missing):,} of {total:,} shards are missing; nothing was merged:", *lines])
