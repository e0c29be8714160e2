"""Who the learner plays against: its latest self, frozen snapshots of itself, named baselines."""

import copy
from typing import Any

import numpy as np

from agents.learned.agent import NetworkAgent
from agents.learned.network import BoardNetwork
from isis_env.agent import Agent
from isis_env.deal import random_bits
from isis_env.envs.sb3 import IsisOsirisVecEnv
from train.config import SelfPlaySettings

# How fast a snapshot's score follows new games: the weight of one update's mean.
SCORE_STEP = 0.2

# Updates that a snapshot stays in play, so that most games end against the one they began with.
UPDATES_IN_PLAY = 4


class OpponentPool:
    """The opponents of a training run.

    One snapshot is in play at a time, drawn anew every few updates: few distinct networks mean few, large forward
    passes.

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
        self.active: int | None = None  # index of the snapshot in play
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
            self.active = None if self.active is None else max(0, self.active - dropped)

    def append(self, network: BoardNetwork, score: float) -> None:
        """Put a frozen network at the end of the pool."""
        agent = copy.copy(self._latest)
        agent.network = network.requires_grad_(False)
        self.snapshots.append(agent)
        self.scores.append(score)

    def note_shares(self, shares: list[float]) -> None:
        """Learn how games against the snapshot in play went: the learner's shares of the win."""
        if self.active is not None and shares:
            self.scores[self.active] += SCORE_STEP * (float(np.mean(shares)) - self.scores[self.active])

    def draw(self, update: int) -> None:
        """Put a snapshot in play, where there is one and it is time for another."""
        if self.snapshots and (self.active is None or update % UPDATES_IN_PLAY == 0):
            uniform = (int(random_bits(np.uint64(self._seed), np.uint64(update))) >> 11) * 2.0**-53
            drawn = int(np.searchsorted(np.cumsum(self.weights()), uniform, side="right"))
            self.active = min(drawn, len(self.snapshots) - 1)

    def kind(self, index: int) -> str:
        """What an opponent is called in the metrics; as long as there are no snapshots their place is the latest's."""
        return "latest" if self.active is None and self.kinds[index] == "snapshot" else self.kinds[index]

    def seat(self, env: IsisOsirisVecEnv) -> None:
        """Set who is played against until the next update."""
        shares = self.settings
        snapshot = self._latest if self.active is None else self.snapshots[self.active]
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
