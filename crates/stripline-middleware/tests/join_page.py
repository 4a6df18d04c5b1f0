"""Runs the programs for ZeroMQ and zenoh of docs/join.md beside their waveforms.

    join_page.py COMMAND      COMMAND: `stripline` with the features `zeromq` and `zenoh`

The programs need libzmq (Debian: libzmq3-dev), and the packages `pyzmq` and `eclipse-zenoh`. The
program in C for zenoh runs if pkg-config finds zenoh-c, also by `PKG_CONFIG_PATH`. The programs for
sockets and pipes are tested with the command, by `stripline-cli/tests/cli/network.rs`.
"""

from __future__ import annotations

import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from free_port import free_port

COMMAND = sys.argv[1]
PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "join.md").read_text()
# The limit for waits, so that the test cannot hang.
TIMEOUT_S = 120.0
# The libraries of the programs in C, as pkg-config names them.
LIBRARIES = {"ZeroMQ": "libzmq", "zenoh": "zenohc"}
# The programs that run together, and what each prints: the number of samples and their sum.
RUNS = [
    ("ZeroMQ", {"python": "10000 4950.0\n", "c": ""}),
    ("zenoh", {"python": "10000 10000.0\n"}),
    ("zenoh", {"c": "10000 100.0\n"}),
]


def block(section: str, language: str) -> str:
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.search(f"\n```{language}\n(.*?)```\n", text, re.DOTALL)
    assert found, f"{section}: no program in {language}"
    return found[1]


def library(section: str, query: str) -> list[str]:
    """Returns the flags of the compiler, or fails if there is no such library."""
    command = ["pkg-config", query, LIBRARIES[section]]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def program(section: str, language: str, text: str, folder: pathlib.Path) -> list[str]:
    """Returns the command of a program, which it compiles."""
    if language == "python":
        return [sys.executable, "-c", text]
    (folder / "program.c").write_text(text)
    # A library in a folder of its own is found there also when the program runs.
    folders = [flag.replace("-L", "-Wl,-rpath,") for flag in library(section, "--libs-only-L")]
    compiler = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *library(section, "--cflags"), "program.c"]
    compiler += ["-o", "program", *library(section, "--libs"), *folders]
    subprocess.run(compiler, cwd=folder, check=True)
    return [str(folder / "program")]


def check(section: str, printed: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        ports = {"5555": str(free_port()), "5556": str(free_port())}

        def placed(language: str) -> str:
            text = block(section, language)
            for port, free in ports.items():
                text = text.replace(port, free)
            return text

        commands = [program(section, language, placed(language), folder) for language in printed]
        name = f"join-{ports['5555']}"
        (folder / "waveform.toml").write_text(f'[waveform]\nname = "{name}"\n' + placed("text"))
        waveform = subprocess.Popen([COMMAND, "run", str(folder / "waveform.toml"), "--quiet"])
        programs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
        try:
            for language, each in zip(printed, programs):
                found = each.communicate(timeout=TIMEOUT_S)[0]
                assert (each.returncode, found) == (0, printed[language]), f"{section}, {language}: {found}"
        finally:
            for each in programs:
                each.kill()
            waveform.send_signal(signal.SIGTERM)
            code = waveform.wait(timeout=TIMEOUT_S)
        assert code == 0, f"{section}: the waveform ends with {code}"
        print(f"{section}: the programs of docs/join.md join: {', '.join(printed)}")


for section, printed in RUNS:
    is_optional = section == "zenoh" and "c" in printed
    if is_optional and subprocess.run(["pkg-config", "--exists", LIBRARIES[section]]).returncode != 0:
        print("NOT RUN: the program in C for zenoh: pkg-config finds no zenohc (see docs/join.md)")
    else:
        check(section, printed)
