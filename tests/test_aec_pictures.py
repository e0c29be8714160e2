"""What the AEC environment draws."""

import re

import numpy as np
import pytest
from aec_play import every_form, mid_draw, walk

from isis_env import isis_osiris_v0
from isis_env.config import GameConfig
from isis_env.render import render_text
from isis_env.secrecy import known_states


@every_form
@pytest.mark.parametrize("recall", [1, 2, "full"])
def test_ansi_shows_what_the_seat_on_turn_may_know_and_all_after_the_end(config, recall):
    for env, twin, _ in walk(config, games=2, recall=recall, render_mode="ansi"):
        text = env.render()
        board = text.partition("player_0")[0]
        visible = twin.visible(twin.seat if not twin.over else 0, "full" if twin.over else recall)
        tiles = [cell for cell, piece in enumerate(twin.board) if piece and piece[0] == "tile"]
        assert re.findall(r"\[([+-]\d|  )\]", board) == [f"{visible[c]:+d}" if c in visible else "  " for c in tiles]
        stones = [str(piece[1]) for piece in twin.board if piece and piece[0] == "stone"]
        assert re.findall(r"\((\d)\)", board) == stones
        if twin.held is not None:
            assert f"{twin.held:+d}" in text.partition("to place")[2]


def test_a_full_board_that_is_still_concealed_shows_no_scores():
    for env, _, action in walk(GameConfig(), games=1):
        if action is None:
            concealed = known_states(env._states, np.array([0]), 1)[0]
    text = render_text(concealed)
    assert "score" not in text
    assert "strip" not in text
    assert "127" not in text


@every_form
def test_human_prints_the_same_picture_and_returns_nothing(config, capsys):
    human, actions = mid_draw(config, render_mode="human")
    ansi, _ = mid_draw(config, render_mode="ansi")
    for action in actions:
        capsys.readouterr()
        assert human.render() is None
        assert capsys.readouterr().out.strip() == ansi.render().strip()
        human.step(action)
        ansi.step(action)


def test_render_without_a_mode_warns_and_draws_nothing(capsys):
    env = isis_osiris_v0.env()
    env.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None
    assert capsys.readouterr().out == ""
