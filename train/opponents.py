"""Who the learner plays against: its latest self, frozen snapshots of itself, named baselines."""

import copy
from typing import Any

import numpy as np

from agents.learned import NetworkAgent
from agents.network import BoardNetwork
from isis_env.deal import random_bits
from isis_env.envs.sb3 import IsisOsirisVecEnv
from isis_env.policy import Agent
from train.config import SelfPlaySettings

# How fast a snapshot's score follows new games: the weight of one update's mean.
SCORE_STEP = 0.2


class OpponentPool:
    """The opponents of a training run.

    One snapshot is in play at a time, drawn anew at every update: few distinct networks mean few, large forward passes.

    Args:
        settings: shares, size of the pool and how it is drawn from.
        network: the network under training.
        recall: the recall it is given.
        baselines: named agents.
        seed: of the draws.

    Attributes:
        kinds: what the places among the environment's opponents are called in the metrics.
        snapshots: frozen agents, oldest first.
        scores: the learner's recent score against each, in [0, 1].
    """

    def __init__(
        self,
        settings: SelfPlaySettings,
        network: BoardNetwork,
        recall: Any,
        baselines: dict[str, Agent],
        seed: int,
    ) -> None:
        self.settings = settings
        self.kinds = ["latest", "snapshot", *baselines]
        self.snapshots: list[NetworkAgent] = []
        self.scores: list[float] = []
        self._active: int | None = None
        self._baselines = baselines
        self._seed = seed
        self._latest = NetworkAgent(
            network, recall, sample=True, temperature=settings.temperature, batch_invariant=False
        )

    def add_snapshot(self) -> None:
        """Freeze the network as it is now; the oldest snapshot makes room."""
        self.append(copy.deepcopy(self._latest.network), score=0.5)
        dropped = len(self.snapshots) - self.settings.pool
        if dropped > 0:
            del self.snapshots[:dropped], self.scores[:dropped]

    def append(self, network: BoardNetwork, score: float) -> None:
        """Put a frozen network at the end of the pool."""
        agent = copy.copy(self._latest)
        agent.network = network.requires_grad_(False)
        self.snapshots.append(agent)
        self.scores.append(score)

    def note_returns(self, returns: list[float]) -> None:
        """Learn how the games against the snapshot in play went."""
        if self._active is not None and returns:
            mean = float(np.mean([1.0 if r > 0 else 0.5 if r == 0 else 0.0 for r in returns]))
            self.scores[self._active] += SCORE_STEP * (mean - self.scores[self._active])

    def seat(self, env: IsisOsirisVecEnv, update: int) -> None:
        """Set who is played against until the next update."""
        shares = self.settings
        snapshot = self._latest
        self._active = None
        if self.snapshots:
            uniform = (int(random_bits(np.uint64(self._seed), np.uint64(update))) >> 11) * 2.0**-53
            self._active = int(np.searchsorted(np.cumsum(self.weights()), uniform, side="right"))
            self._active = min(self._active, len(self.snapshots) - 1)
            snapshot = self.snapshots[self._active]
        opponents = [self._latest, snapshot, *self._baselines.values()]
        env.set_opponents(opponents, [shares.latest, shares.snapshots, *shares.baselines.values()])

    def weights(self) -> np.ndarray:
        """Probability of every snapshot to be the next in play.

        `uniform`; `recent`: proportional to rank, the newest most; `pfsp`: prioritised fictitious self-play (Vinyals et
        al. 2019), proportional to the squared rate at which the learner still loses, plus a little for all.
        """
        n = len(self.snapshots)
        if self.settings.draw == "recent":
            weights = np.arange(1.0, n + 1)
        elif self.settings.draw == "pfsp":
            weights = (1.0 - np.array(self.scores)) ** 2 + 0.01
        else:
            weights = np.ones(n)
        return weights / weights.sum()
