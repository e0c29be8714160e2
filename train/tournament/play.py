"""A chunk of a tournament played in this process, with every agent's decisions counted and timed."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from isis_env.agent import Agent, ask
from isis_env.batch import Batch, Decisions
from isis_env.config import MAX_PLAYERS, GameConfig
from isis_env.policy import make_agent
from train.evaluate import RECORD, check_board, play_blocks
from train.tournament.ratings import GAME

COUNTS = ("decisions", "choices", "draws")


@dataclass(frozen=True)
class Chunk:
    """Blocks to be played at one table: the agents' specs, the last on all remaining seats, and seeds uint64[m]."""

    table: tuple[str, ...]
    seeds: np.ndarray


@dataclass(frozen=True)
class PlayedChunk:
    """What came of a chunk.

    Attributes:
        table: as in `Chunk`.
        games: `GAME[m * n]`, the games of a block together; `agent` is an index into `table`.
        seconds: what each agent took for its decisions.
    """

    table: tuple[str, ...]
    games: np.ndarray
    seconds: list[float]


class TimedAgent:
    """An agent whose decisions are timed together, and counted per game and seat (int64[games, 4]).

    Attributes:
        decisions: all.
        choices: those that could draw or place a stone.
        draws: those of `choices` that drew.
    """

    def __init__(self, agent: Agent, games: int) -> None:
        self.recall = agent.recall
        self.seconds = 0.0
        self.decisions, self.choices, self.draws = np.zeros((3, games, MAX_PLAYERS), np.int64)
        self._agent = agent

    def act(self, decisions: Decisions) -> np.ndarray:
        begin = time.perf_counter()
        answer = ask(self._agent, decisions)
        self.seconds += time.perf_counter() - begin
        draw = decisions.action_masks.shape[1] - 1
        both = (decisions.action_masks[:, draw] > 0) & decisions.action_masks[:, :draw].any(axis=1)
        where = decisions.games, decisions.seats  # a game waits for one decision, so none is there twice
        self.decisions[where] += 1
        self.choices[where] += both
        self.draws[where] += both & (answer == draw)
        return answer


def make_players(specs: Sequence[str], config: GameConfig) -> dict[str, Agent]:
    """Spec -> agent, each having made one decision, so that what is compiled at the first is not timed later.

    Raises:
        ValueError: a spec cannot be used, or its agent is made for another board.
        TypeError: an agent's answer is not a number per decision.
    """
    players = {}
    batch = Batch(config, 1)
    batch.reset(0)
    for spec in specs:
        agent = make_agent(spec)
        check_board(agent, spec, config)
        ask(agent, batch.decisions(recall=agent.recall))
        players[spec] = agent
    return players


def play_chunk(
    chunk: Chunk,
    config: GameConfig,
    players: dict[str, Agent],
    secret: str | None,
    report: Callable[[float], object] = lambda games: None,
) -> PlayedChunk:
    """Play a chunk in this process; `secret` and `report` as `play_blocks` has them."""
    n = config.players
    timed = [TimedAgent(players[spec], len(chunk.seeds) * n) for spec in chunk.table]
    records = play_blocks(timed, config, chunk.seeds, report, secret)
    games = np.zeros(len(records), GAME)
    for name in RECORD.names or ():
        games[name] = records[name]
    games["seed"] = np.repeat(chunk.seeds, n)
    for name in COUNTS:
        games[name] = sum(getattr(agent, name) for agent in timed)
    return PlayedChunk(chunk.table, games, [agent.seconds for agent in timed])


def tables_of(specs: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """The tables of a tournament, whatever the order of the specs."""
    names = sorted(specs)
    if n == 2:
        return list(itertools.combinations(names, 2))
    pairs = list(itertools.permutations(names, 2))
    mixed = list(itertools.combinations(names, n))
    return pairs + (mixed if len(mixed) <= len(pairs) else [])
