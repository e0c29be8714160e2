"""The board network as a policy of sb3-contrib's MaskablePPO."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch.nn import functional as F

from agents.learned.inference import from_network, infer
from agents.learned.network import BoardNetwork

_OUT_OF_REACH = torch.finfo(torch.float32).min


class BoardPolicy(MaskableActorCriticPolicy):
    """`BoardNetwork` under SB3's interface: flat observations, one discrete action, masks where they are given.

    Where no gradient is wanted, on the CPU, `agents.learned.inference` answers, several times faster than torch.

    Log-probabilities and entropy are computed from the masked logits directly, which is several times faster than
    through `torch.distributions` and holds for logits of any finite size.

    Args:
        observation_space, action_space, lr_schedule: as SB3 passes them.
        board: which board's observations these are.
        channels, rounds: size of the network.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Any,
        board: str = "standard",
        channels: int = 48,
        rounds: int = 2,
    ) -> None:
        self._network_arguments: dict[str, Any] = {"board": board, "channels": channels, "rounds": rounds}
        super().__init__(observation_space, action_space, lr_schedule)

    def _build(self, lr_schedule: Any) -> None:
        self.network = BoardNetwork(**self._network_arguments)
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]

    def forward(
        self, obs: torch.Tensor, deterministic: bool = False, action_masks: np.ndarray | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Actions int64[n], values [n, 1] and log-probabilities [n]."""
        logits, values = self._ask(obs)
        log_probs = _log_probabilities(logits, action_masks)
        if deterministic:
            actions = log_probs.argmax(dim=1)
        else:  # the Gumbel trick: the arg max of log p + Gumbel noise is distributed as p
            actions = (log_probs - torch.empty_like(log_probs).exponential_().log()).argmax(dim=1)
        return actions, values.unsqueeze(1), log_probs.gather(1, actions.unsqueeze(1)).squeeze(1)

    def evaluate_actions(
        self, obs: torch.Tensor, actions: torch.Tensor, action_masks: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Values [n, 1], log-probabilities of `actions` [n] and entropies [n]."""
        logits, values = self.network(obs)
        log_probs = _log_probabilities(logits, action_masks)
        probabilities = log_probs.exp()
        surprise = torch.where(probabilities > 0, probabilities * log_probs, 0.0)
        chosen = log_probs.gather(1, actions.long().reshape(-1, 1)).squeeze(1)
        return values.unsqueeze(1), chosen, -surprise.sum(dim=1)

    def predict_values(self, obs: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """Values [n, 1]."""
        return self._ask(obs)[1].unsqueeze(1)

    def get_distribution(self, obs: torch.Tensor, action_masks: np.ndarray | None = None) -> MaskableDistribution:  # type: ignore[override]
        """The distribution that `predict` draws from."""
        distribution = self.action_dist.proba_distribution(action_logits=self._ask(obs)[0])
        if action_masks is not None:
            distribution.apply_masking(action_masks)
        return distribution

    def _ask(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [n, A] and values [n]."""
        if torch.is_grad_enabled() or obs.device.type != "cpu":
            return self.network(obs)
        logits, values = infer(from_network(self.network), obs.numpy(), torch.get_num_threads())
        return torch.from_numpy(logits), torch.from_numpy(values)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), **self._network_arguments}


def policy_network(model: MaskablePPO) -> BoardNetwork:
    """The network that `model` trains."""
    assert isinstance(model.policy, BoardPolicy)
    return model.policy.network


def _log_probabilities(logits: torch.Tensor, masks: np.ndarray | torch.Tensor | None) -> torch.Tensor:
    """Log of the softmax over the actions that the masks allow; the others get a huge negative number."""
    if masks is not None:
        allowed = torch.as_tensor(masks, device=logits.device).bool()
        logits = torch.where(allowed, logits, _OUT_OF_REACH)
    return F.log_softmax(logits, dim=1).clamp_min(_OUT_OF_REACH)
