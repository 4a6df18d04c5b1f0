"""`stripline new --lang python`: the new projects are tested and run, as users do it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TIMEOUT_S

COMMAND = os.environ.get("STRIPLINE_COMMAND", "")
# `python3` is this Python.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, (command, done)
    return done.stdout + done.stderr


def use(folder: Path, name: str, *arguments: str) -> str:
    """Makes a project, and runs the commands that come next. Returns the output of the waveform."""
    assert COMMAND, "bindings/python/check names the command in STRIPLINE_COMMAND"
    steps = run(folder, COMMAND, "new", *arguments, name, "--lang", "python").splitlines()
    assert steps[1].split() == ["cd", name] and steps[2].split()[:3] == ["python3", "-m", "unittest"], steps
    assert [step.strip() for step in steps[3:]] == [f"stripline check {name}.toml", f"stripline run {name}.toml"]
    folder /= name
    text = run(folder, "python3", "-m", "unittest")
    assert text.splitlines()[-1] == "OK" and "Ran 0" not in text, text
    run(folder, COMMAND, "check", f"{name}.toml")
    return run(folder, COMMAND, "run", f"{name}.toml", "--quiet")


@pytest.mark.parametrize("kind", ["filter", "mixer", "source", "windowed", "detector"])
def test_a_component(tmp_path: Path, kind: str) -> None:
    use(tmp_path, f"new-{kind}", "component", "--kind", kind)
    script = next(path for path in (tmp_path / f"new-{kind}").glob("*.py") if "test" not in path.name)
    described = run(tmp_path, sys.executable, str(script), "--describe")
    assert f'"name":"new-{kind}"' in described.replace(" ", "").replace("\n", ""), described


def test_a_waveform(tmp_path: Path) -> None:
    # At 48,000 samples/s there is a pulse every 1000 samples. A window has 100 samples.
    expected = [f"sample {pulse * 10}: level 0.1" for pulse in range(48)]
    assert use(tmp_path, "new-pulses", "waveform").splitlines() == expected
