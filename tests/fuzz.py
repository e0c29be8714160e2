"""A fuzz test: whatever is damaged, a call succeeds with a sane result or says in one line what is wrong.

    python -m tests.fuzz --cases 2000 --seed 0          # all kinds of input in turn
    python -m tests.fuzz --seed 0 --only 1234           # one case again, as a failure names it

A case is made from the seed and its number alone. What may be raised is the error type that the function documents;
`AttributeError`, `KeyError`, `RecursionError`, `MemoryError`, `UnicodeError` and their like are failures, and so are a
message of several lines and a call that does not come back.

The file is long because it has a target for every kind of input that the project reads.
"""

import argparse
import contextlib
import copy
import hashlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import agents  # noqa: F401  (registers the agents of the repository)
from agents.learned.checkpoint import (
    METADATA_FILE,
    NETWORK_FILE,
    CheckpointError,
    load_checkpoint,
    network_metadata,
    save_checkpoint,
)
from agents.learned.network import BoardNetwork
from isis_env import GameConfig, isis_osiris_v0, notation
from isis_env.batch import Batch
from isis_env.deal import Deal
from isis_env.game import IllegalActionError
from isis_env.learner_batch import LearnerBatch
from isis_env.notation import NotationError
from isis_env.policy import AgentSpecError, make_agent
from train.config import ConfigError, TrainConfig
from train.config_file import dump_config, read_config
from train.runs.metrics import METRICS_FILE, read_metrics
from train.runs.report import EVALUATION_FILE, read_evaluations
from train.tournament.play import Chunk, make_players, play_chunk
from train.tournament.store import check_settings, read_games, read_settings, to_line

SECONDS = 60  # for one case
MEMORY = 4 * 2**30  # bytes that the cases may take beyond what the process has at its begin
LONGEST_MESSAGE = 20_000


class HangError(Exception):
    """A case has taken longer than `SECONDS`."""


# Damage

WORDS = ["", "standard", "mini3", "full", "win", "lose", "1", "01", "-1", "1e3", "1_000", "0x10", "nan", "inf", "true"]
WORDS += ["٣", "３", "²", "a\nb", "\0", "../..", "~", "player_0", "x" * 5000, "9" * 5000, "[" * 2000, "é", "\ud800"]


