"""Where the time of training goes: `python -m train.profile CONFIG.yaml [--updates N] [--key value ...]`.

Trains as `python -m train` does, in a temporary folder and without evaluations: one update to compile and warm up, and
then, with a first snapshot in play, those that are timed. Every moment counts for one part alone. The calls that make
up the parts are timed from outside, some hundreds per update, and on the CPU a call returns when its work is done.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich import box
from rich.table import Table
from sb3_contrib import MaskablePPO

import agents.learned.agent
import train.ppo.policy
from agents.learned.network import BoardNetwork
from isis_env.envs.sb3 import IsisOsirisVecEnv
from train.command import (
    ArgumentParser,
    check_writable,
    make_console,
    run_command,
    spec_slug,
    whole_number,
    write_json,
)
from train.config import ConfigError, TrainConfig
from train.config_file import read_config
from train.ppo.setup import Setup, check_setup, set_up
from train.ppo.trainer import learn
from train.runs.folder import make_run_folder

UPDATES = 10
MAX_UPDATES = 100_000

# The parts, in the order of the table.
LEARNER = "forward: the learner's moves"
OPPONENTS = "forward: opponents' moves"
FORWARD = "forward: updates"
BACKWARD = "backward: updates"
OPTIMIZER = "optimizer, gradient clipping"
LOSS = "loss: the rest of the updates"
GAMES = "games: the rest of the environment"
COLLECTING = "collecting: the rest of the rollouts"
REST = "rest: metrics, checkpoints, snapshots"
PARTS = (LEARNER, OPPONENTS, FORWARD, BACKWARD, OPTIMIZER, LOSS, GAMES, COLLECTING, REST)

# A forward pass counts by who asks the network: the part that it interrupts.
FORWARD_WITHIN = {COLLECTING: LEARNER, GAMES: OPPONENTS, LOSS: FORWARD}
NETWORK = (*FORWARD_WITHIN.values(), BACKWARD)


@dataclass(frozen=True)
class Part:
    """What one part took.

    Attributes:
        part: its name.
        network: whether that is the network's own forward and backward passes.
        milliseconds: per update.
        share: of the wall time.
    """

    part: str
    network: bool
    milliseconds: float
    share: float


@dataclass(frozen=True)
class Profile:
    """Where the wall time of some updates went.

    Attributes:
        config: name of the config.
        threads: CPU threads.
        updates, steps: how many were timed; steps are decisions of the learner.
        steps_per_second: over all of the wall time.
        network: share of the wall time in the network's own forward and backward passes.
        parts: the parts, which make up the wall time.
    """

    config: str
    threads: int
    updates: int
    steps: int
    steps_per_second: float
    network: float
    parts: list[Part]


def profile(config: TrainConfig, updates: int = UPDATES, progress: bool = False) -> Profile:
    """Time so many updates of a run that is set up with `config`; they are timed whatever its `steps`.

    Raises:
        ConfigError: the config cannot be used, or is for a device whose calls return before their work is done.
        ValueError: too few or too many updates.
    """
    if not 1 <= updates <= MAX_UPDATES:
        raise ValueError(f"updates={updates!r}: must be from 1 to {MAX_UPDATES}")
    if config.device != "cpu":
        raise ConfigError(f"device={config.device!r}: must be 'cpu', elsewhere calls return before their work is done")
    with TemporaryDirectory() as parent:
        config, folder, setup = warmed_up(config, Path(parent))
        clock = Clock()
        with _parts_timed(clock, setup):
            steps = train_on(config, folder, setup, updates, progress)
        seconds = clock.stop()
    total = sum(seconds.values())
    parts = [Part(part, part in NETWORK, seconds[part] / updates * 1e3, seconds[part] / total) for part in PARTS]
    network = sum(part.share for part in parts if part.network)
    return Profile(config.name, config.threads, updates, steps, steps / total, network, parts)


def warmed_up(config: TrainConfig, parent: Path) -> tuple[TrainConfig, Path, Setup]:
    """A run after its first update, with a snapshot in play, in a folder in `parent`; its config has no evaluations."""
    config = replace(config, runs_folder=str(parent), evaluation=replace(config.evaluation, every=0))
    check_setup(config)
    folder, config = make_run_folder(config)
    setup = set_up(config)
    first = config.ppo.n_envs * config.ppo.n_steps
    learn(replace(config, steps=first, self_play=replace(config.self_play, snapshot_every=first)), folder, setup)
    return config, folder, setup


def train_on(config: TrainConfig, folder: Path, setup: Setup, updates: int, progress: bool = False) -> int:
    """So many more updates of a warmed-up run; returns their steps."""
    per_update = config.ppo.n_envs * config.ppo.n_steps
    done = setup.model.num_timesteps
    until = replace(config, steps=done + updates * per_update)
    learn(until, folder, setup, done // per_update, progress=progress)
    return setup.model.num_timesteps - done


class Clock:
    """Shares out wall time: every moment counts for the part that was entered last and not left yet."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._entered = [REST]
        self._since = time.perf_counter()

    @property
    def part(self) -> str:
        """The part that the present moment counts for."""
        return self._entered[-1]

    def enter(self, part: str) -> None:
        """From now on it is `part`."""
        self._book()
        self._entered.append(part)

    def leave(self) -> None:
        """From now on it is the part that was entered before."""
        self._book()
        self._entered.pop()

    def change(self, part: str) -> None:
        """From now on it is `part` in place of the one entered last."""
        self._book()
        self._entered[-1] = part

    def stop(self) -> dict[str, float]:
        """The seconds of all parts."""
        self._book()
        return self._seconds

    def _book(self) -> None:
        now = time.perf_counter()
        self._seconds[self.part] += now - self._since
        self._since = now


