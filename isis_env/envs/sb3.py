"""Many games as a Stable-Baselines3 `VecEnv`: one learner per game against opponents that move inside the step.

A learner's transition runs from its decision to its own next one. Its reward is zero until its game ends, whoever
ends it, and then its whole return. In slot i and episode e the learner sits on seat (i + e) mod n.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from isis_env import deal
from isis_env._jit import kernel
from isis_env.batch import Batch
from isis_env.config import MAX_PLAYERS, GameConfig
from isis_env.game import IllegalActionError
from isis_env.observation import Recall, observations
from isis_env.policy import Agent, ask
from isis_env.reward import MARGIN, returns_all

_OPPONENT_STREAM = 0x0990  # sets the choice of opponents apart from the deals of the same seeds


class IsisOsirisVecEnv(VecEnv):
    """`num_envs` games, each with one learner; observations float32[n, L], masks through `env_method("action_masks")`.

    `infos` are empty but for the last step of a game, which has `terminal_observation` (the learner's view of the full
    board), `episode` (`r` its return, `l` its decisions; `t` is there for SB3 and always 0), `win_share` (1/k for one
    of k winners, else 0) and `opponents` (the index of the agent on every other seat, clockwise from the learner).

    Args:
        config: one setting for all games, or one per game, all on one board.
        num_envs: number of games, where `config` is a single one.
        opponents: the agents that the other seats are drawn from, anew for every seat and episode.
        shares: how often each is drawn, relative to their sum; equally by default.
        seed: slot i plays the deals of `seed + i`; fresh ones without a seed.
        recall, reward, threads: as in `isis_env.batch.Batch`.
        margin_weight: the learner's return is the reward's plus this much per point of margin.
    """

    def __init__(
        self,
        config: GameConfig | Sequence[GameConfig],
        num_envs: int | None = None,
        *,
        opponents: Sequence[Agent],
        shares: Sequence[float] | None = None,
        seed: int | None = None,
        recall: Recall = "full",
        reward: str = "win",
        margin_weight: float = 0.0,
        threads: int | None = None,
    ) -> None:
        self.batch = Batch(config, num_envs, recall=recall, reward=reward, threads=threads)
        self.render_mode = None
        super().__init__(
            self.batch.num_games,
            spaces.Box(-1.0, 1.0, (self.batch.observation_size,), np.float32),
            spaces.Discrete(self.batch.num_actions),
        )
        self._players = np.array([config.players for config in self.batch.configs])
        self._recall = recall
        self._margin_weight = margin_weight
        self._seed = None if seed is None else deal.check_seed(seed)
        self._actions = np.zeros(self.num_envs, np.int64)
        self._masks = np.zeros((self.num_envs, self.batch.num_actions), np.int8)
        self._learner = np.zeros(self.num_envs, np.int64)  # the learner's seat
        self._opponent = np.zeros((self.num_envs, MAX_PLAYERS), np.int64)  # index of the agent on each seat
        self._length = np.zeros(self.num_envs, np.int64)
        self._begun = False
        self.set_opponents(opponents, shares)

    def set_opponents(self, opponents: Sequence[Agent], shares: Sequence[float] | None = None) -> None:
        """Change the agents and their shares; games under way go on against whoever has the same index now."""
        if not opponents:
            raise ValueError("opponents: must hold at least one agent")
        for agent in opponents:
            board = getattr(agent, "board", self.batch.board)
            if board != self.batch.board:
                raise ValueError(f"opponents: {agent!r} plays on board {board!r}, not on {self.batch.board!r}")
        weights = np.ones(len(opponents)) if shares is None else np.asarray(shares, float)
        usable = weights.shape == (len(opponents),) and np.isfinite(weights).all() and (weights >= 0).all()
        if not usable or not weights.sum() > 0:
            raise ValueError(f"shares={shares!r}: must be {len(opponents)} finite numbers >= 0, not all of them 0")
        self.opponents = list(opponents)
        self._cumulative = np.cumsum(weights / weights.sum())
        self._opponent %= len(self.opponents)

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Take effect at the next `reset`: slot i plays the deals of `seed + i`."""
        self._seed = None if seed is None else deal.check_seed(seed)
        return [None if seed is None else seed + slot for slot in range(self.num_envs)]

    def reset(self) -> np.ndarray:
        """Begin a game in every slot, and let the opponents move until the learner is on turn everywhere."""
        turn = self.batch.reset(self._seed)
        self._seed = None
        self._begun = True
        slots = np.arange(self.num_envs)
        self._seat_players(slots)
        self._masks = turn.action_masks
        self._opponents_move(slots[turn.seats != self._learner], turn.observations)
        return turn.observations

    def snapshot(self) -> dict[str, np.ndarray]:
        """Copies of all that the games and their players depend on, the opponents themselves apart."""
        return {
            **self.batch.snapshot(),
            "learner": self._learner.copy(),
            "opponent": self._opponent.copy(),
            "length": self._length.copy(),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Go on from a `snapshot` of an environment with the same settings; returns the pending observations."""
        self.batch.restore(arrays)
        self._learner[:] = arrays["learner"]
        self._opponent[:] = arrays["opponent"]
        self._length[:] = arrays["length"]
        turn = self.batch.look()
        self._masks = turn.action_masks
        self._begun = True
        return turn.observations

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Observations [n, L], rewards float32[n], dones bool[n], and the infos of the class description."""
        rewards = np.zeros(self.num_envs, np.float32)
        dones = np.zeros(self.num_envs, np.bool_)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        slots = np.arange(self.num_envs)
        turn = self.batch.step(self._actions)
        self._length += 1
        self._masks = turn.action_masks
        self._settle(slots[turn.done], turn.rewards[turn.done], rewards, dones, infos)
        waiting = slots[turn.seats != self._learner]
        self._opponents_move(waiting, turn.observations, rewards, dones, infos)
        return turn.observations, rewards, dones, infos

    def action_masks(self) -> np.ndarray:
        """int8[n, A]: the learner's legal actions, a fresh array."""
        if not self._begun:
            raise RuntimeError("action_masks() before reset(): call reset() first")
        return self._masks.copy()

    def _opponents_move(self, waiting: np.ndarray, into: np.ndarray, *settlement: Any) -> None:
        """Let the opponents decide in the slots `waiting` until the learner is on turn in all of them."""
        while len(waiting):
            actions = self._opponents_choose(waiting)
            try:
                sub = self.batch.step(actions, waiting)
            except IllegalActionError as error:
                raise IllegalActionError(f"an opponent's choice: {error}") from None
            into[waiting] = sub.observations
            self._masks[waiting] = sub.action_masks
            if sub.done.any():
                self._settle(waiting[sub.done], sub.rewards[sub.done], *settlement)
            waiting = waiting[sub.seats != self._learner[waiting]]

    def _opponents_choose(self, slots: np.ndarray) -> np.ndarray:
        actions = np.empty(len(slots), np.int64)
        choosers = self._opponent[slots, self.batch.states["seat"][slots]]
        for index in np.unique(choosers):
            mine = choosers == index
            agent = self.opponents[index]
            actions[mine] = ask(agent, self.batch.decisions(slots[mine], agent.recall))
        return actions

    def _settle(
        self, slots: np.ndarray, returns: np.ndarray, rewards: np.ndarray, dones: np.ndarray, infos: list[dict]
    ) -> None:
        """Book the games that have just ended in `slots`, and seat the players of the next ones."""
        if not len(slots):
            return
        learner = self._learner[slots]
        final = self.batch.final_states[slots]
        index = np.arange(len(slots))
        rewards[slots] = returns[index, learner]
        if self._margin_weight:
            margins = np.empty((len(slots), MAX_PLAYERS))
            returns_all(final, MARGIN, margins)
            rewards[slots] += self._margin_weight * margins[index, learner]
        dones[slots] = True
        views = observations(final, learner, self._recall)
        scores = np.where(np.arange(MAX_PLAYERS) < self._players[slots, None], final["score"], -np.inf)
        won = scores == scores.max(axis=1, keepdims=True)
        shares = won[index, learner] / won.sum(axis=1)
        for slot, seat, view, share in zip(slots.tolist(), learner.tolist(), views, shares.tolist(), strict=True):
            players = self._players[slot]
            infos[slot] = {
                "terminal_observation": view,
                "episode": {"r": float(rewards[slot]), "l": int(self._length[slot]), "t": 0.0},
                "win_share": share,
                "opponents": [int(self._opponent[slot, (seat + k) % players]) for k in range(1, players)],
            }
        self._seat_players(slots)

    def _seat_players(self, slots: np.ndarray) -> None:
        """Seat the learner and draw the opponents of the games that begin in `slots`."""
        self._length[slots] = 0
        episodes = self.batch.episodes[slots]
        self._learner[slots] = (slots.astype(np.uint64) + episodes) % self._players[slots].astype(np.uint64)
        uniform = np.empty((len(slots), MAX_PLAYERS))
        _draw_uniform(self.batch.seeds[slots], episodes, uniform)
        last = len(self.opponents) - 1
        self._opponent[slots] = np.minimum(np.searchsorted(self._cumulative, uniform, side="right"), last)

    # What SB3 asks of a VecEnv beyond stepping. One object serves all games, so indices select rows of one answer.

    def close(self) -> None:
        """Nothing to release."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        if indices is not None:
            raise NotImplementedError("set_attr with indices: all games are one object")
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        answer = getattr(self, method_name)(*args, **kwargs)
        if method_name == "action_masks":  # one array for all games; its rows are the games' answers
            return answer if indices is None else answer[list(self._get_indices(indices))]
        return [answer] * len(list(self._get_indices(indices)))

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))


@kernel
def _draw_uniform(seeds, episodes, out):
    """Uniform numbers in [0, 1) per row and seat, fixed by the row's seed and episode."""
    for row in range(len(seeds)):
        for seat in range(out.shape[1]):
            bits = deal.decision_seed(seeds[row], episodes[row], seat, _OPPONENT_STREAM)
            out[row, seat] = (bits >> np.uint64(11)) * 2.0**-53
