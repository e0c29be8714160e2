"""PettingZoo's own suites and registry."""

import importlib
import itertools
import warnings
from functools import partial
from types import SimpleNamespace

import pettingzoo
import pytest
from aec_play import every_form, make
from pettingzoo.test import api_test, performance_benchmark, render_test, seed_test

from isis_env import isis_osiris_v0


@every_form
@pytest.mark.parametrize("illegal", ["raise", "lose"])
def test_pettingzoo_api_test(config, illegal):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        api_test(make(config, illegal=illegal), num_cycles=100)
    expected = (
        "reset options 'options' ignored",  # api_test passes one
        "Observation space for each agent probably should be",  # Dict observations of third-party envs always warn
        "Observation is not a NumPy array",
        "Action mask numpy array is all zeros",  # after the end
    )
    messages = [str(warning.message) for warning in caught if warning.category is UserWarning]
    assert [message for message in messages if not message.startswith(expected)] == []


@every_form
def test_pettingzoo_seed_test(config):
    seed_test(partial(make, config), num_cycles=100)


@every_form
def test_pettingzoo_render_test(config, capsys):
    render_test(partial(make, config))


def test_pettingzoo_performance_benchmark_runs(monkeypatch, capsys):
    """Under a clock of its own that lets its five seconds pass in 300 cycles."""
    ticks = itertools.count(step=1 / 60)
    benchmark = importlib.import_module("pettingzoo.test.performance_benchmark")
    monkeypatch.setattr(benchmark, "time", SimpleNamespace(time=lambda: next(ticks)))
    performance_benchmark(isis_osiris_v0.env(players=3))
    assert "Finished" in capsys.readouterr().out


@pytest.mark.skipif(not hasattr(pettingzoo, "make"), reason="this PettingZoo has no registry")
def test_pettingzoo_makes_the_env_by_name():
    env = pettingzoo.make("aec", "isis_env/isis_osiris_v0", players=4, common_reserve=True, illegal="lose")
    assert isinstance(env.unwrapped, isis_osiris_v0.raw_env)
    env.reset(seed=1)
    assert env.agents == [f"player_{seat}" for seat in range(4)]
    env.step(-1)
    assert all(env.terminations.values())
