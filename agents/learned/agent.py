"""Agents that ask a policy network."""

import numpy as np
import torch

from agents.learned.checkpoint import CheckpointError, load_checkpoint
from agents.learned.inference import from_network, infer
from agents.learned.network import BoardNetwork
from isis_env.agent import Analysis
from isis_env.batch import Decisions
from isis_env.config import shown
from isis_env.deal import random_bits
from isis_env.kernels.jit import kernel
from isis_env.policy import register
from isis_env.secrecy import Recall


class NetworkAgent:
    """Plays a policy network.

    Args:
        network: the network; one under training may be shared, it is read anew at every decision.
        recall: the recall it is given.
        sample: draw from the policy rather than take its most likely action.
        temperature: what the logits are divided by when sampling.
        batch_invariant: answer every row the same, to the last bit, whatever its neighbours: by
            `agents.learned.inference`, on the CPU, with as many threads as torch. Otherwise a network on another device
            is asked there, by torch, whose matrix products may round differently for different batch sizes.
        source: what error messages call the network, such as the path of its checkpoint.

    Raises:
        ValueError: the temperature is not from 1e-6 to 1e6.
    """

    def __init__(
        self,
        network: BoardNetwork,
        recall: Recall = "full",
        *,
        sample: bool = False,
        temperature: float = 1.0,
        batch_invariant: bool = True,
        source: str = "network",
    ) -> None:
        if not 1e-6 <= temperature <= 1e6:
            raise ValueError(f"temperature={shown(temperature)}: must be from 1e-6 to 1e6")
        self.network = network
        self.board = network.board
        self.recall = recall
        self.sample = sample
        self.temperature = temperature
        self.batch_invariant = batch_invariant
        self.source = source

    def act(self, decisions: Decisions) -> np.ndarray:
        """One legal action per row, int64[n].

        Raises:
            CheckpointError: the network's answer is NaN or infinite.
        """
        logits, _ = self._ask(decisions.observations)
        actions = np.empty(len(decisions), np.int64)
        if self.sample:
            _sample(logits, decisions.action_masks, decisions.seeds, 1.0 / self.temperature, actions)
        else:
            _most_likely(logits, decisions.action_masks, actions)
        return actions

    def analyse(self, decisions: Decisions) -> Analysis:
        """The network's value and policy; its value is of the return that it was trained on.

        Raises:
            CheckpointError: the network's answer is NaN or infinite.
        """
        analysis = Analysis.blank(*decisions.action_masks.shape)
        logits, analysis.values[:] = self._ask(decisions.observations)
        masked = np.where(decisions.action_masks, logits.astype(np.float64) / self.temperature, -np.inf)
        weights = np.exp(masked - masked.max(axis=1, keepdims=True))
        analysis.probabilities[:] = weights / weights.sum(axis=1, keepdims=True)
        return analysis

    @torch.inference_mode()
    def _ask(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits float32[n, A] and values float32[n], all finite."""
        device = self.network.value.weight.device
        if self.batch_invariant or device.type == "cpu":
            logits, values = infer(from_network(self.network), observations, torch.get_num_threads())
        else:
            logits, values = (part.cpu().numpy() for part in self.network(torch.from_numpy(observations).to(device)))
        if not (np.isfinite(logits).all() and np.isfinite(values).all()):
            raise not_finite(self.source)
        return logits, values


def not_finite(source: str) -> CheckpointError:
    """The error for a network whose answer no move can be chosen from."""
    return CheckpointError(f"{source}: the network's answer is NaN or infinite and must be finite; weights too large?")


def load_network(path: str) -> BoardNetwork:
    """The network of a run folder or checkpoint folder, for an agent that knows all that has happened.

    Raises:
        CheckpointError: there is none that can be used.
        ValueError: it was trained under limited recall.
    """
    checkpoint = load_checkpoint(path)
    if checkpoint.metadata["recall"] != "full":
        raise ValueError(f"network {path!r} was trained under recall {checkpoint.metadata['recall']}: must be 'full'")
    return checkpoint.network


@register("ppo")
def ppo(path: str, sample: bool = False, temperature: float = 1.0) -> NetworkAgent:
    """The policy of a checkpoint: of a run folder (its latest) or a checkpoint folder.

    Args:
        path: the folder.
        sample: draw from the policy; otherwise its most likely action is played.
        temperature: sharper below 1, flatter above, when sampling.
    """
    if temperature != 1.0 and not sample:
        raise ValueError(f"ppo: temperature={temperature!r} must come with sample=true")
    checkpoint = load_checkpoint(path)
    recall, source = checkpoint.metadata["recall"], str(checkpoint.path)
    return NetworkAgent(checkpoint.network, recall, sample=sample, temperature=temperature, source=source)


@kernel
def _most_likely(logits, masks, actions):
    for row in range(len(logits)):
        best = -1
        for action in range(logits.shape[1]):
            if masks[row, action] and (best < 0 or logits[row, action] > logits[row, best]):
                best = action
        actions[row] = best


@kernel
def _sample(logits, masks, seeds, inverse_temperature, actions):
    """Draw from the masked softmax by inverting its distribution function at the decision's own random number."""
    weights = np.empty(logits.shape[1])
    for row in range(len(logits)):
        highest = -np.inf
        for action in range(logits.shape[1]):
            if masks[row, action]:
                highest = max(highest, logits[row, action])
        total = 0.0
        for action in range(logits.shape[1]):
            weights[action] = np.exp((logits[row, action] - highest) * inverse_temperature) if masks[row, action] else 0
            total += weights[action]
        left = (random_bits(seeds[row], 0) >> np.uint64(11)) * 2.0**-53 * total
        for action in range(logits.shape[1]):
            if masks[row, action]:
                actions[row] = action
                left -= weights[action]
                if left < 0:
                    break
