"""The guide's two programs in Python print what docs/python.md shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import start

HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs/python.md").read_text()


def start_example(name: str, *arguments: str) -> subprocess.Popen[str]:
    return start(sys.executable, str(HERE.parent / "examples" / name), *arguments)


def shape(text: str) -> str:
    """Returns a line with its numbers left out."""
    return re.sub(r"\d+", "N", text)


def prints(program: subprocess.Popen[str], words: str) -> str:
    """Waits for a line with these words, which the page must have too."""
    assert program.stdout is not None
    shown = {shape(line) for line in PAGE.splitlines()}
    for found in program.stdout:
        assert "Traceback" not in found
        if words in found:
            assert shape(found.rstrip("\n")) in shown, found
            return found
    raise AssertionError(f"no line with `{words}`")


@pytest.mark.parametrize("transport", [[], ["uds"], ["tcp"]])
def test_the_page(domain: str, monkeypatch: pytest.MonkeyPatch, transport: list[str]) -> None:
    monkeypatch.setenv("STRIPLINE_DOMAIN", domain)
    publisher = start_example("publisher.py", *transport)
    prints(publisher, "publishing `iq`; Ctrl-C ends it")
    subscriber = start_example("subscriber.py")
    prints(subscriber, "waiting for `iq`; Ctrl-C ends it")
    assert "1000 samples, power 1.000" in prints(subscriber, "of `tone`")
    publisher.send_signal(signal.SIGINT)
    prints(publisher, "published ")
    prints(subscriber, "end of the stream")
    assert "lost 0" in prints(subscriber, "took ")
    assert (publisher.wait(), subscriber.wait()) == (0, 0)


def test_a_slow_subscriber(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPLINE_DOMAIN", domain)
    publisher = start_example("publisher.py")
    prints(publisher, "publishing")
    subscriber = start_example("subscriber.py", "50")
    assert "(overflow)" in prints(subscriber, "lost ")
    subscriber.send_signal(signal.SIGINT)
    prints(subscriber, "took ")
    publisher.send_signal(signal.SIGINT)
    prints(publisher, "published ")
    assert (publisher.wait(), subscriber.wait()) == (0, 0)


def test_the_page_shows_code_of_the_programs() -> None:
    programs = "\n".join(path.read_text() for path in [*HERE.glob("*.py"), *HERE.parent.glob("examples/*.py")])
    lines = {line.strip() for line in programs.splitlines()}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert blocks
    missing = [line for block in blocks for line in block.splitlines() if line.strip() and line.strip() not in lines]
    assert missing == []
    assert os.path.exists(HERE.parent / "check")
