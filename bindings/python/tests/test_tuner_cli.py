"""The guide's tuner: Rust, C, C++ and Python as server and as client, and commands over each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import TIMEOUT_S, line, start

import stripline

HERE = Path(__file__).parent
PAGES = [(HERE.parents[2] / f"docs/{name}.md").read_text() for name in ("python", "languages")]
RUST = os.environ["STRIPLINE_TUNER"]
PROGRAMS_FOLDER = Path(os.environ["STRIPLINE_PROGRAMS"])
COMMAND = os.environ["STRIPLINE_COMMAND"]
PYTHON = (sys.executable, str(HERE.parent / "examples/tuner.py"))
PROGRAMS = {
    "rust": (RUST,),
    "c": (str(PROGRAMS_FOLDER / "tuner-c"),),
    "cpp": (str(PROGRAMS_FOLDER / "tuner-cpp"),),
    "python": PYTHON,
}


@pytest.fixture(autouse=True)
def _domain(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPLINE_DOMAIN", domain)


@pytest.fixture(params=PROGRAMS)
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a server in each language."""
    program = start(*PROGRAMS[request.param], "serve")
    # The servers in C and C++ have no function for the address.
    assert re.fullmatch(r"serving `tuner`( at shm:stripline-[0-9a-f]+)?; Ctrl-C ends it", line(program))
    yield request.param
    program.send_signal(signal.SIGINT)
    assert re.fullmatch(r"answered \d+ calls", line(program))
    assert program.wait(TIMEOUT_S) == 0


def test_the_page_has_what_is_printed() -> None:
    for printed in ("433.9250 MHz", "433.9250 MHz, tuned 1 times", "error: 7000 MHz is not from 1 to 6000 MHz"):
        assert all(printed in page.splitlines() for page in PAGES)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


@pytest.mark.parametrize("client", PROGRAMS)
def test_each_client_calls_each_server(server: str, client: str) -> None:
    program = PROGRAMS[client]
    tuned = run(*program, "tune", "433.92")
    assert (tuned.stdout, tuned.stderr, tuned.returncode) == ("433.9250 MHz\n", "", 0)
    refused = run(*program, "tune", "7000")
    assert (refused.stdout, refused.returncode) == ("", 1)
    assert refused.stderr == "error: 7000 MHz is not from 1 to 6000 MHz\n"
    status = run(*program, "status")
    assert (status.stdout, status.returncode) == ("433.9250 MHz, tuned 1 times\n", 0)


def test_the_commands_show_and_call_each(server: str) -> None:
    listed = run(COMMAND, "services")
    assert listed.returncode == 0
    shape = re.sub(r"[0-9a-f]{16}", "N", listed.stdout)
    operations = """\
    tune: message/cbor -> message/cbor (error: message/cbor)
      Tunes in steps of 12.5 kHz, and returns the frequency reached.
    status: message/cbor -> message/cbor (error: message/cbor)
      Returns the state of the radio.
"""
    assert shape == "tuner\n  N at shm:stripline-N\n" + operations
    (described,) = json.loads(run(COMMAND, "services", "--json").stdout)
    assert described["service"] == "tuner"
    called = run(COMMAND, "call", "tuner", "tune", "433.92e6")
    assert (called.stdout, called.returncode) == ("433925000.0\n", 0)
    refused = run(COMMAND, "call", "tuner", "tune", "7e9")
    assert refused.stderr == 'error: `tuner.tune`: {"OutOfRange":{"frequency_hz":7000000000.0}}\n'
    status = run(COMMAND, "call", "tuner", "status")
    assert json.loads(status.stdout) == {"frequency_hz": 433925000.0, "tunings": 1}
    wrong = run(COMMAND, "call", "tuner", "tune", '"far"')
    assert wrong.returncode != 0 and wrong.stderr.startswith("error: ")


def test_errors_of_a_rust_service_in_python() -> None:
    program = start(RUST, "serve")
    line(program)
    with stripline.Node() as node, node.client("tuner", deadline=TIMEOUT_S) as tuner:
        assert tuner.tune(433.92e6) == 433.925e6
        assert tuner.status() == {"frequency_hz": 433.925e6, "tunings": 1}
        with pytest.raises(stripline.OperationError) as own:
            tuner.tune(7e9)
        assert own.value.value == {"OutOfRange": {"frequency_hz": 7e9}}
        for request in ("far", {"frequency_hz": 1e6}, [1e6, 2e6], None):
            with pytest.raises(stripline.CallRefusedError) as wrong:
                tuner.tune(request)
            assert wrong.value.code == "wrong-type"
        with pytest.raises(stripline.CallRefusedError, match="it has tune, status"):
            tuner.retune()
        (described,) = node.servers()
        assert [it.name for it in described.operations] == ["tune", "status"]
        call = tuner.tune.start(1e6)
        program.kill()
        program.wait(TIMEOUT_S)
        try:
            assert call.wait() == 1e6
        except stripline.ServerGoneError:
            pass
        with pytest.raises(stripline.NoServerError):
            tuner.with_options(deadline=0.1).status()
        # A server that is restarted is found again.
        program = start(*PYTHON, "serve")
        line(program)
        assert tuner.status() == {"frequency_hz": 100e6, "tunings": 0}


def test_without_a_server() -> None:
    for program in PROGRAMS.values():
        ended = run(*program, "tune", "no number")
        assert ended.returncode == 1 and "`no number` is not a number of MHz" in ended.stderr
    wrong = run(*PYTHON, "sing")
    assert (wrong.returncode, wrong.stderr) == (1, "error: use `serve [TRANSPORT]`, `tune MHZ` or `status`\n")


@pytest.mark.parametrize("transport", ["uds", "tcp"])
def test_over_sockets(transport: str) -> None:
    program = start(*PYTHON, "serve", transport)
    assert line(program).startswith(f"serving `tuner` at {transport}:")
    assert run(RUST, "tune", "100").stdout == "100.0000 MHz\n"
    assert run(*PYTHON, "status").stdout == "100.0000 MHz, tuned 1 times\n"
