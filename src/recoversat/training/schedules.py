"""The learning rate as a pure function of the update."""

from recoversat.config import TrainConfig


def learning_rate(config: TrainConfig, d_model: int, update: int) -> float:
    """Return the rate of an update, counted from 0.

    >>> paper = TrainConfig(steps=100)            # linear, 3e-4 -> 1e-5
    >>> [round(learning_rate(paper, 278, u), 6) for u in (0, 50, 100)]
    [0.0003, 0.000155, 1e-05]
    >>> wmt = TrainConfig(schedule="inverse_sqrt", learning_rate=None, warmup=4000)
    >>> [round(learning_rate(wmt, 512, u - 1), 6) for u in (1000, 4000, 16000)]
    [0.000175, 0.000699, 0.000349]
    """
    peak = config.learning_rate if config.learning_rate is not None else (d_model * config.warmup) ** -0.5
    if update + 1 < config.warmup:
        return peak * (update + 1) / config.warmup
    if config.schedule == "inverse_sqrt":
        return peak * (max(config.warmup, 1) / max(update + 1, 1)) ** 0.5
    done = min((update - config.warmup) / max(config.falls_until - config.warmup, 1), 1.0)
    return peak + (config.final_learning_rate - peak) * max(done, 0.0)
