"""`python -m train CONFIG.yaml [--key value ...]`: a training run; `python -m train --resume RUN`: its continuation."""

import sys
from collections.abc import Sequence
from pathlib import Path

from train.config import MAX_SEED, ConfigError, read_config

USAGE = """usage: python -m train CONFIG.yaml [--key value ...]
       python -m train CONFIG.yaml --seeds 0,1,2 [--key value ...]
       python -m train --resume RUN

Trains the run that CONFIG.yaml describes; keys given here replace the file's, such as
    --name second --steps 200000 --ppo.learning_rate 5e-4 --self_play.baselines '{greedy: 0.1}'
All keys, their meaning and their defaults stand in train/config.py.

--seeds trains once per seed and reports mean and interval. Ctrl-C saves and stops. --resume goes on with a run folder
from its last checkpoint, however the run ended.
"""


def main(argv: Sequence[str]) -> int:
    """Entry point: 0; 2 with one line on stderr where the arguments cannot be used; 1 where the run broke off."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if argv else 2
    try:
        arguments, seeds = split_seeds(argv)
        if not arguments:
            raise ConfigError("CONFIG.yaml is missing")
        if argv[0] == "--resume":
            if len(argv) != 2:
                raise ConfigError("--resume takes the run folder and nothing else; its config stands in the folder")
        else:
            config = read_config(Path(arguments[0]), arguments[1:])
        # torch takes seconds to import, and a wrong key need not wait for it
        from agents.learned.checkpoint import CheckpointError
        from train.ppo import trainer
        from train.runs import seeds as several

        try:
            if argv[0] == "--resume":
                folder = trainer.resume(Path(argv[1]))
            elif seeds:
                (folder,) = several.train_seeds([config], seeds)
            else:
                folder = trainer.train(config)
        except (CheckpointError, trainer.TrainingError, several.ChildRunError) as error:
            return _fail(str(error), 1)
        except trainer.Interrupted as stop:
            print(stop, file=sys.stderr)
            return 130
    except ConfigError as error:
        return _fail(str(error), 2)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    print(f"run folder: {folder}")
    return 0


def split_seeds(argv: Sequence[str]) -> tuple[list[str], list[int]]:
    """The arguments without `--seeds`, and the seeds it names."""
    arguments, seeds = list(argv), ""
    for index, argument in enumerate(argv):
        if argument == "--seeds" or argument.startswith("--seeds="):
            _, equals, seeds = argument.partition("=")
            seeds = seeds if equals else "".join(argv[index + 1 : index + 2])
            del arguments[index : index + (1 if equals else 2)]
            numbers = [int(n) for n in seeds.split(",") if n.isascii() and n.isdecimal() and len(n) < 12]
            if len(numbers) < len(seeds.split(",")) or len(set(numbers)) < len(numbers) or max(numbers) > MAX_SEED:
                raise ConfigError(f"--seeds {seeds}: must be different numbers with commas between, such as 0,1,2")
            if any(argument.partition("=")[0] == "--seed" for argument in arguments):
                raise ConfigError("--seed: must not be given with --seeds")
            return arguments, numbers
    return arguments, []


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
