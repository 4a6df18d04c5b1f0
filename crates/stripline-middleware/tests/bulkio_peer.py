"""A program that is built only from the IDL, with omniidl and g++, joins waveforms through BulkIO
data ports.

    bulkio_peer.py COMMAND [PART]...    COMMAND: `stripline` with the feature `corba`; PART: a function below
"""

from __future__ import annotations

import os
import pathlib
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

COMMAND = str(pathlib.Path(sys.argv[1]).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "corba-peer"
# A time limit that only ends a hang.
TIMEOUT_S = 120.0
TYPES = {
    "u8": "octet",
    "cs16": "cshort",
    "u16": "ushort",
    "s32": "long",
    "u32": "ulong",
    "cf32": "cfloat",
    "f64": "double",
}
# The addresses on which a waveform and the peer listen.
WAYS = {"giop:unix": "unix", "giop:tcp": "tcp/127.0.0.1:0", "giop:ssl": "tls/127.0.0.1:0"}
# TLS files, made anew by each run.
CERTIFICATES = BUILD / "certificates"
NULL = '[component.sink]\ntype = "null-sink"\n'
CONNECTION = '[[connection]]\nfrom = "source.out"\nto = "sink.in"\n'


def build() -> str:
    """Builds the peer. Returns its path."""
    BUILD.mkdir(parents=True, exist_ok=True)
    idl = ROOT / "crates/stripline-corba-sys/idl/bulkio.idl"
    names = ["-Wba", "-Wbh=.hh", "-Wbs=SK.cc", "-Wbd=DynSK.cc"]
    subprocess.run(["omniidl", "-bcxx", *names, "-C", str(BUILD), str(idl)], check=True)
    sources = [str(ROOT / "crates/stripline-middleware/tests/bulkio_peer.cc"), str(BUILD / "bulkioSK.cc"), str(BUILD / "bulkioDynSK.cc")]
    # omniORB has TLS if the TLS library is linked.
    libraries = ["-Wl,--no-as-needed", "-lomnisslTP4", "-lomniDynamic4", "-lomniORB4", "-lomnithread", "-lpthread"]
    program = str(BUILD / "peer")
    subprocess.run(["g++", "-std=c++17", "-O1", f"-I{BUILD}", "-o", program, *sources, *libraries], check=True)
    return program


def certificates() -> None:
    """Makes two authorities, and for each a certificate for this host."""
    shutil.rmtree(CERTIFICATES, ignore_errors=True)
    CERTIFICATES.mkdir()

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=CERTIFICATES, check=True, capture_output=True)

    for ca, own in (("ca", "own"), ("other-ca", "other")):
        authority = ["-subj", f"/CN={ca}", "-keyout", f"{ca}.key", "-out", f"{ca}.pem"]
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", *authority)
        request = ["-subj", "/CN=localhost", "-keyout", f"{own}.key", "-out", f"{own}.csr"]
        openssl("req", "-newkey", "rsa:2048", "-nodes", *request)
        openssl("x509", "-req", "-in", f"{own}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-out", f"{own}.pem")
        # omniORB's own option takes both in one file.
        both = (CERTIFICATES / f"{own}.pem").read_text() + (CERTIFICATES / f"{own}.key").read_text()
        (CERTIFICATES / f"{own}-both.pem").write_text(both)
    openssl("rsa", "-in", "own.key", "-aes128", "-passout", "pass:secret", "-out", "locked.key")
    (CERTIFICATES / "text.pem").write_text("no certificate\n")


def tls(ca: str = "ca.pem", certificate: str = "own.pem", private_key: str = "own.key") -> str:
    """Returns the properties of a component with these files."""
    files = (("ca", ca), ("certificate", certificate), ("private_key", private_key))
    return "".join(f', {name} = "{CERTIFICATES / file}"' for name, file in files)


