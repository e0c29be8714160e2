"""Batches of games under uniformly random legal actions: ours, pgx's, and a C program that does the same work as ours.

A step of a game is one decision: the choice among its legal actions, what follows from it, and the next observation,
mask, seat, rewards and flags; a game that ends is followed by the next deal. Games are measured at all stages at once,
as they are after a long time: a batch fresh from `reset` plays almost in step, which branch predictors like.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

import numpy as np

from isis_env.batch import Batch, TimeStep
from isis_env.config import GameConfig
from isis_env.deal import random_below
from isis_env.kernels.threads import available_cores, run_shared, shared_kernel
from isis_env.kernels.vectors import as_bits, count_bits, nth_bit
from tests.benchmarks.c_engine import FLAGS, Engine, build, compiler
from tests.benchmarks.rates import PEER_PYTHON, ROOT, Comparison, by_turns, one_core, reason

GAMES = 1024
CONFIGS = {"2 players": GameConfig(), "4 players, common": GameConfig("standard", 4, True)}
PGX = "pgx connect_four"
PGX_SCRIPT = Path(__file__).with_name("pgx_peer.py")

SIZES = (64, 256, GAMES, 16_384, 131_072, 1_048_576)
MEMORY_GAMES = 262_144

SECONDS = 0.3  # per measurement, or somewhat more
STAGES = 64  # more than a game has decisions, so that games which differ by fewer are at all stages
SEEDS = 2**22  # no more at once: a row per step and a column per game, some rows in any case

COMPARED_CONFIGS = (GameConfig(), GameConfig("standard", 3), GameConfig("standard", 4, True))
COMPARED_GAMES = 256
COMPARED_STEPS = 400


class Player(Protocol):
    """Something that plays many games."""

    def play(self, seeds: np.ndarray) -> None:
        """A random legal action in every game per row of `seeds`, uint64[k, n]."""


class Ours:
    """Our batch and its random player, which share the work among the batch's threads.

    Args:
        batch: n games.
        turn: their pending decisions, whose arrays are written from now on.
    """

    def __init__(self, batch: Batch, turn: TimeStep) -> None:
        self.batch = batch
        self.turn = turn
        self._actions = np.empty(batch.num_games, np.int64)

    def play(self, seeds: np.ndarray) -> None:
        """A random legal action in every game per row of `seeds`, uint64[k, n]."""
        for row in seeds:
            self.turn = self.batch.step(self.choose(row), out=self.turn)

    def choose(self, seeds: np.ndarray) -> np.ndarray:
        """A random legal action per game, int64[n]; `seeds` uint64[n]."""
        games, threads = self.batch.num_games, self.batch.threads
        run_shared(choose_rows, games, threads, self.turn.action_masks, seeds, self._actions)
        return self._actions


@shared_kernel
def choose_rows(first, last, masks, seeds, actions):
    """The n-th legal action, n uniform, as in `isis_env.policy`."""
    for row in range(first, last):
        legal = as_bits(masks[row])
        actions[row] = nth_bit(legal, random_below(seeds[row], 0, count_bits(legal)))


def make_seeds(games: int) -> np.ndarray:
    """Seeds for the choices of some steps, uint64[k, games]."""
    steps = min(max(SEEDS // games, 4), STAGES)
    return np.random.default_rng(0).integers(0, 2**63, (steps, games)).astype(np.uint64)


def _stages(games: int) -> np.ndarray:
    """How many decisions each game is ahead, int64[games]."""
    return np.random.default_rng(1).integers(0, STAGES, games)


def ours_at_all_stages(config: GameConfig, games: int) -> Ours:
    """Our batch; beyond 1,024 games the same ones again and again, from then on with choices of their own."""
    some = Batch(config, GAMES, threads=1)
    player = Ours(some, some.reset(0))
    for step, seeds in enumerate(make_seeds(GAMES)):
        rows = np.flatnonzero(_stages(GAMES) > step)
        some.step(player.choose(seeds)[rows], rows)
        player.turn = some.look()
    batch = Batch(config, games, threads=1)
    batch.restore({name: np.resize(array, (games, *array.shape[1:])) for name, array in some.snapshot().items()})
    return Ours(batch, batch.look())


def c_at_all_stages(engine: Engine) -> Engine:
    """The C program's 1,024 games, fresh from their reset, each brought as far as ours."""
    seeds = make_seeds(GAMES)
    for row, steps in enumerate(_stages(GAMES)):
        engine.play(seeds[:steps], row, row + 1)
    return engine


