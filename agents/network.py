"""A policy and value network that respects the board.

The same function decides for every cell. Each cell starts from its own features and what is known of the whole game;
a few rounds mix it with the sum of its four neighbours, under one shared weight and without cell positions, and with
the board's mean. Every cell then gives its placement logit, and the mean gives the draw logit and the value. So the
network commutes with the board's eight symmetries by construction, and one size fits all boards.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from isis_env.config import BOARDS, NEIGHBOURS
from isis_env.observation import CELL_PLANES, observation_size


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
        self.register_buffer("adjacency", _adjacency(side), persistent=False)
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
        planes = observations[:, : CELL_PLANES * self.cells].view(-1, CELL_PLANES, self.cells)
        game = observations[:, CELL_PLANES * self.cells :]
        cells = F.relu(self.cell_in(planes.transpose(1, 2)) + self.game_in(game).unsqueeze(1))
        for mix in self.rounds:
            cells = mix(cells, self.adjacency)
        summary = F.relu(self.summary(torch.cat([cells.mean(1), game], dim=1)))
        placement = self.placement(F.relu(self.placement_in(cells))).squeeze(-1)
        logits = torch.cat([placement, self.draw(summary)], dim=1)
        return logits, self.value(summary).squeeze(-1)


class _Round(nn.Module):
    """One round of mixing: cells float[n, cells, channels] -> the same, with a residual connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.own = nn.Linear(channels, channels)
        self.neighbours = nn.Linear(channels, channels, bias=False)
        self.board = nn.Linear(channels, channels, bias=False)

    def forward(self, cells: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
        mixed = self.own(cells) + self.neighbours(adjacency @ cells) + self.board(cells.mean(1, keepdim=True))
        return cells + F.relu(mixed)


def _adjacency(side: int) -> torch.Tensor:
    """float32[cells, cells]: 1 where two cells are orthogonal neighbours."""
    matrix = torch.zeros(side * side, side * side)
    for cell in range(side * side):
        for neighbour in NEIGHBOURS[side, cell]:
            if neighbour >= 0:
                matrix[cell, neighbour] = 1.0
    return matrix
