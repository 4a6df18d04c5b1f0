"""The package `cyclonedds` joins waveforms: it subscribes and publishes with types made from
Stripline's IDL.

    dds_peer.py COMMAND [MESSAGES]      COMMAND: `stripline` with the feature `dds`
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

DOMAIN = random.randrange(100, 200)
# Uses only the loopback interface, like Stripline's own participants.
os.environ["CYCLONEDDS_URI"] = """<CycloneDDS><Domain id="any">
    <General><Interfaces><NetworkInterface name="lo" multicast="false"/></Interfaces>
    <AllowMulticast>false</AllowMulticast></General>
    <Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>110</MaxAutoParticipantIndex>
    <Peers><Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>"""

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication  # noqa: E402
from cyclonedds.core import Policy, Qos  # noqa: E402
from cyclonedds.domain import DomainParticipant  # noqa: E402
from cyclonedds.pub import DataWriter  # noqa: E402
from cyclonedds.sub import DataReader  # noqa: E402
from cyclonedds.topic import Topic  # noqa: E402
from cyclonedds.util import duration  # noqa: E402

import stripline_idl  # noqa: E402

COMMAND = sys.argv[1]
MESSAGES = int(float(sys.argv[2])) if len(sys.argv) > 2 else 500
# A time limit that only ends a hang.
TIMEOUT_S = 60.0
TYPES = stripline_idl.load()
RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=10)), Policy.History.KeepAll)
# The DDS domain for the topics of connections.
CONNECTIONS = 87


def wait_for(what: str, is_there: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not is_there():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def start(folder: str, components: str, connections: str) -> subprocess.Popen[str]:
    path = pathlib.Path(tempfile.mkstemp(".toml", dir=folder)[1])
    path.write_text(f'[waveform]\nname = "dds-{DOMAIN}"\n{components}\n{connections}')
    return subprocess.Popen([COMMAND, "run", str(path), "--quiet"], stderr=subprocess.PIPE, text=True)


def end(waveform: subprocess.Popen[str]) -> str:
    waveform.send_signal(signal.SIGINT)
    return waveform.communicate(timeout=TIMEOUT_S)[1]


def source(samples: str, topic: str, more: str = "") -> str:
    options = f'topic = "{topic}", domain = {DOMAIN}, samples = "{samples}"{more}'
    return f'[component.source]\ntype = "dds-source"\nproperties = {{ {options} }}'


def through_a_waveform(folder: str, participant: DomainParticipant) -> None:
    """Messages go into a waveform and come back unchanged."""
    there = DataWriter(participant, Topic(participant, "there", TYPES.ComplexShortSamples), RELIABLE)
    back = DataReader(participant, Topic(participant, "back", TYPES.ComplexShortSamples), RELIABLE)
    sink = f'[component.sink]\ntype = "dds-sink"\nproperties = {{ topic = "back", domain = {DOMAIN}, readers = 1 }}'
    waveform = start(folder, source("cs16", "there") + "\n" + sink, '[[connection]]\nfrom = "source.out"\nto = "sink.in"')
    wait_for("both ends are found", lambda: there.get_matched_subscriptions() and back.get_matched_publications())
    sent, found, index = [], [], 0
    # A reader that was found may not have found the writer yet. Until then, it gets nothing.
    marker = TYPES.ComplexShortSamples(TYPES.SampleInfo(0, 0, 2e6, 1e8), [0, 0])
    wait_for("a marker comes back", lambda: there.write(marker) or back.take())
    for number in range(MESSAGES):
        samples = [random.randrange(-32768, 32768) for _ in range(2 * random.randrange(1, 600))]
        message = TYPES.ComplexShortSamples(TYPES.SampleInfo(index, 1_700_000_000_000_000_000 + index, 2e6, 1e8), samples)
        index += len(samples) // 2
        there.write(message)
        sent.append(message)
        found += back.take(N=1000)
    end_of_all = sent[-1]
    wait_for("all messages come back", lambda: found.extend(back.take(N=1000)) or end_of_all in found)
    found = [message for message in found if message.samples != marker.samples]
    assert found == sent, "the messages are other ones"
    print(f"{len(sent)} messages with {index} samples came back as they were")
    end(waveform)


def of_another_type(folder: str, participant: DomainParticipant) -> None:
    """A writer of another type, and half of a complex sample, give errors that name them."""
    null = '[component.sink]\ntype = "null-sink"'
    connection = '[[connection]]\nfrom = "source.out"\nto = "sink.in"'
    writer = DataWriter(participant, Topic(participant, "other", TYPES.FloatSamples), RELIABLE)
    waveform = start(folder, source("cf32", "other") + "\n" + null, connection)
    printed = waveform.communicate(timeout=TIMEOUT_S)[1]
    assert waveform.returncode != 0 and "stripline::FloatSamples" in printed, printed
    del writer
    writer = DataWriter(participant, Topic(participant, "half", TYPES.ComplexFloatSamples), RELIABLE)
    waveform = start(folder, source("cf32", "half") + "\n" + null, connection)
    wait_for("the source is found", lambda: writer.get_matched_subscriptions())
    half = TYPES.ComplexFloatSamples(TYPES.SampleInfo(0, 0, 0.0, 0.0), [1.0, 2.0, 3.0])
    wait_for("the waveform ends", lambda: writer.write(half) or waveform.poll() is not None)
    printed = waveform.communicate(timeout=TIMEOUT_S)[1]
    assert waveform.returncode != 0 and "a complex sample has two" in printed, printed
    print("a writer of another type, and half of a complex sample, are named")


def of_a_connection(folder: str) -> None:
    """A stranger reads the packets of a connection, and its own writes change nothing."""
    components = """[component.source]
        type = "signal-generator"
        properties = { sample_rate = 1e5, packet = 100 }
        [component.sink]
        type = "null-sink"
        """
    participant = DomainParticipant(CONNECTIONS)
    builtin = BuiltinDataReader(participant, BuiltinTopicDcpsPublication)
    before = {publication.topic_name for publication in builtin.take(N=1000)}
    waveform = start(folder, components, '[[connection]]\nfrom = "source.out"\nto = "sink.in"\ntransport = "dds"')
    names: set[str] = set()

    def is_there() -> bool:
        names.update(p.topic_name for p in builtin.take(N=1000) if p.sample_info.valid_data)
        return any(name.startswith("stripline_") for name in names - before)

    wait_for("the topic is found", is_there)
    name = next(name for name in names - before if name.startswith("stripline_"))
    topic = Topic(participant, name, TYPES.Frames)
    reader = DataReader(participant, topic)
    writer = DataWriter(participant, topic, RELIABLE)
    frames: list[int] = []

    def read() -> bool:
        for sample in reader.take(N=100):
            # A frame begins with the packet's number, and the length of the payload in bytes.
            place = 0
            while place + 48 <= len(sample.bytes):
                sequence, length = struct.unpack_from("<QI", bytes(sample.bytes), place)
                frames.append(sequence)
                place += (48 + length + 15) // 16 * 16
            # A message that only probes the path has the largest number.
            number = (sample.number + 5) % 2**64
            writer.write(TYPES.Frames(sample.key, number, list(b"no frames")))
        return len(frames) > 200

    wait_for("packets are read", read)
    assert frames == sorted(frames), frames
    assert waveform.poll() is None, waveform.communicate()[1]
    printed = end(waveform)
    assert waveform.returncode == 0, printed
    print(f"a stranger has read {len(frames)} packets of a connection, and its own were dropped")


GOVERNANCE = """<?xml version="1.0" encoding="utf-8"?>
<dds><domain_access_rules><domain_rule>
<domains><id_range><min>0</min><max>230</max></id_range></domains>
<allow_unauthenticated_participants>false</allow_unauthenticated_participants>
<enable_join_access_control>true</enable_join_access_control>
<discovery_protection_kind>ENCRYPT</discovery_protection_kind>
<liveliness_protection_kind>ENCRYPT</liveliness_protection_kind>
<rtps_protection_kind>ENCRYPT</rtps_protection_kind>
<topic_access_rules><topic_rule><topic_expression>*</topic_expression>
<enable_discovery_protection>true</enable_discovery_protection>
<enable_liveliness_protection>true</enable_liveliness_protection>
<enable_read_access_control>true</enable_read_access_control>
<enable_write_access_control>true</enable_write_access_control>
<metadata_protection_kind>ENCRYPT</metadata_protection_kind>
<data_protection_kind>ENCRYPT</data_protection_kind>
</topic_rule></topic_access_rules></domain_rule></domain_access_rules></dds>
"""
PERMISSIONS = """<?xml version="1.0" encoding="utf-8"?>
<dds><permissions><grant name="{name}"><subject_name>CN={name}</subject_name>
<validity><not_before>2020-01-01T00:00:00</not_before><not_after>2090-01-01T00:00:00</not_after></validity>
<allow_rule><domains><id_range><min>0</min><max>230</max></id_range></domains>
<publish><topics><topic>secret</topic></topics></publish>
<subscribe><topics><topic>secret</topic></topics></subscribe></allow_rule>
<default>DENY</default></grant></permissions></dds>
"""


def enclave(folder: str, authority: str, name: str) -> str:
    """Makes the DDS Security files of a participant, and of the authority if they are missing.
    Returns the folder."""
    place = pathlib.Path(folder)
    (place / name).mkdir()

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    ca, key = f"{authority}.pem", f"{authority}.key"
    if not (place / ca).exists():
        files = ["-subj", f"/CN={authority}", "-keyout", key, "-out", ca]
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", *files)
    files = ["-subj", f"/CN={name}", "-keyout", f"{name}/key.pem", "-out", f"{name}/csr"]
    openssl("req", "-newkey", "rsa:2048", "-nodes", *files)
    openssl("x509", "-req", "-in", f"{name}/csr", "-CA", ca, "-CAkey", key, "-out", f"{name}/cert.pem")
    for role in ("identity", "permissions"):
        shutil.copy(place / ca, place / name / f"{role}_ca.cert.pem")
    for file, text in (("governance", GOVERNANCE), ("permissions", PERMISSIONS.format(name=name))):
        (place / name / f"{file}.xml").write_text(text)
        signed = ["-in", f"{name}/{file}.xml", "-out", f"{name}/{file}.p7s", "-signer", ca, "-inkey", key]
        openssl("smime", "-sign", "-text", *signed)
    return str(place / name)


def secured(folder: str, participant: DomainParticipant) -> None:
    """Two participants of an authority exchange samples; strangers read none. Errors name files
    with a mistake."""
    ours, theirs = enclave(folder, "ca", "sender"), enclave(folder, "ca", "receiver")
    stranger = enclave(folder, "other-ca", "stranger")
    numbers, out, stolen = (pathlib.Path(folder) / name for name in ("numbers", "out", "stolen"))
    # The file sink may keep the last part until it ends.
    size = 3 << 20
    numbers.write_bytes(random.randbytes(size + (1 << 18)))
    connection = '[[connection]]\nfrom = "source.out"\nto = "sink.in"'

    def receiver(path: pathlib.Path, security: str) -> subprocess.Popen[str]:
        sink = f'[component.sink]\ntype = "file-sink"\nproperties = {{ path = "{path}" }}'
        return start(folder, source("cf32", "secret", f', security = "{security}"') + "\n" + sink, connection)

    reader = DataReader(participant, Topic(participant, "secret", TYPES.ComplexFloatSamples), RELIABLE)
    waveforms = [receiver(out, theirs), receiver(stolen, stranger)]
    file = f'path = "{numbers}", format = "cf32", packet = 1024'
    sink = f'topic = "secret", domain = {DOMAIN}, readers = 1, security = "{ours}"'
    components = f'[component.source]\ntype = "file-source"\nproperties = {{ {file} }}\n'
    sending = start(folder, components + f'[component.sink]\ntype = "dds-sink"\nproperties = {{ {sink} }}', connection)
    assert sending.wait(timeout=TIMEOUT_S) == 0, sending.communicate()[1]
    wait_for("all samples come", lambda: out.exists() and out.stat().st_size >= size)
    for waveform in waveforms:
        end(waveform)
    assert numbers.read_bytes().startswith(out.read_bytes()), "the samples are other ones"
    assert not stolen.exists() or stolen.stat().st_size == 0, "one of another authority has samples"
    assert not reader.take(N=10) and not reader.get_matched_publications(), "one without security has samples"
    print(f"{out.stat().st_size} bytes came encrypted; one of another authority and one without security had none")

    faults = {"cert.pem": "cannot start", "governance.p7s": "cannot start", "permissions.p7s": "cannot read"}
    for file, words in faults.items():
        broken = pathlib.Path(folder) / f"broken-{file}"
        shutil.copytree(ours, broken)
        (broken / file).unlink() if words == "cannot read" else shutil.copy(pathlib.Path(stranger) / file, broken)
        waveform = receiver(pathlib.Path(folder) / f"behind-{file}", str(broken))
        printed = waveform.communicate(timeout=TIMEOUT_S)[1]
        assert waveform.returncode != 0 and words in printed and str(broken) in printed, f"{file}: {printed}"
    print(f"{len(faults)} files of DDS Security that do not fit were named")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        participant = DomainParticipant(DOMAIN)
        through_a_waveform(folder, participant)
        of_another_type(folder, participant)
        of_a_connection(folder)
        secured(folder, participant)


main()
