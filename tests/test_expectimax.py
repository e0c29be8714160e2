"""Pruned expectimax against a full search of every turn, action by action, and the evaluation that it ends in."""

import numpy as np
import pytest
from conftest import ALL_FORMS, form_id
from test_exact import played

from agents.__main__ import pending
from agents.search.evaluation import FORMS, estimate_margins, form_index, load_weights, win_returns
from agents.search.exact import TIE, solve
from agents.search.expectimax import Expectimax, judge
from agents.search.position import free_cells, new_positions, place
from isis_env import GameConfig, game
from isis_env.config import MAX_FACE
from isis_env.game import NOTHING, STATE
from isis_env.reward import REWARDS, returns

pytestmark = pytest.mark.slow


def positions_with(form, free, seeds):
    """States `STATE[1]` of random games with just so many free cells: between two turns, and with a tile in hand."""
    found = []
    for seed in seeds:
        found += [np.array([s], STATE) for twin, s in played(form, seed, free) if len(twin.free_cells()) == free]
    return found


# Pruning


class FullSearch:
    """Max^n over whole turns without pruning; of equal actions the first in the kernel's order counts."""

    def __init__(self, agent, form):
        self.kind = REWARDS[agent.reward]
        self.weights, self.spread = agent.weights[form], agent.spread[form]

    def value(self, p, turns):
        """Every seat's return after `turns` more turns as the evaluation sees it, `p` being `POSITION[1]`."""
        out = np.zeros(4)
        if game.is_over(p[0]):
            returns(p[0], self.kind, out)
        elif turns == 0:
            judge(p[0], self.kind, self.weights, self.spread[free_cells(p[0])], np.empty(8), out)
        else:
            best = -np.inf
            for _, value in self.after(p, turns):
                if value[p[0].seat] > best:
                    best, out = value[p[0].seat], value
        return out

    def after(self, p, turns):
        """(action, every seat's return after it): cells by what they gain at once, then draw."""
        free = p[0].free[: free_cells(p[0])].tolist() if game.can_place(p[0]) else []
        for cell in sorted(free, key=lambda cell: -self.gain(p[0], cell)):
            child = p.copy()
            place(child[0], cell)
            yield cell, self.value(child, turns - 1)
        if game.can_draw(p[0]):
            mean, total = np.zeros(4), int(p[0].unrevealed.sum())
            for slot in np.flatnonzero(p[0].unrevealed):
                child = p.copy()
                game.draw(child[0], slot - MAX_FACE)
                mean = mean + int(p[0].unrevealed[slot]) / total * self.value(child, turns)
            yield game.cells_of(p[0]), mean

    @staticmethod
    def gain(p, cell):
        if p.held == NOTHING:
            return int(p.tiles_near[cell])
        near = [int(p.stones_near[seat * 36 + cell]) for seat in range(p.players)]
        return int(p.held) * (p.players * near[p.seat] - sum(near))


SEARCHES = [  # form, free cells, depth, seeds of random games
    (GameConfig(), 8, 2, (0, 2)),
    (GameConfig(), 5, 3, (4, 5)),
    (GameConfig(common_reserve=True), 7, 2, (0, 3, 5)),
    (GameConfig("mini4"), 7, 2, (0, 1, 4)),
    (GameConfig("mini3"), 6, 3, (0, 1)),
    (GameConfig(players=3), 6, 2, (0, 1, 2)),
    (GameConfig(players=3, common_reserve=True), 6, 2, (6, 8)),
    (GameConfig(players=4), 6, 2, (0, 4)),
]


@pytest.mark.parametrize("reward", ["win", "margin"])
@pytest.mark.parametrize(("form", "free", "depth", "seeds"), SEARCHES, ids=lambda value: str(value)[:40])
def test_the_choice_is_that_of_the_full_search(form, free, depth, seeds, reward):
    agent = Expectimax(depth, reward, exact=0)
    full = FullSearch(agent, FORMS.index(form))
    held = draws = 0
    for state in positions_with(form, free, seeds):
        seat = int(state[0].seat)
        expected = {action: value[seat] for action, value in full.after(new_positions(state), depth)}
        top = max(expected.values())
        analysis = agent.analyse(pending(state, agent, 0))
        assert analysis.values[0] == pytest.approx(top, abs=1e-12)
        assert set(np.flatnonzero(analysis.probabilities[0])) == {a for a, v in expected.items() if v >= top - TIE}
        for action, value in enumerate(analysis.action_values[0]):
            if np.isnan(value):
                assert action not in expected or expected[action] < top - TIE
            else:
                assert value == pytest.approx(expected[action], abs=1e-12)
        held += state[0].held != NOTHING
        draws += form.draw_action in expected
    assert held
    assert draws


@pytest.mark.parametrize("reward", ["win", "margin"])
@pytest.mark.parametrize(
    "form", [GameConfig(), GameConfig(common_reserve=True), GameConfig("mini4"), GameConfig("mini3")], ids=form_id
)
def test_with_no_horizon_it_finds_the_exact_values(form, reward):
    agent = Expectimax(depth=36, reward=reward, exact=0)
    for state in positions_with(form, 4, (0, 1, 3, 4, 5)):
        seat = int(state[0].seat)
        solution = solve(state[0], reward)
        analysis = agent.analyse(pending(state, agent, 0))
        assert analysis.values[0] == pytest.approx(solution.values[seat], abs=1e-9)
        assert np.flatnonzero(analysis.probabilities[0]).tolist() == solution.best_actions(seat).tolist()


# The evaluation


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_estimates_are_exact_at_a_full_board_and_of_two_players_sum_to_zero(form):
    weights, spread = load_weights()
    (last, *_) = positions_with(form, 1, (1,))
    p, scratch, out, expected = new_positions(last), np.empty(8), np.empty(4), np.empty(4)
    assert FORMS[form_index(p[0])] == form
    estimate_margins(p[0], weights[FORMS.index(form)], scratch, out)
    if form.players == 2:
        assert out[0] == -out[1]
    if p[0].held == NOTHING and not p[0].stones[p[0].seat]:
        game.draw(p[0], int(np.flatnonzero(p[0].unrevealed)[0]) - MAX_FACE)
    place(p[0], p[0].free[0])
    returns(p[0], REWARDS["margin"], expected)
    estimate_margins(p[0], np.full((4, weights.shape[2]), np.nan), scratch, out)
    assert out.tolist() == expected.tolist()
    assert (spread[FORMS.index(form), 1 : form.cells + 1] > 0).all()


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_larger_margin_is_a_larger_share_of_the_win(players):
    rng = np.random.default_rng(players)
    for spread in (1.0, 8.0):
        for size in (1, 10, 138):
            margins = rng.uniform(-size, size, players)
            margins -= margins.mean()
            out, more = margins.copy(), margins.copy()
            win_returns(out, players, spread)
            assert out.sum() == pytest.approx(0, abs=1e-12)
            assert (abs(out) <= 1 + 1e-12).all()
            assert (np.diff(out[np.argsort(margins)]) >= 0).all()
            if size < 138:  # beyond that shares are 0 and 1 to all digits
                more[0] += 0.5
                win_returns(more, players, spread)
                assert more[0] > out[0]
                assert (more[1:] < out[1:]).all()
    even = np.zeros(players)
    win_returns(even, players, 3.0)
    assert even == pytest.approx(np.zeros(players), abs=1e-12)
