"""ZeroMQ programs in Python connect to a waveform with CURVE. Other keys are refused.

    zeromq_curve_peer.py COMMAND      COMMAND: `stripline` with the feature `zeromq`, and a libzmq with CURVE

The program needs the package `pyzmq`.
"""

from __future__ import annotations

import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import zmq
import zmq.auth
import zmq.auth.thread
from zmq.utils.monitor import recv_monitor_message

from free_port import free_port

COMMAND = sys.argv[1]
# The limit for waits, so that the test cannot hang.
TIMEOUT_S = 60.0
REFUSED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
SENT = random.Random(7).randbytes(4 * 100_000)

Keys = tuple[bytes, bytes]
Context = zmq.Context[zmq.Socket[bytes]]


class Folder:
    """The keys of the waveform, of an admitted peer, and of a stranger."""

    def __init__(self, place: str) -> None:
        self.path = pathlib.Path(place)
        for name in ("waveform", "peer", "stranger"):
            zmq.auth.create_certificates(self.path, name)
        (self.path / "known").mkdir()
        (self.path / "known" / "peer.key").write_bytes((self.path / "peer.key").read_bytes())

    def keys(self, name: str) -> Keys:
        public, secret = zmq.auth.load_certificate(self.path / f"{name}.key_secret")
        assert secret is not None
        return public, secret

    def properties(self, keys: str = "waveform.key_secret", peers: str = "known") -> str:
        return f'curve_keys = "{self.path / keys}", curve_peers = "{self.path / peers}"'


@contextmanager
def waveform(folder: Folder, source: str, sink: str) -> Iterator[subprocess.Popen[str]]:
    path = folder.path / "waveform.toml"
    path.write_text(
        f"""
        [waveform]
        name = "curve-{free_port()}"
        [component.source]
        {source}
        [component.sink]
        {sink}
        [[connection]]
        from = "source.out"
        to = "sink.in"
        """
    )
    running = subprocess.Popen([COMMAND, "run", str(path), "--quiet"], stderr=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)


def finish(running: subprocess.Popen[str], folder: Folder) -> str:
    """Ends a waveform, and returns the log."""
    running.send_signal(signal.SIGINT)
    logged = running.communicate(timeout=TIMEOUT_S)[1]
    assert running.returncode == 0, logged
    for name in ("waveform", "peer", "stranger"):
        assert folder.keys(name)[1].decode() not in logged, "a secret key is logged"
    return logged


def client(
    context: Context, kind: int, port: int, own: Keys | None, server: bytes | None
) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes]]:
    """Connects a socket, and returns the socket and its monitor."""
    made = context.socket(kind)
    made.linger = 0
    if own is not None:
        made.curve_publickey, made.curve_secretkey, made.curve_serverkey = *own, server
    monitor = made.get_monitor_socket(REFUSED | zmq.EVENT_HANDSHAKE_SUCCEEDED)
    made.connect(f"tcp://127.0.0.1:{port}")
    return made, monitor


def outcome(monitor: zmq.Socket[bytes]) -> bool:
    """Waits until a handshake has succeeded or failed."""
    assert monitor.poll(1000 * TIMEOUT_S), "neither a handshake nor a refusal"
    return bool(recv_monitor_message(monitor)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED)


def check_strangers(context: Context, folder: Folder, kind: int, port: int) -> None:
    waveform_key = folder.keys("waveform")[0]
    strangers = {
        "with a key that is not known": (folder.keys("stranger"), waveform_key),
        "with another key of the waveform": (folder.keys("peer"), folder.keys("stranger")[0]),
        "without CURVE": (None, None),
    }
    for name, (own, server) in strangers.items():
        stranger, monitor = client(context, kind, port, own, server)
        assert not outcome(monitor), f"a stranger {name} was admitted"
        stranger.disable_monitor()
        stranger.close()


