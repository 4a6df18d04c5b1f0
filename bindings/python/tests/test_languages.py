"""docs/languages.md shows the programs' code, and each publisher works with each subscriber."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from conftest import TIMEOUT_S, line, start

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/languages.md").read_text()
PROGRAMS = Path(os.environ["STRIPLINE_PROGRAMS"])
COMMANDS = {
    name: {
        "rust": [os.environ[f"STRIPLINE_{name.upper()}"]],
        "c": [str(PROGRAMS / f"{name}-c")],
        "cpp": [str(PROGRAMS / f"{name}-cpp")],
        "python": [sys.executable, str(ROOT / f"bindings/python/examples/{name}.py")],
    }
    for name in ("publisher", "subscriber")
}


def shape(text: str) -> str:
    return re.sub(r"\d+", "N", text)


def flat(text: str) -> str:
    """Returns a program's text without the indentation of its lines."""
    return "\n".join(line.strip() for line in text.splitlines())


def test_the_code_is_that_of_the_programs() -> None:
    shown = re.findall(r"\]\(\.\./(\S+)\):\n\n```\w+\n(.*?)```", PAGE, re.S)
    assert len(shown) == 16 == len(re.findall("```(?!text)[a-z]+\n", PAGE))
    for path, code in shown:
        assert flat(code) in flat((ROOT / path).read_text()), path


@pytest.mark.parametrize("subscriber", COMMANDS["subscriber"])
@pytest.mark.parametrize("publisher", COMMANDS["publisher"])
def test_each_publisher_with_each_subscriber(
    domain: str, monkeypatch: pytest.MonkeyPatch, publisher: str, subscriber: str
) -> None:
    monkeypatch.setenv("STRIPLINE_DOMAIN", domain)
    sends = start(*COMMANDS["publisher"][publisher])
    printed = [line(sends)]
    takes = start(*COMMANDS["subscriber"][subscriber])
    printed += [line(takes), line(takes)]
    sends.send_signal(signal.SIGINT)
    printed += [line(sends), line(takes)]
    # A stop of this process lets further lines of packets pass.
    while printed[-1].startswith("packet "):
        printed[-1] = line(takes)
    printed.append(line(takes))
    assert (sends.wait(TIMEOUT_S), takes.wait(TIMEOUT_S)) == (0, 0)
    page = {shape(line) for line in PAGE.splitlines()}
    assert [text for text in printed if shape(text) not in page] == []
    assert printed[-1].endswith(", lost 0")
