"""What users install is what is tested: the wheel, built, installed and used away from the checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent

USE = """
import importlib.util, pathlib, sys
import isis_env
assert pathlib.Path(isis_env.__file__).is_relative_to(sys.argv[1]), isis_env.__file__
assert importlib.util.find_spec("agents") is None and importlib.util.find_spec("train") is None
env = isis_env.isis_osiris_v0.env(players=3)
env.reset(seed=1)
for agent in env.agent_iter():
    observation, reward, terminated, truncated, info = env.last()
    env.step(None if terminated else int(observation["action_mask"].argmax()))
print(env.scores())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    source = tmp_path_factory.mktemp("source")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    files = tracked or [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and ".venv" not in p.parts]
    for name in files:
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    (file,) = out.glob("*.whl")
    return file


def test_the_wheel_holds_the_library_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"isis_env"}
    assert "isis_env/py.typed" in names
    source = {str(path.relative_to(ROOT)) for path in (ROOT / "isis_env").rglob("*.py")}
    assert source == {name for name in names if name.endswith(".py")}


def test_the_installed_wheel_plays_a_game_away_from_the_checkout(wheel, tmp_path):
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True)
    code = f"import sys; sys.path.insert(0, {str(target)!r})\n{USE}"
    run = subprocess.run([sys.executable, "-c", code, str(target)], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
