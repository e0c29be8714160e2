"""A policy and value network that respects the board.

The same function decides for every cell. Each cell starts from its own features and what is known of the whole game;
a few rounds mix it with the sum of its four neighbours, under one shared weight and without cell positions, and with
the board's mean. Every cell then gives its placement logit, and the mean gives the draw logit and the value. So the
network commutes with the board's eight symmetries by construction, and one size fits all boards.
"""

import math

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from isis_env.config import BOARDS
from isis_env.observation import CELL_PLANES, observation_size

ROWS_AT_A_TIME = 256  # few enough that what one operation writes is still in the cache for the next


class BoardNetwork(nn.Module):
    """Observations float32[n, L] -> logits float32[n, A] of all actions, legal or not, and values float32[n].

    Args:
        board: which board's observations it reads.
        channels: features per cell.
        rounds: how often cells are mixed with their neighbours.
    """

    def __init__(self, board: str = "standard", channels: int = 48, rounds: int = 2) -> None:
        super().__init__()
        self.board = board
        side = BOARDS[board].side
        self.cells = side * side
        features = observation_size(board) - CELL_PLANES * self.cells
        self.register_buffer("beside", torch.ones(side, side).tril(1).triu(-1) - torch.eye(side), persistent=False)
        self.cell_in = nn.Linear(CELL_PLANES, channels)
        self.game_in = nn.Linear(features, channels, bias=False)
        self.rounds = nn.ModuleList(_Round(channels) for _ in range(rounds))
        self.placement_in = nn.Linear(channels, channels)
        self.placement = nn.Linear(channels, 1)
        self.summary = nn.Linear(channels + features, channels)
        self.draw = nn.Linear(channels, 1)
        self.value = nn.Linear(channels, 1)
        # Small last layers: an untrained policy draws about every other time and is near uniform over the cells, an
        # untrained value near zero. From a policy uniform over all actions, which hardly ever draws, learning to draw
        # takes long.
        for head in (self.placement, self.draw, self.value):
            nn.init.orthogonal_(head.weight, gain=0.01)
            nn.init.zeros_(head.bias)
        nn.init.constant_(self.draw.bias, math.log(self.cells))

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if len(observations) <= ROWS_AT_A_TIME or observations.device.type != "cpu":
            return self._decide(observations)
        logits, values = zip(*map(self._decide, observations.split(ROWS_AT_A_TIME)), strict=True)
        return torch.cat(logits), torch.cat(values)

    def _decide(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        n = len(observations)
        planes = observations[:, : CELL_PLANES * self.cells].view(n, CELL_PLANES, self.cells)
        game = observations[:, CELL_PLANES * self.cells :]
        # Cells come first in all that follows: a sum over cells or neighbours is then one of long contiguous runs.
        # The weight is turned in memory, or its gradient would be a matrix product of a shape that is slow.
        own = planes.permute(2, 0, 1).flatten(0, 1) @ self.cell_in.weight.t().contiguous()
        of_game = F.linear(game, self.game_in.weight, self.cell_in.bias)
        cells = F.relu(own.view(self.cells, *of_game.shape) + of_game, inplace=True)
        for mix in self.rounds:
            cells = mix(cells, self.beside)
        summary = F.relu(self.summary(torch.cat([cells.sum(0) / self.cells, game], dim=1)))
        placement = self.placement(F.relu(self.placement_in(cells))).squeeze(-1).t()
        logits = torch.cat([placement, self.draw(summary)], dim=1)
        return logits, self.value(summary).squeeze(-1)


def weight_shapes(board: str, channels: int, rounds: int) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every weight of such a `BoardNetwork`, as in its `state_dict`; no network is made."""
    features = observation_size(board) - CELL_PLANES * BOARDS[board].side ** 2
    shapes: dict[str, tuple[int, ...]] = {"cell_in.weight": (channels, CELL_PLANES), "cell_in.bias": (channels,)}
    shapes["game_in.weight"] = (channels, features)
    for number in range(rounds):
        shapes[f"rounds.{number}.own.weight"] = (channels, channels)
        shapes[f"rounds.{number}.own.bias"] = (channels,)
        shapes[f"rounds.{number}.neighbours.weight"] = (channels, channels)
        shapes[f"rounds.{number}.board.weight"] = (channels, channels)
    shapes["placement_in.weight"], shapes["placement_in.bias"] = (channels, channels), (channels,)
    shapes["summary.weight"], shapes["summary.bias"] = (channels, channels + features), (channels,)
    for head in ("placement", "draw", "value"):
        shapes[f"{head}.weight"], shapes[f"{head}.bias"] = (1, channels), (1,)
    return shapes


class _Round(nn.Module):
    """One round of mixing: cells float[cells, n, channels] -> the same, with a residual connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.own = nn.Linear(channels, channels)
        self.neighbours = nn.Linear(channels, channels, bias=False)
        self.board = nn.Linear(channels, channels, bias=False)

    def forward(self, cells: torch.Tensor, beside: torch.Tensor) -> torch.Tensor:
        own, neighbours, board = self.own, self.neighbours, self.board
        return _Mix.apply(cells, beside, own.weight, own.bias, neighbours.weight, board.weight)


class _Mix(torch.autograd.Function):
    """`cells + relu(own(cells) + neighbours(sum of the four beside) + board(mean))`, and its derivative by hand.

    What autograd makes of that goes over the large tensors nearly twice as often, and here most of a training is spent.
    """

    @staticmethod
    def forward(ctx, cells, beside, own, bias, neighbours, board):
        flat, mean = cells.flatten(0, 1), cells.mean(0)
        around = _add_neighbours(torch.zeros_like(cells), cells, beside).flatten(0, 1)
        mixed = torch.mm(flat, own.t()).addmm_(around, neighbours.t()).view_as(cells)
        mixed += torch.addmm(bias, mean, board.t())
        mixed.relu_()
        ctx.save_for_backward(flat, around, mean, mixed, beside, own, neighbours, board)
        return cells + mixed

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        flat, around, mean, mixed, beside, own, neighbours, board = ctx.saved_tensors
        inner = torch.ops.aten.threshold_backward(gradient, mixed, 0.0)
        inner_flat, inner_sum = inner.flatten(0, 1), inner.sum(0)
        outer = gradient.flatten(0, 1).addmm(inner_flat, own).view_as(mixed)
        _add_neighbours(outer, torch.mm(inner_flat, neighbours).view_as(mixed), beside)
        outer += torch.mm(inner_sum, board) / len(mixed)
        turned = inner_flat.t()
        return outer, None, turned @ flat, inner_sum.sum(0), turned @ around, inner_sum.t() @ mean


def _add_neighbours(to: torch.Tensor, cells: torch.Tensor, beside: torch.Tensor) -> torch.Tensor:
    """Add to every cell of `to` those of `cells` orthogonally beside it; both float[cells, n, channels], contiguous.

    `beside` float[side, side] is 1 where two places on a line are neighbours.
    """
    side = len(beside)
    to.view(side, -1).addmm_(beside, cells.view(side, -1))  # in the rows above and below
    to.view(side, side, -1).baddbmm_(beside.expand(side, side, side), cells.view(side, side, -1))  # in the same row
    return to
