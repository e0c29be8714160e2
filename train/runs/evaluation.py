"""Measuring the policy of a run against the agents that its config names."""

from isis_env.agent import Agent
from train.config import TrainConfig
from train.evaluate import Evaluation, evaluate


def evaluate_policy(
    config: TrainConfig, policy: Agent, rivals: dict[str, Agent], games: int, progress: bool = False
) -> dict[str, list[Evaluation]]:
    """`policy` against every rival in every form of the game, on deals that training never plays."""
    seed = config.evaluation.seed
    return {
        spec: [evaluate([policy, rival], [config.name, spec], form, games, seed, progress) for form in config.forms()]
        for spec, rival in rivals.items()
    }


def mean_score(evaluations: list[Evaluation]) -> float:
    """The policy's score rate, averaged over the forms of the game."""
    return sum(e.agents[0].score_rate for e in evaluations) / len(evaluations)
