"""Seeds, decks and deal ids."""

from collections import Counter

import numpy as np
import pytest

from isis_env import deal
from isis_env.config import BOARDS, GameConfig
from isis_env.deal import Deal


@pytest.mark.parametrize("board", BOARDS)
def test_a_deck_is_a_shuffle_of_the_boards_tiles_whatever_the_form(board):
    for seed in range(50):
        decks = set()
        for players in BOARDS[board].stones_each:
            config = GameConfig(board, players)
            deck, start = Deal(seed, 3).lay_out(config)
            assert sorted(deck[: len(config.faces)]) == sorted(config.faces)
            assert not deck[len(config.faces) :].any()
            assert 0 <= start < players
            decks.add(tuple(deck))
        assert len(decks) == 1, "the same seed deals the same deck to any number of players"


def test_every_tile_is_equally_likely_anywhere_and_every_seat_to_start():
    config = GameConfig("mini3")
    n = 6000
    places: Counter = Counter()
    starts: Counter = Counter()
    for seed in range(n):
        deck, start = Deal(seed).lay_out(config)
        starts[start] += 1
        for place, face in enumerate(deck[:6]):
            places[place, int(face)] += 1
    expected, spread = n / 6, 5 * (n * (1 / 6) * (5 / 6)) ** 0.5
    assert len(places) == 36
    assert all(abs(count - expected) < spread for count in places.values())
    assert abs(starts[0] - n / 2) < 5 * (n / 4) ** 0.5


def test_neighbouring_seeds_and_episodes_give_different_deals():
    config = GameConfig()
    ids = [(seed, episode) for seed in range(40) for episode in range(40)]
    decks = {tuple(Deal(seed, episode).lay_out(config)[0]) for seed, episode in ids}
    assert len(decks) == len(ids)


def test_the_generator_is_splitmix64():
    """First outputs of SplitMix64 from state 1234567, as its reference implementation gives them."""
    reference = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(deal.random_bits(np.uint64(1234567), np.uint64(i))) for i in range(4)] == reference


@pytest.mark.parametrize("source", [Deal(0, 0), Deal(7, 3), Deal(2**64 - 1, 5, start=1)])
def test_deal_ids_are_read_back(source):
    assert Deal.parse(str(source), GameConfig()) == source


def test_the_id_of_a_given_deck_is_the_deck():
    config = GameConfig("mini3")
    source = Deal(start=1, deck=(1, -2, 3, -1, 2, -3))
    assert str(source) == "deck=+1-2+3-1+2-3 start=1"
    assert Deal.parse(str(source), config) == source
    assert source.lay_out(config)[0][:6].tolist() == [1, -2, 3, -1, 2, -3]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "seed=1",
        "seed=-1 episode=0",
        "seed=1 episode=0 start=2",
        f"seed={2**64} episode=0",
        "deck=+1-2+3-1+2-3",
        "deck=+1+1+3-1+2-3 start=0",
        "seed=1 episode=0 ",
        None,
        7,
    ],
)
def test_what_is_no_deal_id_is_an_error_of_one_line(text):
    with pytest.raises(ValueError, match="deal_id") as caught:
        Deal.parse(text, GameConfig("mini3"))
    assert "\n" not in str(caught.value)
