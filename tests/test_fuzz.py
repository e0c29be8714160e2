"""Some cases of the fuzz test; `python -m tests.fuzz` runs as many as one likes."""

import random

import pytest

from tests import fuzz

pytestmark = pytest.mark.slow

CASES = 200


def test_damaged_files_and_arguments_are_errors_of_one_line():
    failures = fuzz.run(range(CASES), seed=0)
    assert not failures, "\n\n".join(failures)


def test_a_case_is_the_same_every_time():
    def made(number):
        rng = random.Random(f"0 {number}")
        data = {"a": [1, 2, {"b": "text"}], "c": 1.5}
        return repr((fuzz.damaged_json(rng, data), fuzz.damaged_bytes(rng, b"some bytes"), fuzz.junk(rng)))

    assert [made(number) for number in range(50)] == [made(number) for number in range(50)]
    assert len({made(number) for number in range(50)}) > 40


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("board"), "KeyError"),
        (AttributeError("no attribute"), "AttributeError"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "UnicodeDecodeError"),
        (ValueError("two\nlines"), "is not one line"),
        (ValueError(""), "is not one line"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_what_counts_as_a_failure(error, words, monkeypatch):
    def target(rng, samples, folder):
        def call():
            raise error

        fuzz.expect(call, ValueError)

    monkeypatch.setattr(fuzz, "TARGETS", {"target": target})
    (failure,) = fuzz.run([7], seed=3)
    assert failure.startswith("case 7 of seed 3, target:")
    assert words in failure