def tls_options(ca: str = "ca.pem", both: str = "own-both.pem") -> tuple[str, ...]:
    """Returns options of omniORB with these files."""
    files = ("-ORBsslCAFile", str(CERTIFICATES / ca), "-ORBsslKeyFile", str(CERTIFICATES / both))
    return (*files, "-ORBsslKeyPassword", "none", "-ORBsslVerifyMode", "peer,fail")


class Program:
    """A process with lines of output to wait for."""

    def __init__(self, arguments: list[str], *, errors: bool = False) -> None:
        stderr = subprocess.STDOUT if errors else None
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.printed = ""
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def wait_for(self, word: str) -> str:
        """Waits for a line with a word, and returns it. The line may have come before."""
        for line in self.printed.splitlines():
            if word in line:
                return line
        until = time.monotonic() + TIMEOUT_S
        while True:
            line = self.lines.get(timeout=max(0.1, until - time.monotonic()))
            assert line is not None, f"{word!r} does not come; printed:\n{self.printed}"
            self.printed += line + "\n"
            if word in line:
                return line

    def end(self, code: int | None = 0) -> str:
        """Waits for the end, and returns all lines."""
        while (line := self.lines.get(timeout=TIMEOUT_S)) is not None:
            self.printed += line + "\n"
        self.process.wait(timeout=TIMEOUT_S)
        assert code is None or self.process.returncode == code, f"{self.process.returncode}:\n{self.printed}"
        return self.printed

    def stop(self) -> str:
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Place:
    """The folder of a test, and the processes that run in it."""

    def __init__(self, folder: str, peer: str, way: str) -> None:
        self.folder, self.peer_program, self.way = pathlib.Path(folder), peer, way
        self.sockets = 0

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def fresh(self, *names: str) -> list[str]:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        return [self.path(name) for name in names]

    def peer(self, *words: object, options: tuple[str, ...] = ()) -> Program:
        self.sockets += 1
        place = self.path(f"peer{self.sockets}") if self.way == "giop:unix" else "127.0.0.1:"
        if self.way == "giop:ssl" and not any("ssl" in option for option in options):
            options = (*options, *tls_options())
        address = ("-ORBendPoint", f"{self.way}:{place}")
        return Program([self.peer_program, *map(str, words), *address, *options], errors=True)

    def options(self, more: str, *own: str) -> str:
        """Returns a component's properties: its address (unless `more` sets it), its own
        properties, and `more`."""
        listen = [] if "listen" in more else [f'listen = "{WAYS[self.way]}"']
        files = [tls()[2:]] if self.way == "giop:ssl" and "ca =" not in more else []
        return ", ".join([*listen, *files, *own]) + more

    def waveform(self, components: str, connections: str = CONNECTION) -> Program:
        path = self.folder / f"bulkio{self.sockets}.toml"
        path.write_text(components + connections)
        return Program([COMMAND, "run", str(path), "--quiet"], errors=True)

    def source(self, samples: str, ior: str = "source.ior", more: str = "") -> str:
        options = self.options(more, f'samples = "{samples}"', *([f'ior_file = "{ior}"'] if ior else []))
        return f'[component.source]\ntype = "bulkio-source"\nproperties = {{ {options} }}\n'

    def sink(self, ior: str = "sink.ior", more: str = "") -> str:
        options = self.options(more, *([f'ior_file = "{self.path(ior)}"'] if ior else []))
        return f'[component.sink]\ntype = "bulkio-sink"\nproperties = {{ {options} }}\n'

    def numbers(self, name: str, count: int, more: str = "") -> str:
        """Returns a source that reads a file with random samples of `cf32`."""
        (self.folder / name).write_bytes(random.randbytes(8 * count))
        options = f'path = "{self.path(name)}", format = "cf32", packet = 100, sample_rate = 1e6{more}'
        return f'[component.source]\ntype = "file-source"\nproperties = {{ {options} }}\n'