def junk(rng: random.Random, depth: int = 0) -> Any:
    """A value of any JSON type, often at the edge of what a field may hold."""
    kind = rng.randrange(8 if depth < 3 else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randrange(-3, 40)
    if kind == 2:
        return rng.choice([2**31, 2**32, 2**53 + 1, 2**63, 2**64 - 1, 2**64, -(2**63), 10**400, 4096, 10**9])
    if kind == 3:
        return rng.choice([0.0, -0.0, 1.0, 0.5, -1.5, 1e30, 1e308, math.nan, math.inf, -math.inf])
    if kind < 6:
        return rng.choice(WORDS)
    if kind == 6:
        return [junk(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(WORDS): junk(rng, depth + 1) for _ in range(rng.randrange(3))}


def damaged_json(rng: random.Random, data: Any) -> Any:
    """A copy of JSON data with one to three places changed: values replaced, removed, added, put under another key."""
    root = [copy.deepcopy(data)]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at: Any = root
        while True:
            key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if not (isinstance(at[key], dict | list) and at[key] and rng.random() < 0.8):
                break
            at = at[key]
        change = rng.randrange(8)
        if change == 0 and at is not root:
            del at[key]
        elif change == 1 and isinstance(at, dict):
            at[rng.choice(WORDS)] = junk(rng)
        elif change == 2 and isinstance(at, dict) and len(at) > 1:
            at[key] = at[rng.choice(list(at))]
        elif change == 3 and isinstance(at[key], int | float):
            at[key] = rng.choice([float(at[key]), -at[key], at[key] + 1, at[key] * 1000, str(at[key])])
        else:
            at[key] = junk(rng)
        if not (isinstance(root[0], dict | list) and root[0]):
            break
    return root[0]


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """`data` cut, with bits flipped, parts overwritten, repeated, removed or replaced."""
    begin = rng.randrange(len(data) + 1)
    end = min(len(data), begin + rng.choice([1, 1, 2, 8, 100]))
    changed = bytes(rng.randrange(256) for _ in range(end - begin))
    bit = bytes([data[begin] ^ (1 << rng.randrange(8))]) if begin < len(data) else b"?"
    return rng.choice(
        [
            data[:begin],
            data[begin:],
            data[:begin] + data[end:],
            data[:begin] + changed + data[end:],
            data[:begin] + bit + data[begin + 1 :],
            data[:begin] + bit + data[begin + 1 :],
            data[:end] + data[begin:],
            data + data,
            data[:begin] + b"\0" * (end - begin) + data[end:],
            data[:begin] + rng.choice(WORDS).encode("utf-8", "surrogatepass") + data[end:],
            b"",
            bytes(rng.randrange(256) for _ in range(50)),
        ]
    )


def damaged_text(rng: random.Random, text: str) -> str:
    """`text` with some of its words or characters changed."""
    if rng.random() < 0.3:
        return damaged_bytes(rng, text.encode()).decode("utf-8", "replace")
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(WORDS) + text[place + rng.choice([0, 1, 3]) :]


def dumped(rng: random.Random, data: Any) -> bytes:
    """JSON of `data`, one in four times damaged as text."""
    text = json.dumps(data).encode()
    return damaged_bytes(rng, text) if rng.random() < 0.25 else text


# What is damaged, and whom it is given to


def expect(call: Callable[[], Any], *errors: type[Exception]) -> Any:
    """The result of `call`, or None where it raised one of `errors` with a message of one line."""
    try:
        return call()
    except Exception as error:
        if not isinstance(error, errors) or isinstance(error, UnicodeError | json.JSONDecodeError):
            raise
        message = str(error)
        if not message.strip() or len(message.splitlines()) != 1 or len(message) > LONGEST_MESSAGE:
            raise AssertionError(f"message {message[:200]!r} is not one line") from error
        return None


class Samples:
    """Whole files and values that the cases damage, made once."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        network = BoardNetwork("mini3", 4, 1)
        self.checkpoint = folder / "checkpoint"
        save_checkpoint(self.checkpoint, network, network_metadata(network, "mini3", "full", 10))
        self.weights = (self.checkpoint / NETWORK_FILE).read_bytes()
        self.metadata = json.loads((self.checkpoint / METADATA_FILE).read_text())
        self.config = yaml.safe_load(dump_config(TrainConfig()))
        self.envs = []
        for settings in ({}, {"board": "mini3", "illegal": "lose"}, {"players": 3, "common_reserve": True}):
            env = isis_osiris_v0.env(**settings)
            self.envs.append(env.to_dict())
            env.reset(seed=5)
            for step in range(200):
                if not env.agents or (step == 20 and settings):
                    break
                mask = env.last()[0]["action_mask"]
                env.step(None if env.terminations[env.agent_selection] else int(mask.nonzero()[0][-1]))
                self.envs.append(env.to_dict())
            if settings.get("illegal"):
                env.reset(seed=6)
                env.step(-1)
                self.envs.append(env.to_dict())
        self.texts = [env["game"] for env in self.envs if env["game"]]
        self.deals = [env["deal_id"] for env in self.envs if env["deal_id"]]
        self.deals.append("deck=+1+2+3-1-2-3 start=1")
        self.batch = Batch(GameConfig("mini3"), 2)
        self.batch.reset(seed=1)
        self.batch.step(self.batch.decisions().action_masks.argmax(axis=1))
        self.learner = LearnerBatch(GameConfig("mini3"), 2, opponents=["greedy"], threads=1)
        self.learner.reset(1)
        config = GameConfig("mini3")
        chunk = Chunk(("greedy", "random"), np.arange(2))
        self.games_line = to_line(play_chunk(chunk, config, make_players(["greedy", "random"], config), None), 2)
        self.tournament = {
            "board": "mini3",
            "players": 2,
            "common_reserve": False,
            "seed": 0,
            "secret": None,
            "agents": ["greedy", "random"],
            "games": 4,
        }
        agent = {"agent": "greedy", "score_rate": 0.5, "interval": [0.4, 0.6], "margin": 0.0, "illegal": 0}
        form = {"board": "standard", "players": 2, "common_reserve": False, "games": 2, "seed": 0, "step": 10}
        self.evaluations = [{**form, "agents": [agent, agent]}]
        self.metrics = "step,seconds,entropy\n10,1.0,0.5\n20,2.0,0.25\n"
        self.specs = [
            "greedy",
            "mcts:simulations=10,leaf=evaluation,c=1.5,temperature=0.5,seconds=0.1,reuse=true",
            "flat_mc:simulations=10,candidates=4,reward=margin,exact=2",
            "expectimax:depth=1,reward=win,exact=3",
            'exact:free=2,before="greedy",max_nodes=1000',
            f"ppo:{self.checkpoint},sample=true,temperature=0.5",
            f"mcts:simulations=2,network={self.checkpoint}",
            'remember:"mcts:simulations=5"',
        ]


def _write_checkpoint(folder: Path, weights: bytes, metadata: Any, rng: random.Random) -> Path:
    folder.mkdir()
    if isinstance(metadata, dict) and isinstance(metadata.get("sha256"), dict) and rng.random() < 0.8:
        metadata["sha256"][NETWORK_FILE] = hashlib.sha256(weights).hexdigest()
    (folder / NETWORK_FILE).write_bytes(weights)
    (folder / METADATA_FILE).write_bytes(dumped(rng, metadata))
    return folder


def _load_checkpoint(folder: Path) -> None:
    loaded = expect(lambda: load_checkpoint(folder), CheckpointError)
    if loaded is not None:
        decided = loaded.network(torch.zeros(1, 1000)[:, : _observation_size(loaded.metadata["board"])])
        assert all(bool(torch.isfinite(part).all()) for part in decided), "an answer is not finite"


def _observation_size(board: str) -> int:
    from isis_env.observation import observation_size

    return observation_size(board)


def checkpoint_metadata(rng: random.Random, samples: Samples, folder: Path) -> None:
    metadata = damaged_json(rng, samples.metadata)
    _load_checkpoint(_write_checkpoint(folder / "c", samples.weights, metadata, rng))


def checkpoint_weights(rng: random.Random, samples: Samples, folder: Path) -> None:
    weights = damaged_bytes(rng, samples.weights)
    _load_checkpoint(_write_checkpoint(folder / "c", weights, copy.deepcopy(samples.metadata), rng))


def checkpoint_header(rng: random.Random, samples: Samples, folder: Path) -> None:
    length = int.from_bytes(samples.weights[:8], "little")
    header = json.dumps(damaged_json(rng, json.loads(samples.weights[8 : 8 + length]))).encode()
    claimed = rng.choice([len(header)] * 4 + [0, 2**20, 2**63])
    weights = claimed.to_bytes(8, "little") + header + samples.weights[8 + length :]
    _load_checkpoint(_write_checkpoint(folder / "c", weights, copy.deepcopy(samples.metadata), rng))


def checkpoint_files(rng: random.Random, samples: Samples, folder: Path) -> None:
    target = folder / "c"
    shutil.copytree(samples.checkpoint, target)
    name = rng.choice([NETWORK_FILE, METADATA_FILE, "."])
    file = target / name
    other = NETWORK_FILE if name == METADATA_FILE else METADATA_FILE
    if name == ".":
        shutil.rmtree(target)
    else:
        file.unlink()
    change = rng.randrange(5)
    if change == 0:
        file.mkdir()
    elif change == 1:
        file.symlink_to(file)
    elif change == 2:
        file.write_bytes(samples.weights)
    elif change == 3 and name != ".":
        shutil.copy(target / other, file)
    _load_checkpoint(rng.choice([target, target, target / NETWORK_FILE, Path("\0"), Path("x" * 1000), folder]))


def training_config(rng: random.Random, samples: Samples, folder: Path) -> None:
    file = folder / "config.yaml"
    data = damaged_json(rng, samples.config)
    text = yaml.dump(data, allow_unicode=False).encode()
    file.write_bytes(damaged_bytes(rng, text) if rng.random() < 0.4 else text)
    overrides: list[str] = []
    if rng.random() < 0.3:
        overrides = [f"--{rng.choice(['steps', 'seed', 'ppo', 'ppo.epochs', 'x'])}", str(junk(rng))]
    config = expect(lambda: read_config(file, overrides), ConfigError)
    assert config is None or isinstance(config, TrainConfig)


def tournament_games(rng: random.Random, samples: Samples, folder: Path) -> None:
    file = folder / "games.jsonl"
    lines = [samples.games_line.encode()]
    lines.append(dumped(rng, damaged_json(rng, json.loads(samples.games_line))) + rng.choice([b"\n", b""]))
    rng.shuffle(lines)
    file.write_bytes(b"".join(lines))
    expect(lambda: read_games(file, 2, np.arange(2, dtype=np.uint64)), ValueError)


def tournament_settings(rng: random.Random, samples: Samples, folder: Path) -> None:
    file = folder / "tournament.json"
    file.write_bytes(dumped(rng, damaged_json(rng, samples.tournament)))
    expect(lambda: check_settings(file, read_settings(file), copy.deepcopy(samples.tournament)), ValueError)


def saved_env(rng: random.Random, samples: Samples, folder: Path) -> None:
    data = damaged_json(rng, rng.choice(samples.envs))
    given = copy.deepcopy(data)
    env = expect(lambda: isis_osiris_v0.raw_env.from_dict(data), ValueError)
    if env is not None:
        assert repr(env.to_dict()) == repr({key: given[key] for key in env.to_dict()}), "it was not taken as given"


def saved_batch(rng: random.Random, samples: Samples, folder: Path) -> None:
    games: Any = rng.choice([samples.batch, samples.learner])
    before = games.snapshot()
    arrays: Any = {name: array.copy() for name, array in before.items()}
    name = rng.choice(list(arrays))
    array = arrays[name]
    change = rng.randrange(8)
    if change == 0:
        del arrays[name]
    elif change == 1:
        arrays[name] = junk(rng)
    elif change == 2:
        arrays[name] = array.astype(rng.choice(["i8", "f4", "u1", "O", "S1"]))
    elif change == 3:
        arrays[name] = array.reshape(-1)[: rng.randrange(array.size + 1)]
    elif change == 4:
        arrays = junk(rng)
    elif change == 5:
        arrays[rng.choice(WORDS)] = junk(rng)
    else:
        flat = arrays[name].reshape(-1)
        flat[rng.randrange(flat.size)] += rng.choice([1, 2, 100])
    if expect(lambda: (games.restore(arrays), True), ValueError, TypeError) is None:
        assert all((games.snapshot()[name] == before[name]).all() for name in before), "refused, and yet changed"
    games.restore(before)


def notation_text(rng: random.Random, samples: Samples, folder: Path) -> None:
    text: Any = damaged_text(rng, rng.choice(samples.texts)) if rng.random() < 0.9 else junk(rng)
    states = expect(lambda: notation.loads(text), NotationError)
    if states is not None:
        assert text.isascii(), "only ASCII is notation"
        assert notation.loads(notation.dumps(states[0]))[0] == states[0]
    expect(lambda: notation.parse_cell(junk(rng)), NotationError)


def deal_id(rng: random.Random, samples: Samples, folder: Path) -> None:
    text: Any = damaged_text(rng, rng.choice(samples.deals)) if rng.random() < 0.9 else junk(rng)
    config = GameConfig("mini3") if str(text).startswith("deck") else GameConfig()
    deal = expect(lambda: Deal.parse(text, config), ValueError)
    assert deal is None or Deal.parse(str(deal), config) == deal


def evaluations(rng: random.Random, samples: Samples, folder: Path) -> None:
    (folder / EVALUATION_FILE).write_bytes(dumped(rng, damaged_json(rng, samples.evaluations)))
    expect(lambda: read_evaluations(folder), ConfigError)


def metrics(rng: random.Random, samples: Samples, folder: Path) -> None:
    (folder / METRICS_FILE).write_bytes(damaged_bytes(rng, samples.metrics.encode()))
    expect(lambda: read_metrics(folder / METRICS_FILE), ConfigError)


def agent_spec(rng: random.Random, samples: Samples, folder: Path) -> None:
    spec: Any = rng.choice(samples.specs)
    change = rng.randrange(4)
    if change == 0:
        spec = damaged_text(rng, spec)
    elif change == 1:
        name, _, rest = spec.partition(":")
        parts = rest.split(",")
        place = rng.randrange(len(parts))
        parts[place] = f"{parts[place].partition('=')[0]}={junk(rng)}"
        spec = f"{name}:{','.join(parts)}"
    elif change == 2:
        spec += f",{rng.choice(WORDS)}={junk(rng)}"
    else:
        spec = junk(rng)
    if str(spec).startswith("python"):
        return
    agent = expect(lambda: make_agent(spec), AgentSpecError, CheckpointError)
    assert agent is None or callable(agent.act)


def env_arguments(rng: random.Random, samples: Samples, folder: Path) -> None:
    names = ["players", "common_reserve", "board", "recall", "reward", "illegal", "render_mode"]
    settings = {name: junk(rng) for name in rng.sample(names, rng.choice([1, 1, 2]))}
    env = expect(lambda: isis_osiris_v0.env(**settings), ValueError)
    if env is None:
        env = isis_osiris_v0.env(illegal=rng.choice(["raise", "lose"]))
    else:
        assert all(type(value) in (int, str, bool, type(None)) for value in settings.values())
        env.render_mode = None
    options = {rng.choice(["start_player", "deck", "deal_id"]): junk(rng)}
    expect(lambda: env.reset(seed=junk(rng), options=rng.choice([options, None])), ValueError, TypeError)
    env.reset(seed=1)
    expect(lambda: env.step(junk(rng)), IllegalActionError, TypeError)


def batch_arguments(rng: random.Random, samples: Samples, folder: Path) -> None:
    names = ["num_games", "recall", "reward", "illegal", "threads", "config"]
    settings: Any = {"config": GameConfig("mini3"), "num_games": 1, "threads": 1}
    settings |= {name: junk(rng) for name in rng.sample(names, rng.choice([1, 1, 2]))}
    batch = expect(lambda: Batch(**settings), ValueError, TypeError)
    if batch is None:
        batch = Batch(GameConfig("mini3"), 1, threads=1)
    if batch.num_games < 1000:
        expect(lambda: batch.reset(junk(rng)), ValueError, TypeError)
        batch.reset(1)
        expect(lambda: batch.step(junk(rng)), ValueError, TypeError)


KERNEL = "from isis_env.kernels.jit import kernel\n\n@kernel\ndef twice(x):\n    return 2 * x\n\nprint(twice(21))\n"


def kernel_cache(rng: random.Random, samples: Samples, folder: Path) -> None:
    """Damaged files of compiled kernels: in a process of its own, as they are read once in a process."""
    (folder / "doubles.py").write_text(KERNEL)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}

    def start() -> None:
        command = [sys.executable, folder / "doubles.py"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr[-2000:]
        assert "Traceback" not in done.stderr, done.stderr[-2000:]

    start()
    files = sorted(path for path in (folder / "cache").rglob("*.nb*"))
    if files:  # none where kernels are not compiled
        damaged = rng.choice(files)
        damaged.write_bytes(damaged_bytes(rng, damaged.read_bytes()))
        start()
        start()


TARGETS: dict[str, Callable[[random.Random, Samples, Path], None]] = {
    function.__name__: function
    for function in (
        checkpoint_metadata,
        checkpoint_weights,
        checkpoint_header,
        checkpoint_files,
        training_config,
        tournament_games,
        tournament_settings,
        saved_env,
        saved_batch,
        notation_text,
        deal_id,
        evaluations,
        metrics,
        agent_spec,
        env_arguments,
        batch_arguments,
    )
}


RARE = {100: kernel_cache}  # one case in so many, for these start processes


def target_of(number: int, targets: list[str]) -> Callable[[random.Random, Samples, Path], None]:
    """What case `number` damages: the targets in turn, but for the rare ones."""
    for every, rare in RARE.items():
        if number % every == every - 1 and len(targets) == len(TARGETS):
            return rare
    return TARGETS[targets[number % len(targets)]]


@contextlib.contextmanager
def memory_limit() -> Iterator[None]:
    """Let no more memory be taken than `MEMORY`, where the system has such limits."""
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `HangError` in a case that takes longer, where the system has alarms."""

    def stop(*_: Any) -> None:
        raise HangError(f"no answer within {seconds} seconds")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(numbers: range | list[int], seed: int, targets: list[str] | None = None) -> list[str]:
    """Run the cases of these numbers; returns a text with the traceback for each that failed."""
    names = targets or list(TARGETS)
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        samples = Samples(Path(temporary))
        for number in numbers:
            target = target_of(number, names)
            folder = Path(temporary, f"case-{number}")
            folder.mkdir()
            try:
                with time_limit(SECONDS), memory_limit(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    target(random.Random(f"{seed} {number}"), samples, folder)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failures.append(f"case {number} of seed {seed}, {target.__name__}:\n{traceback.format_exc()[-3000:]}")
            shutil.rmtree(folder, ignore_errors=True)
    return failures


def main() -> int:
    """Entry point; 0, or 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--only", type=int, help="the number of one case")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="a kind of input; by default all")
    arguments = parser.parse_args()
    numbers = range(arguments.cases) if arguments.only is None else [arguments.only]
    failures = run(numbers, arguments.seed, arguments.target)
    print("\n\n".join(failures))
    print(f"{len(numbers)} cases, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
