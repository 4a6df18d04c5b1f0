"""Runs the programs for ZeroMQ and zenoh of docs/join.md beside their waveforms.

    join_page.py COMMAND      COMMAND: `stripline` with the features `zeromq` and `zenoh`

The programs need libzmq (Debian: libzmq3-dev), and the packages `pyzmq` and `eclipse-zenoh`. The
programs for sockets and pipes are tested with the command, by `stripline-cli/tests/cli/network.rs`.
"""

from __future__ import annotations

import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

COMMAND = sys.argv[1]
PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "join.md").read_text()
# The limit for waits, so that the test cannot hang.
TIMEOUT_S = 120.0
# The programs in Python print the number of samples and their sum.
PRINTED = {"ZeroMQ": "10000 4950.0\n", "zenoh": "10000 10000.0\n"}


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def block(section: str, language: str) -> str | None:
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.search(f"\n```{language}\n(.*?)```\n", text, re.DOTALL)
    return found and found[1]


def check(section: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        ports = {"5555": free_port(), "5556": free_port()}

        def placed(language: str) -> str:
            text = block(section, language) or ""
            for port, free in ports.items():
                text = text.replace(port, free)
            return text

        name = f"join-{ports['5555']}"
        (folder / "waveform.toml").write_text(f'[waveform]\nname = "{name}"\n' + placed("text"))
        waveform = subprocess.Popen([COMMAND, "run", str(folder / "waveform.toml"), "--quiet"])
        try:
            receiver = subprocess.Popen([sys.executable, "-c", placed("python")], stdout=subprocess.PIPE, text=True)
            if block(section, "c") is not None:
                (folder / "program.c").write_text(placed("c"))
                compiler = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "program.c", "-o", "program", "-lzmq"]
                subprocess.run(compiler, cwd=folder, check=True)
                subprocess.run([folder / "program"], check=True, timeout=TIMEOUT_S)
            printed = receiver.communicate(timeout=TIMEOUT_S)[0]
            assert printed == PRINTED[section], f"{section}: {printed}"
        finally:
            receiver.kill()
            waveform.send_signal(signal.SIGTERM)
            code = waveform.wait(timeout=TIMEOUT_S)
        assert code == 0, f"{section}: the waveform ends with {code}"
        print(f"{section}: the programs of docs/join.md join")


for section in PRINTED:
    check(section)
