"""Many games of one learner each, against opponents that move inside the step: what the vector environments stand on.

A learner's transition runs from its decision to its own next one. Its reward is zero until its game ends, whoever ends
it, and then its whole return; the row goes on at once with its next episode. In row i and episode e the learner sits on
seat (i + e) mod n. Built-in opponents move inside the kernel that steps; others are asked for many games at once.
"""

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isis_env import deal, game
from isis_env.agent import Agent, ask_each
from isis_env.baselines import ASKED, builtin_kind, choose
from isis_env.batch import Batch
from isis_env.batch_arguments import check_arrays
from isis_env.batch_kernels import look_at, play_row
from isis_env.config import MAX_PLAYERS, GameConfig
from isis_env.game import IllegalActionError
from isis_env.kernels.jit import kernel
from isis_env.kernels.threads import run_shared, shared_kernel
from isis_env.observation import observe_all
from isis_env.policy import make_agent
from isis_env.reward import MARGIN, REWARDS, pay
from isis_env.secrecy import Recall, check_recall

_OPPONENT_STREAM = 0x0990  # sets the choice of opponents apart from the deals of the same seeds


class Ended(NamedTuple):
    """The games that ended in a step, k of them.

    Attributes:
        rows: int64[k], whose they are, in ascending order.
        observations: float32[k, L], the learner's view of the end.
        returns: float32[k], its whole return, the margin's part included.
        win_shares: float64[k], 1/w where it is one of w winners, else 0; all but the offender win a game that an
            illegal action has ended.
        lengths: int64[k], its decisions.
        opponents: int64[k, 3], the index of the agent on every other seat, clockwise from the learner; -1 beyond them.
    """

    rows: np.ndarray
    observations: np.ndarray
    returns: np.ndarray
    win_shares: np.ndarray
    lengths: np.ndarray
    opponents: np.ndarray


class Step(NamedTuple):
    """The learner's pending decisions in n games, and what came of its last ones.

    Attributes:
        observations: float32[n, L], what it may know.
        action_masks: int8[n, A], its legal actions.
        rewards: float32[n], its return in rows that are `done`, else 0.
        done: bool[n], whether its game has ended; the row shows its next one already.
        ended: those games.
    """

    observations: np.ndarray
    action_masks: np.ndarray
    rewards: np.ndarray
    done: np.ndarray
    ended: Ended


