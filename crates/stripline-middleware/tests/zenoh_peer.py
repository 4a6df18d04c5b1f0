"""A zenoh program in Python publishes to a waveform, and receives its publications back.

    zenoh_peer.py COMMAND [PAYLOADS]      COMMAND: `stripline` with the feature `zenoh`

The program needs the package `eclipse-zenoh`, and `openssl` for links over TLS.
"""

from __future__ import annotations

import os
import pathlib
import queue
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import zenoh

from free_port import free_port

COMMAND = sys.argv[1]
WAVEFORMS: list[subprocess.Popen[str]] = []
PAYLOADS = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
# The limit for waits, so that the test cannot hang.
TIMEOUT_S = 60.0


def certificates(folder: pathlib.Path) -> None:
    """Creates a certificate authority, and a certificate for this host."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "own.key", "-out", "own.csr")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"]
    openssl("x509", "-req", "-in", "own.csr", *signing, "-out", "own.pem")


def start(folder: pathlib.Path, protocol: str, ports: tuple[int, int], address: str) -> subprocess.Popen[str]:
    """Runs a waveform that publishes the samples that it receives."""
    tls = ""
    if protocol == "tls":
        names = [("ca", "ca.pem"), ("certificate", "own.pem"), ("private_key", "own.key")]
        tls = "".join(f', {name} = "{folder / file}"' for name, file in names)
    path = folder / "waveform.toml"
    path.write_text(
        f"""
        [waveform]
        name = "zenoh-{ports[0]}"
        [component.source]
        type = "zenoh-source"
        properties = {{ key = "there/iq", listen = "{protocol}/{address}:{ports[0]}", samples = "f32"{tls} }}
        [component.sink]
        type = "zenoh-sink"
        properties = {{ key = "back/iq", listen = "{protocol}/{address}:{ports[1]}"{tls} }}
        [[connection]]
        from = "source.out"
        to = "sink.in"
        """
    )
    WAVEFORMS.append(subprocess.Popen([COMMAND, "run", str(path), "--quiet"], stderr=subprocess.PIPE, text=True))
    return WAVEFORMS[-1]


def open_session(folder: pathlib.Path, protocol: str, port: int) -> zenoh.Session:
    config = zenoh.Config()
    config.insert_json5("listen/endpoints", "[]")
    config.insert_json5("connect/endpoints", f'["{protocol}/127.0.0.1:{port}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    if protocol == "tls":
        config.insert_json5("transport/link/tls/root_ca_certificate", f'"{folder / "ca.pem"}"')
        config.insert_json5("transport/link/tls/connect_certificate", f'"{folder / "own.pem"}"')
        config.insert_json5("transport/link/tls/connect_private_key", f'"{folder / "own.key"}"')
        config.insert_json5("transport/link/tls/enable_mtls", "true")
    # zenoh tries again until the waveform listens.
    return zenoh.open(config)


def check(protocol: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        if protocol == "tls":
            certificates(folder)
        ports = free_port(), free_port()
        waveform = start(folder, protocol, ports, "127.0.0.1")
        found: queue.Queue[bytes] = queue.Queue()
        there, back = (open_session(folder, protocol, port) for port in ports)
        subscriber = back.declare_subscriber("back/iq", lambda sample: found.put(sample.payload.to_bytes()))
        publisher = there.declare_publisher("there/iq", congestion_control=zenoh.CongestionControl.BLOCK)
        end = time.monotonic() + TIMEOUT_S
        marker = b"mark"
        # Publications are lost until publisher and subscriber have found each other.
        while True:
            publisher.put(marker)
            try:
                assert found.get(timeout=0.1) == marker
                break
            except queue.Empty:
                assert time.monotonic() < end and waveform.poll() is None, "nothing comes back"
        rng = random.Random(7)
        sent = [rng.randbytes(4 * rng.choice([1, 16, 256, 8192, 50_000])) for _ in range(PAYLOADS)]
        publisher.put(b"abc")
        for payload in sent:
            publisher.put(payload)
        for number, payload in enumerate(sent):
            came = found.get(timeout=TIMEOUT_S)
            while number == 0 and came == marker:
                came = found.get(timeout=TIMEOUT_S)
            assert came == payload, f"payload {number} came back as another one"
        subscriber.undeclare()
        there.close()
        back.close()
        waveform.send_signal(signal.SIGINT)
        printed = waveform.communicate(timeout=TIMEOUT_S)[1]
        assert waveform.returncode == 0, printed
        assert "a publication is left out, and further ones are counted: 3 bytes are not" in printed, printed
    print(f"{protocol}: {PAYLOADS} payloads came back as they were, and one of another size is named")


def check_refused(protocol: str, address: str, words: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        waveform = start(pathlib.Path(place), protocol, (free_port(), free_port()), address)
        printed = waveform.communicate(timeout=TIMEOUT_S)[1]
        assert waveform.returncode != 0 and words in printed, f"{waveform.returncode}: {printed}"
    print(f"refused: {words}")


try:
    check_refused("tcp", "0.0.0.0", "is not one address of this host")
    check_refused("tcp", "192.0.2.1", "set `insecure` to true")
    check_refused("udp", "127.0.0.1", "use tcp/HOST:PORT or tls/HOST:PORT")
    for each in ("tcp", "tls"):
        check(each)
except Exception:
    traceback.print_exc()
    for waveform in WAVEFORMS:
        waveform.terminate()
    # Open sessions would keep this process alive.
    os._exit(1)
