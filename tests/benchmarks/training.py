"""Training: `configs/ppo_2p.yaml` as it stands, beside MaskablePPO in the way of PettingZoo's SB3 tutorial.

The peer steps one AEC environment of the same game, `isis_osiris_v0.env(recall="full")`, behind an adapter that shows
SB3 whichever seat is on turn, with the masks through sb3-contrib's `ActionMasker`. It learns with the same network and
the same workload per step: as many steps to an update as ours, minibatches and epochs as in our config. A second peer
has the tutorial's own settings, sb3-contrib's defaults: a perceptron of 64 x 64, 10 epochs, minibatches of 64.

On one core and one thread, then on all of them, by turns. A step of ours is a decision of the learner; those of the
opponents, about as many again, are not counted. Of a peer all count, for it learns from those of both seats.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import gymnasium
import numpy as np
from pettingzoo.utils import BaseWrapper
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.wrappers import ActionMasker

from isis_env import isis_osiris_v0
from isis_env.kernels.threads import available_cores
from tests.benchmarks.rates import Comparison, by_turns, one_core
from train.config import TrainConfig
from train.config_file import read_config
from train.ppo.policy import BoardPolicy
from train.profile import profile, train_on, warmed_up

CONFIG_FILE = Path(__file__).parents[2] / "configs" / "ppo_2p.yaml"
UPDATES = 2  # per measurement
ROUNDS = 3  # a round takes half a minute
PROFILED = 5
OURS = "python -m train configs/ppo_2p.yaml"
SAME = "tutorial's way, same network, minibatches, epochs"
TUTORIAL = "tutorial's way, tutorial's settings"


class SeatOnTurn(BaseWrapper, gymnasium.Env):
    """An AEC environment as one agent that decides for every seat; the reward is that of the seat that has just acted.

    As in the tutorial the observation behind a step is the next seat's, so that values are bootstrapped from the
    opponent's view: fit to measure speed, not to learn well.
    """

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        seat = self.possible_agents[0]
        self.observation_space = self.env.observation_space(seat)["observation"]
        self.action_space = self.env.action_space(seat)
        return self.observe(self.agent_selection), {}

    def step(self, action):
        seat = self.agent_selection
        super().step(action)
        ended = self.terminations[seat], self.truncations[seat]
        return self.observe(self.agent_selection), self._cumulative_rewards[seat], *ended, self.infos[seat]

    def observe(self, agent):
        return super().observe(agent)["observation"]

    def action_mask(self) -> np.ndarray:
        """int8[A]: the legal actions of the seat on turn."""
        return super().observe(self.agent_selection)["action_mask"]


def peer(policy: type[MaskableActorCriticPolicy], steps: int, **settings) -> Callable[[], float]:
    """A workload: `steps` more steps of a learner on one AEC environment, in steps per second."""
    env = SeatOnTurn(isis_osiris_v0.env(recall="full"))
    env.reset(seed=0)  # the spaces are there from now on
    model = MaskablePPO(policy, ActionMasker(env, SeatOnTurn.action_mask), seed=0, device="cpu", **settings)

    def run() -> float:
        begin = time.perf_counter()
        model.learn(steps, reset_num_timesteps=False)
        return steps / (time.perf_counter() - begin)

    return run


def same_workload(config: TrainConfig) -> Callable[[], float]:
    """The peer with our network and our workload per step."""
    ppo = config.ppo
    steps = ppo.n_envs * ppo.n_steps
    kwargs = asdict(config.network)
    same = {"n_steps": steps, "batch_size": ppo.batch_size, "n_epochs": ppo.n_epochs}
    return peer(BoardPolicy, steps, **same, policy_kwargs=kwargs)


def measured(cores: int) -> tuple[dict[str, float], float]:
    """Steps per second of all of them on so many cores, and the share of our time that the network takes."""
    with ExitStack() as stack:
        if cores == 1:
            stack.enter_context(one_core())
        parent = stack.enter_context(TemporaryDirectory())
        # This sets torch's threads, for the peers too.
        config, folder, setup = warmed_up(read_config(CONFIG_FILE, ["--threads", str(cores)]), Path(parent))

        def ours() -> float:
            begin = time.perf_counter()
            steps = train_on(config, folder, setup, UPDATES)
            return steps / (time.perf_counter() - begin)

        tutorial = peer(MaskableActorCriticPolicy, 2048)
        rates = by_turns({SAME: same_workload(config), TUTORIAL: tutorial, OURS: ours}, ROUNDS)
        return rates, profile(config, PROFILED).network


def compare() -> Comparison:
    """Measure all of them, and where the time of ours goes, on one core and on all."""
    rows: list[dict[str, str | float | None]] = []
    remarks = [
        f"Medians of {ROUNDS} rounds; ratios are of runs on as many cores.",
        "A step of ours is a decision of the learner, opponents' not counted; of the others every decision counts.",
    ]
    for cores in sorted({1, available_cores()}):
        rates, network = measured(cores)
        on = f"{cores} cores" if cores > 1 else "one core"
        for name, rate in rates.items():
            ratios = {"x same": rate / rates[SAME], "x tutorial": rate / rates[TUTORIAL]}
            rows.append({"workload": f"{name}, {on}", "steps/s": rate, **ratios})
        remarks.append(
            f"On {on} ours spends {network:.0%} of its time in the network's own forward and backward passes."
        )
    return Comparison("Training, 2 players, recall full", rows, remarks)
