"""What several test files share: the forms of the game, random play that reaches every corner, replay kernels."""

import json
import multiprocessing
import random
from pathlib import Path

import numpy as np
import pytest
from naive import NaiveGame

from isis_env import baselines, deal, game, policy
from isis_env.config import BOARDS, MAX_TILES, GameConfig
from isis_env.game import STATE
from isis_env.kernels.jit import announcement, kernel

announcement.made = True  # tests count lines of errors; what is said of a cold cache has tests of its own

pytest.register_assert_rewrite("aec_play", "batch_play")

DATA = Path(__file__).parent / "data"

STANDARD_FORMS = [GameConfig("standard", n, common) for n in (2, 3, 4) for common in (False, True)]
ALL_FORMS = [*STANDARD_FORMS, GameConfig("mini4"), GameConfig("mini3")]
BUILT_INS = sorted(name for name, made in policy.registered().items() if made.__module__ == baselines.__name__)


def form_id(config: GameConfig) -> str:
    return f"{config.board}-{config.players}p{'-common' if config.common_reserve else ''}"


def golden(name: str) -> list[dict]:
    """The golden games of one file."""
    return [json.loads(line) for line in (DATA / "golden" / f"{name}.jsonl").read_text().splitlines()]


def config_of(record: dict) -> GameConfig:
    return GameConfig(record["board"], record["players"], record["common_reserve"])


def random_deal(config: GameConfig, rng: random.Random) -> tuple[list[int], int]:
    """A deck and a start player."""
    deck = list(BOARDS[config.board].faces)
    rng.shuffle(deck)
    return deck, rng.randrange(config.players)


def random_game(config: GameConfig, rng: random.Random):
    """Play the slow twin to the end; yields it before every decision together with the action that it then takes.

    Every seat has its own taste for drawing: those who never draw are stuck first in a common reserve.
    """
    deck, start = random_deal(config, rng)
    twin = NaiveGame(config.board, config.players, config.common_reserve, deck, start)
    taste = [rng.choice((0.0, 0.1, 0.5, 1.0)) for _ in range(config.players)]
    while not twin.over:
        legal = twin.legal()
        cells = [action for action in legal if action != config.draw_action]
        if not cells or (config.draw_action in legal and rng.random() < taste[twin.seat]):
            action = config.draw_action
        else:
            action = rng.choice(cells)
        yield twin, deck, action
        twin.step(action)


@kernel
def _replay(deck, actions, states, masks):
    for step in range(len(actions)):
        game.legal_mask(states[step], masks[step])
        states[step + 1] = states[step]
        deal.play(states[step + 1], deck, actions[step])
    game.legal_mask(states[len(actions)], masks[len(actions)])


def replay(config: GameConfig, deck: list[int], start: int, actions: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The engine's states `STATE[t + 1]` and masks int8[t + 1, A] along a game of t actions."""
    states = np.zeros(len(actions) + 1, STATE)
    game.reset(states[0], config.side, config.players, config.common_reserve, start)
    masks = np.zeros((len(actions) + 1, config.num_actions), np.int8)
    padded = np.zeros(MAX_TILES, np.int8)
    padded[: len(deck)] = deck
    _replay(padded, np.array(actions, np.int64), states, masks)
    return states, masks


def actions_of(moves: list[str], config: GameConfig) -> list[int]:
    """The actions that placements in notation stand for: a tile is a draw and a placement."""
    actions = []
    for move in moves:
        if len(move) > 2:
            actions.append(config.draw_action)
        actions.append((int(move[1]) - 1) * config.side + ord(move[0]) - ord("a"))
    return actions


def _answer(pipe, function, arguments):
    pipe.send(function(*arguments))


def answer_of_child(method: str, function, *arguments, seconds: int = 60):
    """What `function(*arguments)` returns in a child process, `fork`ed or `spawn`ed, within so many seconds."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform cannot {method}")
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    child = context.Process(target=_answer, args=(theirs, function, arguments))
    child.start()
    theirs.close()
    try:
        assert ours.poll(seconds), "the child hangs"
        return ours.recv()
    finally:
        child.kill()
        child.join()