@contextmanager
def _parts_timed(clock: Clock, setup: Setup) -> Iterator[None]:
    """Have the calls that make up the parts tell `clock`."""

    def timed(part: str) -> Callable[[Callable], Callable]:
        def around(call: Callable) -> Callable:
            def timed_call(*arguments: Any, **named: Any) -> Any:
                clock.enter(part)
                try:
                    return call(*arguments, **named)
                finally:
                    clock.leave()

            return timed_call

        return around

    def timed_forward(call: Callable) -> Callable:
        def timed_call(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
            asking = clock.part
            answers = timed(FORWARD_WITHIN.get(asking, asking))(call)(*arguments)
            if asking == LOSS:
                for answer in answers:  # `backward` begins in the loss; this gradient is where the network begins
                    answer.register_hook(lambda gradient: clock.change(BACKWARD))
            return answers

        return timed_call

    with ExitStack() as stack:
        for owner, name, around in (
            (MaskablePPO, "collect_rollouts", timed(COLLECTING)),
            (IsisOsirisVecEnv, "step_wait", timed(GAMES)),
            (MaskablePPO, "train", timed(LOSS)),
            (BoardNetwork, "forward", timed_forward),
            (train.ppo.policy, "infer", timed_forward),
            (agents.learned.agent, "infer", timed_forward),
            (torch.Tensor, "backward", timed(LOSS)),
            (torch.optim.Optimizer, "zero_grad", timed(OPTIMIZER)),
            (torch.nn.utils, "clip_grad_norm_", timed(OPTIMIZER)),
            (type(setup.model.policy.optimizer), "step", timed(OPTIMIZER)),
        ):
            call = getattr(owner, name)
            stack.callback(setattr, owner, name, call)
            setattr(owner, name, around(call))
        yield


def print_table(result: Profile) -> None:
    """The profile as a table on screen."""
    threads = f"{result.threads} thread{'s' if result.threads > 1 else ''}"
    per_update = result.steps // result.updates
    title = f"{result.config}, {threads}: {result.updates} updates of {per_update:,} steps"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("part")
    for heading in ("ms/update", "share"):
        table.add_column(heading, justify="right", no_wrap=True)
    groups = [[part for part in result.parts if part.network is network] for network in (True, False)]
    for group, name in zip(groups, ("the network's own passes", "all else"), strict=True):
        for part in group:
            table.add_row(part.part, f"{part.milliseconds:,.1f}", f"{part.share:.1%}")
        milliseconds, share = sum(part.milliseconds for part in group), sum(part.share for part in group)
        table.add_row(name, f"{milliseconds:,.1f}", f"{share:.1%}", style="bold", end_section=True)
    console = make_console()
    console.print(table)
    console.print(f"{result.steps_per_second:,.0f} steps/s")


def _arguments(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = ArgumentParser(
        prog="python -m train.profile",
        description=__doc__.splitlines()[0],
        epilog="Keys of the config override the file as in python -m train.",
        allow_abbrev=False,
    )
    parser.add_argument("config", type=Path, metavar="CONFIG.yaml")
    parser.add_argument(
        "--updates", type=whole_number, default=UPDATES, help="how many are timed (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, help="JSON file (default: results/, named after the config)")
    return parser.parse_known_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point: the exit status, see `isis_env.command_line.run_command`."""
    return run_command(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    options, overrides = _arguments(argv)
    if options.out is not None:
        check_writable(options.out)
    result = profile(read_config(options.config, overrides), options.updates, progress=True)
    print_table(result)
    file = options.out or Path("results") / f"profile-{spec_slug(result.config)}-threads{result.threads}.json"
    write_json(result, file)
    print(f"written to {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
