"""The C program of the benchmarks does the same as the batch, or its speed would say nothing."""

import subprocess

import pytest

from isis_env.batch import Batch
from tests.benchmarks.batches import COMPARED_CONFIGS, COMPARED_GAMES, Ours, check_same
from tests.benchmarks.c_engine import Engine, build

pytestmark = pytest.mark.slow


def test_the_c_program_and_the_batch_agree_bit_for_bit(tmp_path):
    try:
        library = build(tmp_path)
    except OSError as error:
        pytest.skip(str(error))
    except subprocess.CalledProcessError as error:
        pytest.fail(error.stderr)
    for config in COMPARED_CONFIGS:
        batch = Batch(config, COMPARED_GAMES)
        check_same(Engine(library, config, COMPARED_GAMES), Ours(batch, batch.reset(0)))
