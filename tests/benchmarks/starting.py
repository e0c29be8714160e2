"""Start-up: the import beside that of what it stands on, and how long a new process takes to its first step.

Every measurement is a whole process, from its start to its end, with the compiled kernels already on disk.
"""

import os
import subprocess
import sys
import time

from tests.benchmarks.rates import ROOT, Comparison, by_turns

BASE = "import pettingzoo, numba"
PROGRAMS = {
    "python": "pass",
    BASE: BASE,
    "import isis_env": "import isis_env",
    "isis_osiris_v0.env(), reset, one step": """
from isis_env import isis_osiris_v0
env = isis_osiris_v0.env()
env.reset(seed=0)
env.step(int(env.last()[0]["action_mask"].argmax()))
""",
    "Batch(GameConfig(), 1024), reset, one step": """
from isis_env.batch import Batch
from isis_env.config import GameConfig
batch = Batch(GameConfig(), 1024)
batch.step(batch.reset(0).action_masks.argmax(axis=1))
""",
}


def seconds(program: str) -> float:
    """How long a process takes that runs `program`, which lies in the working directory as users have it."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # as is the default
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env=environment)
    return time.perf_counter() - begin


def compare() -> Comparison:
    """Measure all of them."""
    medians = by_turns({name: lambda program=program: seconds(program) for name, program in PROGRAMS.items()})
    rows = [{"process": name, "s": median, f"x {BASE}": median / medians[BASE]} for name, median in medians.items()]
    return Comparison("Start-up, kernels cached on disk", rows)
