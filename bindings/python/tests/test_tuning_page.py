"""The client of docs/tuning.md, and the commands, tune a simulated receiver of a waveform."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import TIMEOUT_S, run_python, start

import stripline

PAGE = (Path(__file__).parents[3] / "docs/tuning.md").read_text()
COMMAND = os.environ["STRIPLINE_COMMAND"]
WAVEFORM = """
[waveform]
name = "tuned"

[component.receiver]
type = "simulated-receiver"
properties = { frequency = 98e6, rate = 1e5 }

[component.sink]
type = "null-sink"

[[connection]]
from = "receiver.out"
to = "sink.in"
"""


def test_the_page_tunes_a_receiver(domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPLINE_DOMAIN", domain)
    file = tmp_path / "tuned.toml"
    file.write_text(WAVEFORM)
    run = start(COMMAND, "run", str(file), "--quiet")
    with stripline.Node() as node, node.client("tuner") as tuner:
        assert tuner.frequency() == 98e6
        block = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
        assert block is not None
        printed = run_python(block[1])
        assert (printed.stderr, printed.returncode) == ("", 0)
        ranges, reached = printed.stdout.splitlines()
        assert "'max': 10000000000.0" in ranges
        assert (reached, tuner.frequency()) == ("433920000.0", 433.92e6)
        refused = run_python(block[1].replace("433.92e6", "1e12"))
        assert "OutOfRange" in refused.stdout.splitlines()[1]
        # The page's commands.
        for words in re.findall(r"^    stripline (call tuner .*)$", PAGE, re.MULTILINE):
            arguments = words.replace("'", "").split(" ", 3)
            called = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S)
            assert (called.stderr, called.returncode) == ("", 0)
        assert tuner.frequency() == 433.92e6
    run.send_signal(signal.SIGINT)
    assert run.wait(TIMEOUT_S) in (0, 130)