def check_same(engine: Engine, player: Ours) -> None:
    """Play both, fresh from a reset to the same seeds.

    Raises:
        AssertionError: they differ in a bit of anything that they tell.
    """
    rng = np.random.default_rng(2)
    for step in range(COMPARED_STEPS):
        for name, theirs, ours in zip(TimeStep._fields, engine.turn, player.turn, strict=True):
            if theirs.tobytes() != ours.tobytes():
                raise AssertionError(f"engine.c, {player.batch.configs[0]}: other {name} than ours after {step} steps")
        seeds = rng.integers(0, 2**63, (1, COMPARED_GAMES)).astype(np.uint64)
        engine.play(seeds)
        player.play(seeds)


def steps_per_second(player: Player, seeds: np.ndarray) -> float:
    """Decisions of all games per second."""
    steps = 0
    begin = time.perf_counter()
    while (seconds := time.perf_counter() - begin) < SECONDS:
        player.play(seeds)
        steps += seeds.size
    return steps / seconds


def on_cores(player: Ours, seeds: np.ndarray, cores: int) -> float:
    """Decisions of all games per second, on one core or on all."""
    player.batch.threads = cores
    if cores > 1:
        return steps_per_second(player, seeds)
    with one_core():
        return steps_per_second(player, seeds)


