"""The radar: each step of docs/radar.md is carried out, and leads to examples/radar."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import TIMEOUT_S
from stripline import testing
from stripline.testing import Feed

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/radar.md").read_text()
COMMAND = os.environ.get("STRIPLINE_COMMAND", "")
# The folder with programs that bindings/python/check has compiled.
PROGRAMS = Path(os.environ.get("STRIPLINE_PROGRAMS", ""))
MAIN = 'if __name__ == "__main__":'


class Follower:
    """Carries out the page in a folder: writes the files, and runs the commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.running: subprocess.Popen[str] | None = None
        tools = folder / "tools"
        tools.mkdir()
        (tools / "stripline").symlink_to(COMMAND)
        (tools / "python3").symlink_to(sys.executable)
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        # The interpreter behind the link finds the packages by this variable.
        path = os.pathsep.join(filter(None, sys.path))
        self.environment = os.environ | {
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": path,
            "STRIPLINE_RUNTIME_DIR": str(runtime),
        }

    def write(self, name: str, block: str) -> None:
        self.stop()
        before = self.files.get(name, "")
        if name.endswith(".py"):
            before, _, _ = before.partition(MAIN)
            text = before.rstrip() + "\n\n\n" + block if before else block
            imports = re.findall(r"`(from radar import [^`]*)`", PAGE)
            if name == "test_radar.py" and "MAP" in text:
                text = re.sub(r"from radar import .*", imports[-1], text)
        elif block.startswith("[[connection]]"):
            both = re.search(r'from = .*\nto = .*\n', block)
            assert both
            text = before.replace("[[connection]]\n" + both.group(), block)
            assert text != before
        elif block.startswith("[waveform]"):
            text = block
        else:
            head = block.partition("\n")[0]
            text, count = re.subn(rf"{re.escape(head)}\n(?:.+\n)*", block, before)
            assert count == 1
        self.files[name] = text
        (self.folder / name).write_text(text)

    def run(self, command: str) -> None:
        arguments = command.split()
        if arguments[:2] == ["stripline", "run"] and "--duration" not in arguments:
            pipe, devnull = subprocess.PIPE, subprocess.DEVNULL
            self.running = subprocess.Popen(
                arguments, stdout=devnull, stderr=pipe, text=True, env=self.environment, cwd=self.folder
            )
            assert self.running.stderr is not None
            for line in self.running.stderr:
                if "is running" in line:
                    return
            raise AssertionError("the radar does not run")
        if arguments[:2] == ["stripline", "web"]:
            # The page of a browser has tests of its own.
            arguments.append("--help")
        done = subprocess.run(
            arguments, capture_output=True, text=True, env=self.environment, cwd=self.folder, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        self.outputs[command] = done.stdout + done.stderr

    def stop(self) -> None:
        if self.running is None:
            return
        with self.running as process:
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            process.stderr.read()
            assert process.wait(TIMEOUT_S) == 0
        self.running = None


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    assert COMMAND, "bindings/python/check names the command in STRIPLINE_COMMAND"
    follower = Follower(tmp_path)
    yield follower
    if follower.running is not None:
        follower.running.kill()


def blocks(section: str) -> Iterator[tuple[str, str, str]]:
    """Yields the file, the language and the content of each block. The paragraph before a block
    names the file."""
    for paragraph, language, content in re.findall(r"([^\n]+(?:\n[^\n]+)*)\n\n```(\w+)\n(.*?)```", section, re.S):
        names = re.findall(r"`(\w+\.(?:py|toml))`", paragraph)
        yield names[-1] if names else "radar.py", language, content


def test_every_block_is_found() -> None:
    assert len(list(blocks(PAGE))) == len(re.findall(r"^```\w", PAGE, re.M)) > 15


def test_frames_with_missing_samples_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples/radar")
    radar = importlib.import_module("radar")
    for component, stream, dtype in (
        (radar.Map, radar.ECHOES, np.complex64),
        (radar.Detector, radar.MAP, np.float32),
    ):
        frame = np.random.default_rng(1).standard_normal(stream.frame_shape).astype(dtype)
        part = Feed(frame.reshape(-1)[:-5], sample_index=frame.size + 5)
        result = testing.run(component, {"in": [Feed(frame, stream=stream), part]})
        assert result.properties["cut"] == 1
        assert len(result.packets["out" if component is radar.Map else "marked"]) == 1


def test_the_page_leads_to_the_radar(follower: Follower) -> None:
    for section in PAGE.split("\n## ")[1:]:
        if section.startswith("7."):
            python = follower.outputs["stripline run radar.toml --duration 10"]
            (follower.folder / "detector").symlink_to(PROGRAMS / "radar-detector")
        for name, language, content in blocks(section):
            if language == "sh":
                for command in content.splitlines():
                    follower.run(command)
            else:
                follower.write(name, content)
        follower.stop()
    assert follower.files["radar.py"] == (ROOT / "examples/radar/radar.py").read_text()
    assert (follower.folder / "map.png").read_bytes().startswith(b"\x89PNG")
    echo = next(output for command, output in follower.outputs.items() if " echo " in command)
    assert '"velocity_mps":-6' in echo
    assert all(" time 20" in line for line in echo.splitlines() if line.startswith("packet ")), echo
    assert "detector.threshold" in follower.outputs["stripline set radar detector.threshold=12"]
    # The recording has the echoes: the detector finds the target in each frame.
    assert python.count('"velocity_mps":-6') > 20
    cpp = follower.outputs["stripline run radar.toml --duration 10"]
    assert cpp.count('"velocity_mps":-6') == python.count('"velocity_mps":-6')
    assert (follower.folder / "rec/source.out.slrec").stat().st_size > 1_000_000