def wait_for(what: str, is_there: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not is_there():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def same(one: str, other: str) -> int:
    """Compares two files, and returns their bytes."""
    first, second = pathlib.Path(one).read_bytes(), pathlib.Path(other).read_bytes()
    assert len(first) > 0, f"{one} is empty"
    assert first == second, f"{one} has {len(first)} bytes, and {other} {len(second)}, or other ones"
    return len(first)


def through_a_waveform(place: Place) -> None:
    """Packets of a client go into a waveform and come out at a servant, unchanged."""
    for samples, kind in TYPES.items():
        for way in ("two-way", "one-way"):
            sent, received, ior, servant_ior = place.fresh("sent", "received", "source.ior", "servant.ior")
            servant = place.peer("serve", kind, servant_ior, received)
            wait_for("the servant's reference", lambda ior=servant_ior: os.path.exists(ior))
            connect = f', connect = "{servant_ior}"'
            waveform = place.waveform(place.source(samples, ior, ", streams = 1") + place.sink("", connect))
            wait_for("the source's reference", lambda ior=ior: os.path.exists(ior))
            place.peer("push", ior, kind, 400, 500, way, sent).end()
            printed = servant.end()
            waveform.end()
            size = same(sent, received)
            mode = int(kind.startswith("c"))
            assert f"stream there mode {mode} rate 2000000 CHAN_RF=1090000000 GAIN=-7 SITE=hill" in printed, printed
            assert "received 400 ended time 1 1700000000 0.399000123" in printed, printed
            assert not os.path.exists(ior), "the reference of a port that has ended is there"
        print(f"{place.way}: {size} bytes of {samples} came back as they were, two-way and one-way")


def a_foreign_uses_port(place: Place) -> None:
    """A `CF::Port` of another program is connected, pushes, and is disconnected."""
    sent, out, uses_ior = place.fresh("sent", "out", "uses.ior")
    uses = place.peer("uses", "cfloat", uses_ior, 500, 1000, sent)
    wait_for("the reference of the uses port", lambda: os.path.exists(uses_ior))
    file = f'[component.sink]\ntype = "file-sink"\nproperties = {{ path = "{out}" }}\n'
    waveform = place.waveform(place.source("cf32", "", f', streams = 1, connect = "{uses_ior}"') + file)
    connected = uses.wait_for("connected ")
    uses.wait_for("pushed")
    disconnected = uses.wait_for("disconnected ")
    assert connected.split()[1] == disconnected.split()[1] and connected.startswith("connected source-"), connected
    waveform.end()
    uses.kill()
    print(f"{place.way}: a CF::Port of the peer was connected, pushed {same(sent, out)} bytes, and was disconnected")


def our_uses_port(place: Place) -> None:
    """The peer connects and disconnects our `CF::Port`, twice: nothing is missing in between."""
    out, ior = place.fresh("out", "sink.ior")
    waveform = place.waveform(place.numbers("numbers", 200_000, ", rate = 5e4") + place.sink("sink.ior"))
    wait_for("the sink's reference", lambda: os.path.exists(ior))
    first = place.peer("join", ior, "cfloat", 300, out).end()
    second = place.peer("join", ior, "cfloat", 0, out).end()
    waveform.end()
    assert " ended" in first and " ended" in second, first + second
    size = same(place.path("numbers"), out)
    print(f"{place.way}: our CF::Port was connected twice and disconnected, and {size} bytes came")


def in_order(place: Place) -> None:
    """10^5 one-way packets come in order."""
    sent, out, ior = place.fresh("sent", "out", "source.ior")
    file = f'[component.sink]\ntype = "file-sink"\nproperties = {{ path = "{out}" }}\n'
    waveform = place.waveform(place.source("cf32", ior, ", streams = 1") + file)
    wait_for("the source's reference", lambda: os.path.exists(ior))
    place.peer("push", ior, "cfloat", 100_000, 8, "one-way", sent).end()
    waveform.end()
    print(f"{place.way}: 100000 one-way packets came in order, {same(sent, out)} bytes")


def bad_calls(place: Place) -> None:
    """Calls with a mistake are refused, and the waveform continues."""
    (ior,) = place.fresh("source.ior")
    waveform = place.waveform(place.source("cf32", ior) + NULL)
    wait_for("the source's reference", lambda: os.path.exists(ior))
    calls = place.peer("faults", ior, options=("-ORBgiopMaxMsgSize", "16777216")).end()
    assert "done" in calls, calls
    if place.way == "giop:tcp":
        garbage_at(pathlib.Path(ior).read_text())
        place.peer("faults", ior, options=("-ORBgiopMaxMsgSize", "16777216")).end()
    logged = waveform.stop()
    assert "3 elements: a complex sample has two" in logged and "calls were refused" in logged, logged
    (ior,) = place.fresh("sink.ior")
    waveform = place.waveform(place.numbers("numbers", 1000) + place.sink("sink.ior"))
    wait_for("the sink's reference", lambda: os.path.exists(ior))
    printed = place.peer("bad-uses", ior).end()
    waveform.stop()
    print(f"{place.way}: refused were " + ", ".join(re.findall(r"refused: ([^:\n]*)", calls + printed)))


def port_of(ior: str) -> int:
    """Returns the port of a reference. With TLS, the port is in a component of the profile."""
    raw = bytes.fromhex(ior.strip()[4:])
    place = raw.index(b"127.0.0.1\0") + 10
    port = int.from_bytes(raw[place : place + 2], "little" if raw[0] else "big")
    if port:
        return port
    # A TLS profile has the port in a component with the tag 20, after two shorts of options.
    at = raw.index(bytes([20, 0, 0, 0] if raw[0] else [0, 0, 0, 20])) + 8
    order = "little" if raw[at] else "big"
    return int.from_bytes(raw[at + 6 : at + 8], order)


def garbage_at(ior: str) -> None:
    """Sends garbage to the address of a reference."""
    port = port_of(ior)
    for message in (
        bytes(4096),
        b"GET / HTTP/1.1\r\n\r\n",
        b"GIOP\x01\x02\x01\x00\xff\xff\xff\xff",
        b"GIOP\x01\x02\x01\x00\x10\x00\x00\x00",
        *(b"GIOP\x01\x02\x01\x00\x40\x00\x00\x00" + random.randbytes(64) for _ in range(200)),
    ):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            # The server may close the connection before all is written.
            try:
                stranger.sendall(message)
            except OSError:
                pass


def bad_references(place: Place) -> None:
    """For references that lead nowhere, the error names them and the likely cause."""
    servant_ior, stale = place.fresh("servant.ior", "stale.ior")
    servant = place.peer("serve", "short", servant_ior)
    wait_for("the servant's reference", lambda: os.path.exists(servant_ior))
    whole = pathlib.Path(servant_ior).read_text().strip()
    pathlib.Path(place.path("cut.ior")).write_text(whole[: len(whole) // 2])
    pathlib.Path(place.path("text.ior")).write_text("no reference\n")
    faults = [
        (servant_ior, "it is not IDL:BULKIO/dataFloat:1.0 but IDL:BULKIO/dataShort:1.0"),
        (place.path("cut.ior"), "is not connected"),
        (place.path("text.ior"), "has no object reference"),
        (place.path("none.ior"), "cannot read the reference"),
        ("corbaloc::127.0.0.1:9/none", "nothing listens there"),
        ("corbaname::127.0.0.1:9#none", "nothing listens there"),
        ("corbaloc::192.0.2.1:9/none", "insecure"),
        ("IOR:zz", "is not connected"),
    ]
    for reference, words in faults:
        waveform = place.waveform(place.numbers("numbers", 1000) + place.sink("", f', connect = "{reference}"'))
        printed = waveform.end(None)
        assert waveform.process.returncode != 0 and words in printed, f"{reference}: {printed}"
    waveform = place.waveform(place.source("cs16", "", f', connect = "{servant_ior}"') + NULL)
    printed = waveform.end(None)
    assert "it is not IDL:CF/Port:1.0 but IDL:BULKIO/dataShort:1.0" in printed, printed
    servant.kill()
    shutil.copy(servant_ior, stale)
    waveform = place.waveform(place.numbers("numbers", 1000) + place.sink("", f', connect = "{stale}"'))
    assert "nothing listens there" in waveform.end(None), waveform.printed
    print(f"{place.way}: {len(faults) + 2} bad references were named")


def killed_peers(place: Place) -> None:
    """If a target is killed in a call, the error names it; the other target gets everything. The
    same holds for a client that is killed."""
    out, ior, good_ior, bad_ior = place.fresh("out", "sink.ior", "good.ior", "bad.ior")
    good, bad = place.peer("serve", "cfloat", good_ior, out), place.peer("stall", "cfloat", bad_ior)
    wait_for("the servants' references", lambda: os.path.exists(good_ior) and os.path.exists(bad_ior))
    connect = f', connections = 1, connect = "{good_ior} {bad_ior}"'
    waveform = place.waveform(place.numbers("numbers", 100_000) + place.sink("", connect))
    bad.wait_for("stalls")
    bad.kill()
    good.end()
    assert "has failed and is disconnected: COMM_FAILURE" in waveform.end(), waveform.printed
    size = same(place.path("numbers"), out)
    # A client, and then another one.
    sent, out, ior = place.fresh("sent", "out", "source.ior")
    file = f'[component.sink]\ntype = "file-sink"\nproperties = {{ path = "{out}" }}\n'
    waveform = place.waveform(place.source("cf32", ior, ", streams = 1") + file)
    wait_for("the source's reference", lambda: os.path.exists(ior))
    client = place.peer("push", ior, "cfloat", 10**7, 1000, "two-way", place.path("lost"))
    wait_for("packets come", lambda: os.path.exists(place.path("lost")) and os.path.getsize(place.path("lost")) > 10**6)
    client.kill()
    place.peer("push", ior, "cfloat", 500, 500, "two-way", sent).end()
    waveform.end()
    tail = pathlib.Path(out).read_bytes()[-os.path.getsize(sent) :]
    assert tail == pathlib.Path(sent).read_bytes(), "the second client's packets are other ones"
    os.unlink(place.path("lost"))
    print(f"{place.way}: a target was killed in a call, and the other one got {size} bytes")
    print(f"{place.way}: a client was killed, and the next one's packets came")


def a_stop_in_a_call(place: Place) -> None:
    """A stop ends a call that waits for its target; calls that wait for a source end with it."""
    (bad_ior,) = place.fresh("bad.ior")
    bad = place.peer("stall", "cfloat", bad_ior)
    wait_for("the servant's reference", lambda: os.path.exists(bad_ior))
    waveform = place.waveform(place.numbers("numbers", 100_000) + place.sink("", f', connect = "{bad_ior}"'))
    bad.wait_for("stalls")
    waveform.process.send_signal(signal.SIGINT)
    waveform.end(None)
    bad.kill()
    # The source waits for the sink, the sink for a target, and the client for the source.
    (ior,) = place.fresh("source.ior")
    waveform = place.waveform(place.source("cf32", ior) + place.sink("sink.ior"))
    wait_for("the source's reference", lambda: os.path.exists(ior))
    client = place.peer("push", ior, "cfloat", 10**7, 100_000, "two-way", place.path("lost"))
    before = -1
    lost = pathlib.Path(place.path("lost"))
    wait_for("packets come", lambda: lost.exists() and lost.stat().st_size > 0)
    while (size := lost.stat().st_size) != before:
        before = size
        time.sleep(0.5)
    assert client.process.poll() is None, client.end(None)
    waveform.process.send_signal(signal.SIGINT)
    waveform.end(None)
    printed = client.end(1)
    assert "OBJECT_NOT_EXIST" in printed or "COMM_FAILURE" in printed or "TRANSIENT" in printed, printed
    os.unlink(place.path("lost"))
    print(f"{place.way}: a stop ended calls that wait, at a sink and at a source")


def names(place: Place) -> None:
    """Ports have names in a naming service, and are found by them."""
    if not shutil.which("omniNames"):
        raise SystemExit("FAILED: omniNames is missing (Debian: omniorb-nameserver)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = place.folder / f"names-{place.way[5:]}"
    folder.mkdir()
    service = subprocess.Popen(
        ["omniNames", "-start", str(port), "-logdir", str(folder), "-ORBendPoint", f"giop:tcp:127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    name = f"corbaname::127.0.0.1:{port}#radio/iq"

    def answers() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            return False
        return True

    wait_for("the naming service", answers)
    sent, out = place.fresh("sent", "out")
    file = f'[component.sink]\ntype = "file-sink"\nproperties = {{ path = "{out}" }}\n'
    try:
        for dead in (True, False):
            marks = place.fresh("mark.ior")
            waveform = place.waveform(place.source("cf32", marks[0], f', streams = 1, name = "{name}"') + file)
            wait_for("the source's reference", lambda marks=marks: os.path.exists(marks[0]))
            if dead:
                # The name then refers to a dead object.
                second = place.waveform(place.source("cf32", "", f', name = "{name}"') + NULL)
                assert "another object that lives" in second.end(None), second.printed
                for component in components_of(waveform):
                    os.kill(component, signal.SIGKILL)
                waveform.end(None)
                wait_for("its object has ended", lambda marks=marks: is_dead(place, marks[0]))
        place.peer("push", name, "cfloat", 100, 100, "two-way", sent).end()
        waveform.end()
        size = same(sent, out)
        sink = place.sink("", f', connect = "{name}"')
        waveform = place.waveform(place.numbers("numbers", 1000) + sink)
        assert "no such name" in waveform.end(None), waveform.printed
    finally:
        service.kill()
        service.wait()
    print(f"{place.way}: {size} bytes came by a name; a living object keeps the name, a dead object loses it")


def components_of(waveform: Program) -> list[int]:
    """Returns the processes of a waveform's components."""
    tasks = pathlib.Path(f"/proc/{waveform.process.pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def is_dead(place: Place, ior: str) -> bool:
    return "failed" in place.peer("push", ior, "cfloat", 0, 0, "two-way", place.path("lost")).end(None)


def one_orb(place: Place) -> None:
    """A process with an ORB only for connections offers none to other programs, and the error names
    the remedy."""
    thread = 'placement = "thread"\n'
    components = f'[component.first]\ntype = "null-source"\n{thread}[component.last]\ntype = "null-sink"\n{thread}'
    connection = '[[connection]]\nfrom = "first.out"\nto = "last.in"\ntransport = "corba"\n'
    (ior,) = place.fresh("source.ior")
    source = place.source("cf32", ior) + thread + NULL + thread
    waveform = place.waveform(components + source, connection + CONNECTION)
    printed = waveform.end(None)
    assert "for connections over `corba`, before this component" in printed, printed
    assert 'placement = "process"' in printed, printed
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        waveform = place.waveform(place.source("cf32", ior, f', listen = "{address}"') + NULL)
        assert "is it an address of this host, and free?" in waveform.end(None), waveform.printed
    print("an ORB that other programs cannot reach was named, with the remedy, and so was an address in use")


def tls_only(place: Place) -> None:
    """Strangers cannot call over TLS, and the error names files with a mistake."""
    if place.way != "giop:ssl":
        return
    sent, out, ior, servant_ior = place.fresh("sent", "out", "source.ior", "servant.ior")
    file = f'[component.sink]\ntype = "file-sink"\nproperties = {{ path = "{out}" }}\n'
    waveform = place.waveform(place.source("cf32", ior, ", streams = 1") + file)
    wait_for("the source's reference", lambda: os.path.exists(ior))
    # The garbage includes calls without TLS.
    garbage_at(pathlib.Path(ior).read_text())
    strangers = [
        ("another authority's certificate", tls_options("ca.pem", "other-both.pem")),
        ("another authority", tls_options("other-ca.pem", "own-both.pem")),
    ]
    for name, options in strangers:
        client = place.peer("push", ior, "cfloat", 1, 10, "two-way", place.path("lost"), options=options)
        assert "failed" in client.end(1), f"{name}: {client.printed}"
    # A client that never begins TLS does not block the next client.
    with socket.create_connection(("127.0.0.1", port_of(pathlib.Path(ior).read_text()))):
        place.peer("push", ior, "cfloat", 100, 100, "two-way", sent).end()
        waveform.end()
    size = same(sent, out)
    # A sink does not call a servant with a certificate of another authority.
    servant = place.peer("serve", "cfloat", servant_ior, options=tls_options("other-ca.pem", "other-both.pem"))
    wait_for("the servant's reference", lambda: os.path.exists(servant_ior))
    waveform = place.waveform(place.numbers("numbers", 1000) + place.sink("", f', connect = "{servant_ior}"'))
    assert "is not connected" in waveform.end(None), waveform.printed
    servant.kill()
    faults = [
        (tls(ca="none.pem"), "none.pem has no certificates in PEM"),
        (tls(ca="text.pem"), "text.pem has no certificates in PEM"),
        (tls(certificate="text.pem"), "text.pem has no certificate in PEM"),
        (tls(private_key="other.key"), "other.key has no private key that fits"),
        (tls(private_key="locked.key"), "locked.key has no private key that fits"),
    ]
    for files, words in faults:
        waveform = place.waveform(place.source("cf32", ior, files) + NULL)
        assert words in waveform.end(None), f"{words}: {waveform.printed}"
    print(f"{place.way}: {len(strangers)} strangers had no call, {size} bytes came, {len(faults)} bad files were named")


def no_names_are_left(place: Place) -> None:
    """A kill of all processes leaves the name of a socket, which the next start removes; a clean
    end leaves none."""
    if place.way != "giop:unix":
        return
    left = lambda: {name for name in os.listdir("/tmp") if name.startswith(("stripline-bulkio-", "stripline-corba-"))}
    before = left()
    (ior,) = place.fresh("source.ior")
    for kill in (True, False):
        waveform = place.waveform(place.source("cf32", ior) + NULL)
        wait_for("the source's reference", lambda: os.path.exists(ior))
        mine = left() - before
        assert len(mine) == 1, mine
        if kill:
            owner = int(mine.copy().pop().split("-")[3])
            os.kill(owner, signal.SIGKILL)
            waveform.end(None)
            os.unlink(ior)
            assert mine <= left(), "a kill leaves the name"
            dead = mine
    waveform.stop()
    assert not dead & left() and not mine & left(), left()
    print("a killed process's name of a socket was removed by the next start, and that one left none")


PARTS = [
    through_a_waveform,
    a_foreign_uses_port,
    our_uses_port,
    in_order,
    bad_calls,
    bad_references,
    killed_peers,
    a_stop_in_a_call,
    names,
    one_orb,
    tls_only,
    no_names_are_left,
]


def main() -> None:
    peer = build()
    certificates()
    wanted = sys.argv[2:]
    for way in WAYS:
        for part in PARTS:
            if not wanted or part.__name__ in wanted:
                with tempfile.TemporaryDirectory() as folder:
                    part(Place(folder, peer, way))
    print("all of BulkIO is right")


main()