@contextmanager
def pgx() -> Iterator[tuple[str, Callable[[], float]]]:
    """Start `pgx_peer.py`: its versions, and how to have it measure.

    Raises:
        OSError: the peer is not there or does not run.
    """
    command = [PEER_PYTHON, PGX_SCRIPT, str(GAMES)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as process:

        def answer() -> dict:
            if line := process.stdout.readline():
                return json.loads(line)
            raise OSError(process.stderr.read() or "it ended")

        def measure() -> float:
            process.stdin.write("\n")
            process.stdin.flush()
            return answer()["steps_per_second"]

        versions = ", ".join(f"{name} {number}" for name, number in answer().items())
        yield versions, measure


def speed() -> Comparison:
    """1,024 games: ours, pgx's and the C program's; without those that cannot be had."""
    seeds = make_seeds(GAMES)
    workloads: dict[str, Callable[[], float]] = {}
    groups: dict[str, tuple[str, int]] = {}  # of a workload: which games, on how many cores
    remarks = []

    def add(who: str, games: str, cores: int, run: Callable[[], float]) -> None:
        name = f"{who}, {_on(cores)}"
        workloads[name] = run
        groups[name] = (games, cores)

    with ExitStack() as stack:
        try:
            for cores in _one_and_all():
                with one_core() if cores == 1 else nullcontext():
                    versions, measure = stack.enter_context(pgx())
                add(PGX, PGX, cores, measure)
            remarks.append(f"{PGX}: {versions} on the CPU, auto_reset, {GAMES:,} games in one compiled loop.")
        except OSError as error:
            remarks.append(f"{PGX} is left out: {reason(error)}")
        try:
            library = build(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        except (OSError, subprocess.CalledProcessError) as error:
            remarks.append(f"The C program is left out: {reason(error)}")
        else:
            for config in COMPARED_CONFIGS:
                batch = Batch(config, COMPARED_GAMES)
                check_same(Engine(library, config, COMPARED_GAMES), Ours(batch, batch.reset(0)))
            for games, config in CONFIGS.items():
                engine = c_at_all_stages(Engine(library, config, GAMES))
                add(f"C program, {games}", games, 1, lambda engine=engine: _pinned(engine, seeds))
            remarks.append(f"The C program: {compiler()} {' '.join(FLAGS)}; its outputs equalled ours, bit for bit.")
        for games, config in CONFIGS.items():
            player = ours_at_all_stages(config, GAMES)
            for cores in _one_and_all():
                add(games, games, cores, lambda player=player, cores=cores: on_cores(player, seeds, cores))
        rates = by_turns(workloads)

    rows = []
    for name, rate in rates.items():
        games, cores = groups[name]
        by_pgx = rates.get(f"{PGX}, {_on(cores)}")
        by_best_pgx = max((rate for other, rate in rates.items() if groups[other][0] == PGX), default=None)
        by_c = rates.get(f"C program, {games}, {_on(cores)}")
        rows.append(
            {
                "workload": name,
                "steps/s": rate,
                "x pgx, same cores": rate / by_pgx if by_pgx else None,
                "x pgx, best": rate / by_best_pgx if by_best_pgx else None,
                "x C program": rate / by_c if by_c else None,
            }
        )
    return Comparison(f"Batch of {GAMES:,} games, random legal actions", rows, remarks)


def cost_per_game() -> Comparison:
    """What a step of one game costs in batches of many sizes, on one core and on all."""
    bytes_per_game = array_bytes(ours_at_all_stages(GameConfig(), GAMES)) / GAMES
    players = {}
    remarks = []
    for games in SIZES:
        if 2 * games * bytes_per_game <= _physical_memory():
            players[games] = ours_at_all_stages(GameConfig(), games)
        else:
            remarks.append(f"{games:,} games are left out: their arrays take {games * bytes_per_game / 1e9:.1f} GB.")
    workloads = {}
    for games, player in players.items():
        seeds = make_seeds(games)
        for cores in _one_and_all():
            workloads[f"{games} {cores}"] = lambda player=player, seeds=seeds, cores=cores: on_cores(
                player, seeds, cores
            )
    nanoseconds = {name: 1e9 / rate for name, rate in by_turns(workloads).items()}
    rows = []
    for games in players:
        row: dict[str, str | float | None] = {"games": f"{games:,}"}
        for cores in _one_and_all():
            cost = nanoseconds[f"{games} {cores}"]
            row[f"ns/step, {_on(cores)}"] = cost
            row[f"x {GAMES:,}, {_on(cores)}"] = cost / nanoseconds[f"{GAMES} {cores}"]
        if (cores := available_cores()) > 1:
            row[f"speedup, {_on(cores)}"] = nanoseconds[f"{games} 1"] / nanoseconds[f"{games} {cores}"]
        rows.append(row)
    return Comparison("Cost of a step of one game in a batch, 2 players", rows, remarks)


def memory() -> Comparison:
    """What a large batch takes of memory, in a process of its own, beside the size of its arrays."""
    command = [sys.executable, "-m", "tests.benchmarks.batch_memory", str(MEMORY_GAMES)]
    row: dict[str, str | float | None] = {"games": f"{MEMORY_GAMES:,}"}
    remarks = []
    try:
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    except (OSError, subprocess.CalledProcessError) as error:
        remarks.append(f"Left out: {reason(error)}")
    else:
        arrays, resident = found["arrays"], found["resident"]
        row |= {"arrays, MB": arrays / 1e6, "resident, MB": resident / 1e6, "x arrays": resident / arrays}
        remarks.append("Resident: the most at any time less what the process had before; games have ended in all rows.")
    return Comparison("Memory of a batch", [row], remarks)


def array_bytes(player: Ours) -> int:
    """Bytes of the arrays that hold a batch's games and its turn."""
    batch = player.batch
    of_games = (batch.states, batch.final_states, batch.forfeited, batch.seeds, batch.episodes)
    decks = batch.snapshot()["decks"]
    return sum(array.nbytes for array in (*of_games, decks, *player.turn))


def _pinned(player: Player, seeds: np.ndarray) -> float:
    with one_core():
        return steps_per_second(player, seeds)


def _physical_memory() -> float:
    """Bytes; where the system does not tell, enough."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else float("inf")


def _one_and_all() -> tuple[int, ...]:
    return tuple(sorted({1, available_cores()}))


def _on(cores: int) -> str:
    return "one core" if cores == 1 else f"{cores} cores"
