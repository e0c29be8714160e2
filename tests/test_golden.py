"""Golden games, replayed through the AEC environment and through the batch engine."""

from fractions import Fraction

import numpy as np
import pytest
from conftest import actions_of, config_of, golden

from isis_env import isis_osiris_v0
from isis_env.baselines import greedy_mask
from isis_env.batch import Batch
from isis_env.game import TILE, UNKNOWN, skipped, winners
from isis_env.notation import cell_name
from isis_env.observation import layout, observations
from isis_env.secrecy import known_states

GAMES = [record for name in ("games", "recall", "greedy") for record in golden(name)]


def fractions(texts: list[str]) -> list[float]:
    return [float(Fraction(text)) for text in texts]


def faces_in_observation(vector: np.ndarray, board: str) -> list[str]:
    part = layout(board)["faces"]
    faces = vector[part.slice] * part.scale
    return sorted(f"{cell_name(cell, part.shape[0])}{int(faces[cell]):+d}" for cell in np.flatnonzero(faces))


def faces_in_state(s: np.record) -> list[str]:
    side = int(s.side)
    seen = [cell for cell in range(side * side) if s.board[cell] == TILE and s.face[cell] != UNKNOWN]
    return sorted(f"{cell_name(cell, side)}{s.face[cell]:+d}" for cell in seen)


def greedy_actions(states: np.ndarray, num_actions: int) -> list[int]:
    mask = np.zeros(num_actions, np.int8)
    greedy_mask(states[0], mask)
    return np.flatnonzero(mask).tolist()


def aec(record: dict, **settings):
    config = config_of(record)
    env = isis_osiris_v0.env(config.players, config.common_reserve, config.board, **settings)
    env.reset(options={"deck": record["deck"], "start_player": record["start"]})
    return env


@pytest.mark.parametrize("reward", ["win", "margin"])
@pytest.mark.parametrize("record", GAMES, ids=lambda record: record["id"])
def test_aec_replays_golden_game(record, reward):
    env = aec(record, reward=reward)
    for (seat, legal), action in zip(record["trace"], actions_of(record["moves"], env.config), strict=True):
        observation, _, terminated, _, _ = env.last()
        assert not terminated
        assert env.agent_selection == f"player_{seat}"
        assert observation["action_mask"].sum() == legal
        env.step(action)
    assert all(env.terminations.values())
    assert env.scores() == record["scores"]
    assert env.winners() == record["winners"]
    assert env.skipped == [tuple(skip) for skip in record["skipped"]]
    assert list(env.rewards.values()) == fractions(record[reward])


@pytest.mark.parametrize("recall", [1, 2, "full"])
@pytest.mark.parametrize("record", golden("recall"), ids=lambda record: record["id"])
def test_aec_shows_every_seat_the_golden_faces(record, recall):
    env = aec(record, recall=recall)
    everything: set[str] = set()  # what was placed so far, which is what full recall sees
    moves = iter(record["moves"])
    actions = actions_of(record["moves"], env.config)
    for index, seen in enumerate(record["seen"]):
        for seat, agent in enumerate(env.possible_agents):
            expected = sorted(everything) if recall == "full" else seen[str(recall)][seat]
            assert faces_in_observation(env.observe(agent)["observation"], record["board"]) == expected
            assert faces_in_state(known_states(env._states, [seat], recall)[0]) == expected
        if index < len(actions):
            if actions[index] != env.config.draw_action:
                move = next(moves)
                everything |= {move} if len(move) > 2 else set()
            env.step(actions[index])


@pytest.mark.parametrize("record", golden("greedy"), ids=lambda record: record["id"])
def test_greedy_allows_exactly_the_golden_actions(record):
    env = aec(record)
    for allowed, action in zip(record["greedy"], actions_of(record["moves"], env.config), strict=True):
        assert greedy_actions(env._states, env.config.num_actions) == allowed
        env.step(action)


@pytest.mark.parametrize("reward", ["win", "margin"])
@pytest.mark.parametrize("board", ["standard", "mini4", "mini3"])
def test_batch_replays_all_golden_games_of_a_board_side_by_side(board, reward):
    records = [record for record in GAMES if record["board"] == board]
    configs = [config_of(record) for record in records]
    batch = Batch(configs, reward=reward)
    turn = batch.reset(0, start_player=[r["start"] for r in records], deck=[r["deck"] for r in records])
    scripts = [actions_of(record["moves"], config) for record, config in zip(records, configs, strict=True)]
    rows = np.arange(len(records))
    for step in range(max(map(len, scripts))):
        rows = np.array([row for row in rows if step < len(scripts[row])])
        if step:
            turn = batch.step(np.array([scripts[row][step - 1] for row in rows]), rows)
        for index, row in enumerate(rows):
            record = records[row]
            assert [turn.seats[index], turn.action_masks[index].sum()] == record["trace"][step]
            if "greedy" in record:
                assert greedy_actions(batch.states[[row]], batch.num_actions) == record["greedy"][step]
            if "seen" in record:
                everything = sorted(move for move in record["moves"][: batch.states["placed"][row]] if len(move) > 2)
                for seat in range(record["players"]):
                    vector = observations(batch.states[[row]], [seat], "full")[0]
                    assert faces_in_observation(vector, board) == everything
                for recall in ("1", "2"):
                    for seat, expected in enumerate(record["seen"][step][recall]):
                        vector = observations(batch.states[[row]], [seat], int(recall))[0]
                        assert faces_in_observation(vector, board) == expected
        ending = np.array([row for row in rows if step == len(scripts[row]) - 1], int)
        if len(ending):
            last = batch.step(np.array([scripts[row][step] for row in ending]), ending)
            assert last.done.all()
            for index, row in enumerate(ending):
                final, record = batch.final_states[row], records[row]
                assert final["score"][: final["players"]].tolist() == record["scores"]
                assert last.rewards[index, : final["players"]].tolist() == fractions(record[reward])
                assert skipped(final) == [tuple(skip) for skip in record["skipped"]]
                won = np.zeros(4, np.bool_)
                winners(final, won)
                assert np.flatnonzero(won).tolist() == record["winners"]
                if "seen" in record:
                    for recall in ("1", "2"):
                        for seat, expected in enumerate(record["seen"][-1][recall]):
                            vector = observations(batch.final_states[[row]], [seat], int(recall))[0]
                            assert faces_in_observation(vector, board) == expected