class LearnerBatch:
    """`num_games` games, each with one learner.

    Args:
        config: one setting for all games, or one per game, all on one board.
        num_games: number of games, where `config` is a single one.
        opponents: the agents that the other seats are drawn from, anew for every seat and episode; an agent's spec
            stands for the agent.
        shares: how often each is drawn, relative to their sum; equally by default.
        recall, reward, threads: as in `isis_env.batch.Batch`.
        illegal: likewise, for the learner; an opponent's illegal action is always an error.
        margin_weight: the learner's return is the reward's plus this much per point of margin.
    """

    def __init__(
        self,
        config: GameConfig | Sequence[GameConfig],
        num_games: int | None = None,
        *,
        opponents: Sequence[Agent | str],
        shares: Sequence[float] | None = None,
        recall: Recall = "full",
        reward: str = "win",
        illegal: str = "raise",
        margin_weight: float = 0.0,
        threads: int | None = None,
    ) -> None:
        self.batch = Batch(config, num_games, recall=recall, reward=reward, illegal=illegal, threads=threads)
        n = self.num_games = self.batch.num_games
        self._recall = check_recall(recall)
        self._reward = REWARDS[reward]
        number = isinstance(margin_weight, int | float) and not isinstance(margin_weight, bool)
        if not number or not math.isfinite(margin_weight):
            raise ValueError(f"margin_weight={margin_weight!r}: must be a finite number")
        self._margin_weight = float(margin_weight)
        self._learner = np.zeros(n, np.int64)  # the learner's seat
        self._opponent = np.zeros((n, MAX_PLAYERS), np.int64)  # index of the agent on each seat
        self._length = np.zeros(n, np.int64)  # the learner's decisions in this game
        # How these stood in the last game of each row that has ended.
        self._last_learner, self._last_opponent = self._learner.copy(), self._opponent.copy()
        self._last_length = self._length.copy()
        self._unfinished = False  # whether an opponent has failed in the middle of a step
        self.set_opponents(opponents, shares)

    def set_opponents(self, opponents: Sequence[Agent | str], shares: Sequence[float] | None = None) -> None:
        """Change the agents and their shares; games under way go on against whoever has the same index now."""
        if isinstance(opponents, str) or not isinstance(opponents, Sequence) or not opponents:
            raise ValueError(f"opponents={opponents!r}: must be a sequence of at least one agent")
        agents = [make_agent(agent) if isinstance(agent, str) else agent for agent in opponents]
        for agent in agents:
            if not isinstance(agent, Agent):
                raise ValueError(f"opponents: {agent!r} must be an agent's spec, or have `recall` and `act(decisions)`")
            board = getattr(agent, "board", self.batch.board)
            if board != self.batch.board:
                raise ValueError(f"opponents: {agent!r} plays on board {board!r}, not on {self.batch.board!r}")
        try:
            weights = np.ones(len(agents)) if shares is None else np.array(shares, float)
            if shares is not None and any(isinstance(share, bool | np.bool_) for share in shares):
                raise TypeError
        except (TypeError, ValueError):
            weights = np.empty(0)
        with np.errstate(over="ignore"):
            usable = weights.shape == (len(agents),) and (weights >= 0).all() and 0 < weights.sum() < np.inf
        if not usable:
            raise ValueError(f"shares={shares!r}: must be {len(agents)} finite numbers >= 0, not all of them 0")
        self.opponents = agents
        self._kinds = np.array([builtin_kind(agent) for agent in agents])
        self._cumulative = np.cumsum(weights / weights.sum())
        self._opponent %= len(agents)

    def reset(self, seed: int | Sequence[int] | np.ndarray | None = None) -> Step:
        """Begin a game in every row, see `Batch.reset`, and let the opponents move until the learner is on turn."""
        self.batch.reset(seed)
        batch = self.batch
        _seat_rows(
            self._learner,
            self._opponent,
            self._length,
            batch.states,
            batch.seeds,
            batch.episodes,
            self._cumulative,
        )
        return self._advance(np.arange(self.num_games), None)

    def step(self, actions: np.ndarray) -> Step:
        """Take the learner's decisions, integers [n], and let the opponents move until it is on turn everywhere.

        Raises:
            IllegalActionError: an action is outside its mask, and no game has changed; or an opponent's is.
            RuntimeError: there are no games yet, or an opponent has failed in the last step.
            TypeError: `actions` are not n integers.
        """
        self._require_finished()
        return self._advance(*self.batch.check_actions(actions))

    def look(self) -> Step:
        """The pending decisions as they stand, with nothing done; the learner is on turn everywhere."""
        self._require_finished()
        turn = self.batch.look()
        return self._step(turn.observations, turn.action_masks, np.zeros(self.num_games, np.bool_))

    def snapshot(self) -> dict[str, np.ndarray]:
        """Copies of all that the games and their players depend on, the opponents themselves apart."""
        self._require_finished()
        return {
            **self.batch.snapshot(),
            "learner": self._learner.copy(),
            "opponent": self._opponent.copy(),
            "length": self._length.copy(),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> Step:
        """Go on from a `snapshot` of games with the same settings.

        Raises:
            ValueError: it is no such snapshot, or of more opponents; the games are as they were.
        """
        n = self.num_games
        check_arrays(
            arrays,
            {"learner": ((n,), np.int64), "opponent": ((n, MAX_PLAYERS), np.int64), "length": ((n,), np.int64)},
        )
        states, *_ = self.batch.check_snapshot(arrays)
        if (states["seat"] != arrays["learner"]).any():
            raise ValueError(f"learner={arrays['learner'].tolist()}: must be on turn, {states['seat'].tolist()}")
        outside = (arrays["opponent"] < 0) | (arrays["opponent"] >= len(self.opponents))
        if outside.any():
            named = arrays["opponent"][outside][0]
            raise ValueError(f"opponent {named}: must be the index of one of {len(self.opponents)} opponents")
        self.batch.restore(arrays)
        self._learner[:] = arrays["learner"]
        self._opponent[:] = arrays["opponent"]
        self._length[:] = arrays["length"]
        self._unfinished = False
        return self.look()

    def _advance(self, rows: np.ndarray, actions: np.ndarray | None) -> Step:
        """Take `actions` in `rows`, which are all (nothing for None), then whatever the opponents choose."""
        self._unfinished = True
        batch, n = self.batch, self.num_games
        players = (self._learner, self._opponent, self._length)
        last_players = (self._last_learner, self._last_opponent, self._last_length)
        observations = np.empty((n, batch.observation_size), np.float32)
        masks = np.empty((n, batch.num_actions), np.int8)
        done = np.zeros(n, np.bool_)
        while len(rows):
            waiting = np.empty(len(rows), np.bool_)
            run_shared(
                _advance_rows,
                len(rows),
                batch.threads,
                rows,
                rows if actions is None else actions,
                (actions is not None, batch.lose, self._recall),
                batch.arrays,
                players,
                last_players,
                (self._kinds, self._cumulative),
                (observations, masks, done, waiting),
            )
            rows = rows[waiting]
            if len(rows):
                actions = self._ask_opponents(rows)
        self._unfinished = False
        return self._step(observations, masks, done)

    def __copy__(self) -> "LearnerBatch":
        """A deep copy: two of them on the same arrays would corrupt each other."""
        return copy.deepcopy(self)

    def _require_finished(self) -> None:
        if self._unfinished:
            raise RuntimeError("the last step was left unfinished when an opponent failed: call reset() or restore()")

    def _ask_opponents(self, rows: np.ndarray) -> np.ndarray:
        chooser = self._opponent[rows, self.batch.states["seat"][rows]]
        actions = ask_each(self.opponents, chooser, self.batch, rows)
        try:
            self.batch.check_legal(rows, actions)
        except IllegalActionError as error:
            raise IllegalActionError(f"an opponent's choice: {error}") from None
        return actions

    def _step(self, seen: np.ndarray, masks: np.ndarray, done: np.ndarray) -> Step:
        rows = np.flatnonzero(done)
        final = self.batch.final_states[rows]
        learner = self._last_learner[rows]
        results = np.empty(len(rows), np.float32)
        win_shares = np.empty(len(rows))
        opponents = np.empty((len(rows), MAX_PLAYERS - 1), np.int64)
        _settle(
            final,
            self.batch.forfeited[rows],
            learner,
            self._last_opponent[rows],
            self._reward,
            self._margin_weight,
            results,
            win_shares,
            opponents,
        )
        rewards = np.zeros(self.num_games, np.float32)
        rewards[rows] = results
        views = np.empty((len(rows), seen.shape[1]), np.float32)
        observe_all(final, learner, self._recall, views)
        ended = Ended(rows, views, results, win_shares, self._last_length[rows], opponents)
        return Step(seen, masks, rewards, done, ended)


@kernel
def _seat(row, learner, opponent, length, players, seed, episode, cumulative):
    """Seat the learner and draw the opponents of the game that begins in `row`."""
    length[row] = 0
    learner[row] = (np.uint64(row) + episode) % np.uint64(players)
    for seat in range(MAX_PLAYERS):
        bits = deal.decision_seed(seed, episode, seat, _OPPONENT_STREAM)
        uniform = (bits >> np.uint64(11)) * 2.0**-53
        index = 0
        while index < len(cumulative) - 1 and cumulative[index] <= uniform:
            index += 1
        opponent[row, seat] = index


@kernel
def _seat_rows(learner, opponent, length, states, seeds, episodes, cumulative):
    for row in range(len(states)):
        _seat(row, learner, opponent, length, states[row].players, seeds[row], episodes[row], cumulative)


@shared_kernel
def _advance_rows(first, last, rows, actions, rules, arrays, players, last_players, opponents, out):
    """Take an action in each of `rows`, if `acting`, and go on until the learner is on turn or one must be asked.

    `arrays` are those of `Batch.arrays`; `players` and `last_players` the learner's seats, the opponents and the
    learner's decisions in the present games and in those that ended last; `opponents` their kinds and their cumulative
    shares. `out`: observations, masks, whether the game has ended, whether an opponent must be asked.
    """
    acting, lose, recall = rules
    states, _, seeds, episodes, _, _ = arrays
    learner, opponent, length = players
    last_learner, last_opponent, last_length = last_players
    kinds, cumulative = opponents
    observations, masks, done, waiting = out
    for index in range(first, last):
        row = rows[index]
        s = states[row]
        mask = masks[row]
        action = actions[index]
        waiting[index] = False
        chosen = acting
        while True:
            if chosen:
                length[row] += s.seat == learner[row]
                if play_row(row, action, lose, arrays):
                    done[row] = True
                    last_learner[row] = learner[row]
                    last_opponent[row] = opponent[row]
                    last_length[row] = length[row]
                    _seat(row, learner, opponent, length, s.players, seeds[row], episodes[row], cumulative)
            if s.seat == learner[row]:
                look_at(s, recall, observations[row], mask)
                break
            kind = kinds[opponent[row, s.seat]]
            if kind == ASKED:
                waiting[index] = True
                break
            game.legal_mask(s, mask)
            seed = deal.decision_seed(seeds[row], episodes[row], s.seat, game.decisions_taken(s))
            action = choose(kind, s, mask, seed)
            chosen = True


@kernel
def _settle(final, forfeited, learner, opponent, reward, margin_weight, results, win_shares, opponents):
    """What the ended games `final` brought the learner; `opponent` is by seat, `opponents` clockwise from it."""
    paid, margins = np.empty(MAX_PLAYERS), np.empty(MAX_PLAYERS)
    won = np.empty(MAX_PLAYERS, np.bool_)
    for index in range(len(final)):
        s = final[index]
        seat = learner[index]
        pay(s, forfeited[index], reward, paid)
        pay(s, forfeited[index], MARGIN, margins)
        if forfeited[index]:
            win_shares[index] = 0.0 if s.seat == seat else 1 / (s.players - 1)
        else:
            count = game.winners(s, won)
            win_shares[index] = won[seat] / count
        results[index] = paid[seat]
        results[index] += margin_weight * margins[seat]
        opponents[index] = -1
        for step in range(1, s.players):
            opponents[index, step - 1] = opponent[index, (seat + step) % s.players]
