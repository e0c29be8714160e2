"""`python -m train CONFIG.yaml [--key value ...]`: one training run."""

import sys
from collections.abc import Sequence
from pathlib import Path

from train.config import ConfigError, read_config

USAGE = """usage: python -m train CONFIG.yaml [--key value ...]

Trains the run that CONFIG.yaml describes; keys given here replace the file's, such as
    --name second --steps 200000 --ppo.learning_rate 5e-4 --self_play.baselines '{greedy: 0.1}'
All keys, their meaning and their defaults stand in train/config.py.
"""


def main(argv: Sequence[str]) -> int:
    """Entry point; 0, or 2 with one line on stderr where the config cannot be used."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if argv else 2
    try:
        config = read_config(Path(argv[0]), list(argv[1:]))
        from train.trainer import (
            TrainingError,
            train,
        )  # torch takes seconds to import; a wrong key need not wait for it

        try:
            folder = train(config)
        except TrainingError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"run folder: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