def wait_for(found: pathlib.Path, running: subprocess.Popen[str]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not found.exists() or found.stat().st_size < len(SENT):
        assert time.monotonic() < end and running.poll() is None, "what was sent does not come"
        time.sleep(0.05)
    assert found.read_bytes() == SENT


def check_source_that_binds(context: Context, folder: Folder) -> None:
    port, found = free_port(), folder.path / "found"
    address = f'address = "tcp://127.0.0.1:{port}", bind = true, samples = "u8"'
    source = f'type = "gr-zeromq-source"\nproperties = {{ {address}, {folder.properties()} }}'
    sink = f'type = "file-sink"\nproperties = {{ path = "{found}" }}'
    with waveform(folder, source, sink) as running:
        peer, monitor = client(context, zmq.PUSH, port, folder.keys("peer"), folder.keys("waveform")[0])
        assert outcome(monitor), "the known peer was refused"
        check_strangers(context, folder, zmq.PUSH, port)
        for start in range(0, len(SENT), 4096):
            peer.send(SENT[start : start + 4096])
        wait_for(found, running)
        peer.disable_monitor()
        peer.close()
        logged = finish(running, folder)
        assert folder.keys("stranger")[0].decode() in logged and "is not one of `curve_peers`" in logged, logged
        assert "has failed to connect" in logged, logged
    print("a source that binds takes what a known peer sends, and refuses three strangers")


def check_sink_that_binds(context: Context, folder: Folder) -> None:
    port = free_port()
    address = f'address = "tcp://127.0.0.1:{port}"'
    # The admitted peer is set by a file instead of a folder.
    curve = folder.properties(peers="peer.key")
    sink = f'type = "gr-zeromq-sink"\nproperties = {{ {address}, {curve} }}'
    source = 'type = "signal-generator"\nproperties = { sample_rate = 1e5 }'
    with waveform(folder, source, sink) as running:
        check_strangers(context, folder, zmq.PULL, port)
        peer, monitor = client(context, zmq.PULL, port, folder.keys("peer"), folder.keys("waveform")[0])
        assert outcome(monitor), "the known peer was refused"
        assert peer.poll(1000 * TIMEOUT_S) and len(peer.recv()) % 8 == 0
        peer.disable_monitor()
        peer.close()
        finish(running, folder)
    print("a sink that binds sends to a known peer alone")


def check_source_that_connects(context: Context, folder: Folder) -> None:
    guard = zmq.auth.thread.ThreadAuthenticator(context)
    guard.start()
    guard.configure_curve(domain="*", location=str(folder.path / "admitted"))
    server = context.socket(zmq.PUSH)
    server.linger = 0
    server.curve_publickey, server.curve_secretkey = folder.keys("peer")
    server.curve_server = True
    port, found = server.bind_to_random_port("tcp://127.0.0.1"), folder.path / "found-too"
    address = f'address = "tcp://127.0.0.1:{port}", samples = "u8"'
    sink = f'type = "file-sink"\nproperties = {{ path = "{found}", existing = "replace" }}'
    # Try the key of another server, then a key that the server does not admit, then the right keys.
    for keys, peers, is_right in [
        ("waveform.key_secret", "stranger.key", False),
        ("stranger.key_secret", "peer.key", False),
        ("waveform.key_secret", "peer.key", True),
    ]:
        curve = folder.properties(keys, peers)
        source = f'type = "gr-zeromq-source"\nproperties = {{ {address}, {curve} }}'
        with waveform(folder, source, sink) as running:
            if is_right:
                for start in range(0, len(SENT), 4096):
                    server.send(SENT[start : start + 4096])
                wait_for(found, running)
                finish(running, folder)
            else:
                assert running.stderr is not None
                logged = ""
                while "has failed to connect" not in logged:
                    line = running.stderr.readline()
                    assert line, f"it has ended: {logged}"
                    logged += line
                running.send_signal(signal.SIGINT)
                running.communicate(timeout=TIMEOUT_S)
                assert running.returncode == 0
    server.close()
    guard.stop()
    print("a source that connects takes what the right server sends, and names a handshake that fails")


def check_bad_files(folder: Folder) -> None:
    (folder.path / "none").mkdir()
    (folder.path / "garbage").write_bytes(bytes(range(256)) * 10)
    (folder.path / "huge").write_bytes(b"#" * 100_000)
    (folder.path / "short.key_secret").write_text('curve\n    public-key = "abc"\n    secret-key = "abc"\n')
    cases = [
        ("missing", "known", "cannot read the keys in"),
        ("garbage", "known", "has no `public-key"),
        ("huge", "known", "is not a file of keys"),
        ("short.key_secret", "known", "has no `public-key"),
        ("peer.key", "known", "has no `secret-key"),
        ("waveform.key_secret", "none", "so no peer may connect"),
        ("waveform.key_secret", "missing", "cannot read the keys in"),
    ]
    for keys, peers, words in cases:
        curve = folder.properties(keys, peers)
        address = f'address = "tcp://127.0.0.1:{free_port()}", bind = true'
        source = f'type = "gr-zeromq-source"\nproperties = {{ {address}, {curve} }}'
        with waveform(folder, source, 'type = "null-sink"') as running:
            logged = running.communicate(timeout=TIMEOUT_S)[1]
            assert running.returncode != 0 and words in logged, f"{keys}, {peers}: {running.returncode}: {logged}"
    source = 'type = "gr-zeromq-source"\nproperties = { address = "tcp://127.0.0.1:9", ' + folder.properties() + " }"
    with waveform(folder, source, 'type = "null-sink"') as running:
        logged = running.communicate(timeout=TIMEOUT_S)[1]
        assert running.returncode != 0 and "is a folder" in logged, logged
    print(f"{len(cases) + 1} files that do not fit are named")


def main() -> None:
    with tempfile.TemporaryDirectory() as place, zmq.Context() as context:
        folder = Folder(place)
        (folder.path / "admitted").mkdir()
        (folder.path / "admitted" / "waveform.key").write_bytes((folder.path / "waveform.key").read_bytes())
        check_source_that_binds(context, folder)
        check_sink_that_binds(context, folder)
        check_source_that_connects(context, folder)
        check_bad_files(folder)


main()
