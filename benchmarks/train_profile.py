"""Say where the time of a training goes: a table of operations, by time on the device.

    python benchmarks/train_profile.py CORPUS --preset iwslt16 --set train.segments=10 --set train.batch_tokens=32768

Two short trainings in a scratch folder: the first one compiles, the second one is watched. Checkpoints are left out.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from recoversat.config import Config, load_config
from recoversat.data.corpus import open_corpus
from recoversat.training.loop import train


def short(config: Config, updates: int) -> Config:
    """Take so many updates, and never save or validate on the way."""
    settings = {"steps": updates, "save_every": updates, "validate_every": updates, "log_every": updates}
    return config.model_copy(update={"train": config.train.model_copy(update=settings | {"tensorboard": False})})


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--preset")
    parser.add_argument("--set", action="append", dest="overrides")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--rows", type=int, default=30)
    args = parser.parse_args()
    corpus, config = open_corpus(args.corpus), load_config(None, args.preset, args.overrides)
    with tempfile.TemporaryDirectory() as folder:
        train(short(config, args.updates), corpus, Path(folder) / "warm", device=args.device, quiet=True)
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
        with profile(activities=activities) as watched:
            train(short(config, args.updates), corpus, Path(folder) / "watched", device=args.device, quiet=True)
    order = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    print(f"{args.updates} updates")
    print(watched.key_averages().table(sort_by=order, row_limit=args.rows, max_name_column_width=90))


if __name__ == "__main__":
    main()
