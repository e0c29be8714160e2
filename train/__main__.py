"""`python -m train CONFIG.yaml [--key value ...]`: a training run; `python -m train --resume RUN`: its continuation."""

import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path

from isis_env.command_line import whole_number
from train.command import run_command
from train.config import MAX_SEED, MAX_STEPS, ConfigError
from train.config_file import COMMAND_LINE, help_text, read_config

USAGE = """usage: python -m train CONFIG.yaml [--key value ...]
       python -m train CONFIG.yaml --seeds 0,1,2 [--key value ...]
       python -m train CONFIG.yaml --help
       python -m train --resume RUN [--steps N]

Trains the run that CONFIG.yaml describes; keys given here replace the file's, such as
    --name second --steps 2e5 --ppo.learning_rate 5e-4 --self_play.baselines '{greedy: 0.1}'
`python -m train CONFIG.yaml --help` lists all keys, their meaning and their defaults.

--seeds trains once per seed and reports mean and interval. Ctrl-C saves and stops. --resume goes on with a run folder
from its last checkpoint, however the run ended; with --steps until that many steps in all, more or fewer than its
config says. `--init PATH` is a new run that begins with the weights of a run folder or checkpoint.
"""


def main(argv: Sequence[str]) -> int:
    """Entry point: the exit status, see `isis_env.command_line.run_command`."""
    return run_command(
        lambda: _main(argv), stopped="stopped; --resume RUN goes on from what is saved, --seeds with the same command"
    )


def _main(argv: Sequence[str]) -> int:
    asks_for_help = "-h" in argv or "--help" in argv
    if not argv or (asks_for_help and argv[0].startswith("-")):
        print(USAGE, end="")
        return 0 if argv else 2
    if asks_for_help:
        print(help_text(), end="")
        return 0
    arguments, seeds = split_seeds(argv)
    if not arguments:
        raise ConfigError("CONFIG.yaml is missing")
    if arguments[0].partition("=")[0] == "--resume":
        run, steps = _resume_arguments(argv)
        from train.ppo.run import resume  # torch takes seconds to import, and a wrong key need not wait for it

        folder = resume(run, steps)
    else:
        config = read_config(Path(arguments[0]), arguments[1:])
        if seeds:
            from train.runs.seeds import train_seeds

            (folder,) = train_seeds([config], seeds)
        else:
            from train.ppo.run import train

            folder = train(config)
    print(f"run folder: {folder}")
    return 0


def _resume_arguments(argv: Sequence[str]) -> tuple[Path, int | None]:
    """The run folder of `--resume RUN [--steps N]`, and N."""
    words = [
        word for argument in argv for word in (argument.split("=", 1) if argument.startswith("--") else [argument])
    ]
    if len(words) == 2 and words[0] == "--resume":
        return Path(words[1]), None
    if len(words) != 4 or (words[0], words[2]) != ("--resume", "--steps"):
        raise ConfigError("--resume takes the run folder and --steps N, nothing else; its config stands in the folder")
    try:
        steps = whole_number(words[3])
    except ArgumentTypeError as error:
        raise ConfigError(f"{COMMAND_LINE}: --steps {error}") from None
    if not 1 <= steps <= MAX_STEPS:
        raise ConfigError(f"{COMMAND_LINE}: --steps {steps} must be a whole number from 1 to {MAX_STEPS}")
    return Path(words[1]), steps


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
