"""Components in Python beside stock components, run by the `stripline` command."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TIMEOUT_S

EXAMPLES = Path(__file__).parents[1] / "examples"
COMMAND = os.environ.get("STRIPLINE_COMMAND", "")
_numbers = itertools.count()

GENERATOR = """
[component.source]
type = "signal-generator"
properties = {{ {source} }}
[component.gain]
exec = ["{python}", "{script}"]
{keys}
[component.end]
{end}
[[connection]]
from = "source.out"
to = "gain.in"
[[connection]]
from = "gain.out"
to = "end.in"
transport = "{transport}"
"""
LIVE = "rate = 48e3, packet = 480"


def stripline(*arguments: str, code: int = 0) -> str:
    """Runs the command to its end. Returns all its output."""
    assert COMMAND, "bindings/python/check names the command in STRIPLINE_COMMAND"
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == code, (arguments, done)
    return done.stdout + done.stderr


def wait_until(is_met: Callable[[], object]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not is_met():
        assert time.monotonic() < until
        time.sleep(0.005)


class Waveform:
    """A waveform with a source, a gain and a sink, as a file and while it runs."""

    def __init__(self, folder: Path, script: Path | str, **parts: str) -> None:
        self.name = f"py-{os.getpid()}-{next(_numbers)}"
        self.path = folder / f"{self.name}.toml"
        defaults = {"source": LIVE, "end": 'type = "null-sink"', "keys": "", "transport": "shm"}
        text = GENERATOR.format(python=sys.executable, script=script, **{**defaults, **parts})
        self.path.write_text(f'[waveform]\nname = "{self.name}"\n{text}')
        self.process: subprocess.Popen[str] | None = None

    def check(self, code: int = 0) -> str:
        return stripline("check", str(self.path), code=code)

    def start(self) -> None:
        command = [COMMAND, "run", str(self.path)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "is running" in line:
                return
        raise AssertionError("it does not run")

    def value(self, property: str) -> Any:
        """Returns a property of the gain; None while it starts."""
        command = [COMMAND, "get", self.name, f"gain.{property}", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        return json.loads(done.stdout)[0]["value"] if done.returncode == 0 else None

    def counts(self, packets: int = 3) -> None:
        """Waits until the gain has counted more than `packets` packets."""
        wait_until(lambda: int(self.value("packets") or 0) > packets)

    def pid(self) -> int | None:
        """Returns the process number of the gain; None while it does not run."""
        command = [COMMAND, "waveforms", self.name, "--json"]
        found: list[dict[str, Any]] = []
        # The waveform is not listed if its launcher does not answer in time.
        while not found:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
            found = json.loads(done.stdout)["waveforms"]
        (pid,) = [it["pid"] for it in found[0]["components"] if it["name"] == "gain"]
        assert pid is None or isinstance(pid, int)
        return pid

    def end(self) -> tuple[int, str]:
        """Waits for the end. Returns the exit code and the rest of the output."""
        assert self.process is not None
        text, _ = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, text

    def stop(self) -> None:
        stripline("stop", self.name)
        code, text = self.end()
        assert code == 0, text


@pytest.fixture
def waveform(tmp_path: Path) -> Iterator[Callable[..., Waveform]]:
    made: list[Waveform] = []

    def make(script: Path | str = EXAMPLES / "gain.py", **parts: str) -> Waveform:
        made.append(Waveform(tmp_path, script, **parts))
        return made[-1]

    yield make
    for it in made:
        if it.process is not None and it.process.poll() is None:
            it.process.kill()
            it.process.wait()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    def write(body: str) -> Path:
        """Writes a gain with this `run` and these other methods."""
        path = tmp_path / f"script-{next(_numbers)}.py"
        path.write_text(SCRIPT + body + '\nif __name__ == "__main__":\n    stripline.main(Gain)\n')
        return path

    return write


SCRIPT = """
import os, signal, sys, threading
import numpy as np
import stripline

class Gain(stripline.Component):
    in_ = stripline.input_port(np.complex64)
    out = stripline.output_port(np.complex64)
    factor = stripline.float_property(1, "gain", range=(0, 100), changeable=True)
    packets = stripline.integer_property(0, "packets so far", read_only=True)

    def forward(self):
        for packet in self.in_:
            self.out.send(packet.samples, like=packet)
            self.packets += 1
"""


@pytest.mark.parametrize("transport", ["shm", "uds", "tcp"])
def test_the_samples(waveform: Callable[..., Waveform], tmp_path: Path, transport: str) -> None:
    source = 'waveform = "sine", frequency = 1e3, duration_s = 0.02, sample_rate = 1e6'

    def samples(factor: float) -> Any:
        out = tmp_path / f"{factor}.cf32"
        end = f'type = "file-sink"\nproperties = {{ path = "{out}", format = "cf32" }}'
        keys = f"properties = {{ factor = {factor} }}"
        made = waveform(source=source, end=end, keys=keys, transport=transport)
        assert "ok: 3 components" in made.check()
        stripline("run", str(made.path), "--quiet")
        return np.fromfile(out, np.float32)

    one, three = samples(1.0), samples(3.0)
    assert len(one) == 2 * 20_000
    assert (one * np.float32(3)).tobytes() == three.tobytes()


def test_it_is_read_changed_tested_and_killed_while_it_runs(waveform: Callable[..., Waveform]) -> None:
    it = waveform(keys='restart = "on-failure"')
    it.start()
    assert "gain" in stripline("waveforms", it.name)
    assert stripline("set", it.name, "gain.factor=3") == "gain.factor = 3 (was 1)\n"
    assert stripline("get", it.name, "gain.factor") == "3\n"
    assert "`factor` is -1; it must be from 0 to 1000000" in stripline("set", it.name, "gain.factor=-1", code=2)
    assert "a factor of 0 would hide the signal" in stripline("set", it.name, "gain.factor=0", code=1)
    assert stripline("get", it.name, "gain.factor") == "3\n"
    it.counts()
    assert "a one becomes the factor" in stripline("test", it.name, "gain")
    for end in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        before = it.pid()
        assert before is not None
        os.kill(before, end)
        wait_until(lambda: it.pid() not in (before, None))  # noqa: B023
        it.counts()
    it.stop()


def test_ctrl_c_ends_the_waveform_in_order(waveform: Callable[..., Waveform]) -> None:
    it = waveform()
    it.start()
    it.counts()
    assert it.process is not None
    it.process.send_signal(signal.SIGINT)
    code, text = it.end()
    assert "stopping" in text and "Traceback" not in text and "killed" not in text, text
    assert code in (0, 130), text


FAILURES = {
    "raises": ('raise KeyError("a key")', "KeyError: 'a key'"),
    "raises in its own words": ('raise ValueError("it is broken")', "it is broken"),
    "exits with words": ('sys.exit("it has had enough")', "it has had enough"),
    "exits with a code": ("sys.exit(3)", "it has called `sys.exit(3)`"),
    "recurses": ("self.forward2()", "RecursionError"),
    "is interrupted": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "exits at once": ("os._exit(5)", "5"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_the_failure_of_a_run(
    waveform: Callable[..., Waveform], script: Callable[[str], Path], what: str
) -> None:
    code, words = FAILURES[what]
    it = waveform(script(f"    def run(self):\n        {code}\n    def forward2(self):\n        self.forward2()\n"))
    it.check()
    text = stripline("run", str(it.path), code=1)
    assert "gain" in text and words in text, text


@pytest.mark.parametrize("limit", [1000, 10**6])
def test_recursion_until_the_stack_ends(
    waveform: Callable[..., Waveform], script: Callable[[str], Path], limit: int
) -> None:
    # The recursion passes through C functions, which have frames on the thread's stack. If a
    # program raises the recursion limit, Python before 3.12 crashes, and the waveform reports it.
    body = f"""
    def run(self):
        sys.setrecursionlimit({limit})
        self.deep([0])
    def deep(self, values):
        return sorted(values, key=lambda _: self.deep(values))
"""
    it = waveform(script(body))
    text = stripline("run", str(it.path), code=1)
    assert "RecursionError" in text or (limit > 1000 and "gain crashed (SIGSEGV)" in text), text


def test_one_that_ignores_the_stop_is_killed(
    waveform: Callable[..., Waveform], script: Callable[[str], Path]
) -> None:
    it = waveform(script("    def run(self):\n        while True:\n            self.packets += 1\n"))
    it.start()
    it.counts()
    assert "gain did not stop and had to be killed" in stripline("stop", it.name, code=1)
    assert it.end()[0] == 1


LATE = """
import numpy as np
import stripline

class Source(stripline.Component):
    out = stripline.output_port(np.float32)
    rate = stripline.float_property(4.8e6, "pace")

    def run(self):
        pace, sent = stripline.Pace(self.ports, self.rate), 0
        samples = np.zeros(4800, np.float32)
        while True:
            sent += len(samples)
            self.out.send(samples, intended_ns=pace.wait_for(sent))

stripline.main(Source)
"""
# The throttle takes 100 ms for a packet. No machine makes the source slower than that.
LATE_WAVEFORM = """
[component.source]
exec = ["{python}", "source.py"]
[component.slow]
type = "throttle"
properties = {{ rate = 48e3 }}
[component.end]
type = "null-sink"
[[connection]]
from = "source.out"
to = "slow.in"
depth = 4
[[connection]]
from = "slow.out"
to = "end.in"
"""


def test_the_report_of_a_source_that_is_behind_its_pace(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(LATE)
    path, report = tmp_path / "late.toml", tmp_path / "report.json"
    path.write_text(LATE_WAVEFORM.format(python=sys.executable))
    text = stripline("run", str(path), "--duration", "2", "--output", str(report)).replace("\n  ", " ")
    assert "source is " in text and " behind its pace: " in text, text
    assert "held up by source.out -> slow.in (" in text, text
    (pace,) = [it["pace"] for it in json.loads(report.read_text())["components"] if "pace" in it]
    assert pace["rate"] == 4.8e6 and pace["achieved_rate"] < 4.5e6 and pace["behind_s"] > 0
    assert pace["held_up_by"]["connection"] == "source.out -> slow.in"


def test_a_failure_starts_it_again(waveform: Callable[..., Waveform], script: Callable[[str], Path]) -> None:
    body = """
    def run(self):
        for packet in self.in_:
            self.out.send(packet.samples, like=packet)
            self.packets += 1
            if self.packets == 5 and not os.path.exists(sys.argv[0] + ".failed"):
                open(sys.argv[0] + ".failed", "w").close()
                raise RuntimeError("once")
"""
    it = waveform(script(body), keys='restart = "on-failure"')
    it.start()
    it.counts(5)
    it.stop()


def test_a_failure_that_a_restart_would_repeat_is_final(
    waveform: Callable[..., Waveform], script: Callable[[str], Path]
) -> None:
    def failed(raised: str) -> str:
        body = f"    def run(self):\n        self.forward()\n    def __init__(self):\n        raise {raised}\n"
        it = waveform(script(body), keys='restart = "on-failure"')
        return stripline("run", str(it.path), code=1)

    text = failed('stripline.UsageError("no such mode", code="invalid-properties")')
    assert "no such mode (not restarted: the same configuration fails again" in text
    assert "it is started again" not in text
    text = failed('OSError("no such device")')
    assert text.count("no such device; it is started again") == 5
    assert "after 5 restarts within 10 s it is given up" in text


def test_a_clean_exit_is_the_end_of_the_stream(
    waveform: Callable[..., Waveform], script: Callable[[str], Path]
) -> None:
    it = waveform(script("    def run(self):\n        sys.exit()\n"), source="duration_s = 0.1, sample_rate = 1e5")
    stripline("run", str(it.path), "--quiet")


def test_what_cannot_begin(waveform: Callable[..., Waveform], script: Callable[[str], Path]) -> None:
    run = "    def run(self):\n        self.forward()\n"
    it = waveform(script(f'{run}    def __init__(self):\n        raise OSError("no such device")\n'))
    it.check()
    text = stripline("run", str(it.path), code=1)
    # The traceback, as of a failure of `run`.
    assert "[gain] Traceback (most recent call last):" in text
    assert "in __init__" in text and "error: component gain failed: OSError: no such device" in text, text
    validate = '    @staticmethod\n    def validate(properties):\n        raise ValueError("they do not fit")\n'
    refused = waveform(script(run + validate)).check(code=2)
    assert "they do not fit" in refused and "change its properties" in refused
    mistake = validate.replace('raise ValueError("they do not fit")', 'properties["treshold"]')
    text = waveform(script(run + mistake)).check(code=2)
    assert "`gain`: KeyError: 'treshold' (" in text and ".py, line " in text, text
    assert "correct its `validate`" in text and "change its properties" not in text, text
    assert "error: component `gain` has no method that runs it" in waveform(script("")).check(code=2)
    assert "printed `hello`" in waveform(script(f'{run}print("hello")\n')).check(code=2)
    path = script(run)
    path.write_text(path.read_text().replace("import stripline", "import stripline, no_such_module"))
    assert "No module named 'no_such_module'" in waveform(path).check(code=2)


def test_a_script_without_its_main(waveform: Callable[..., Waveform], script: Callable[[str], Path]) -> None:
    path = script("    def run(self):\n        self.forward()\n")
    path.write_text(path.read_text().replace("    stripline.main(Gain)", "    pass"))
    it = waveform(path)
    for text in it.check(code=2), stripline("run", str(it.path), code=2):
        assert "the script ends without `stripline.main(...)`" in text
        assert "end the script with `stripline.main(Gain)`" in text


def test_setters_that_fail_and_change_nothing(
    waveform: Callable[..., Waveform], script: Callable[[str], Path]
) -> None:
    body = """
    def run(self):
        self.forward()
    @factor.setter
    def set_factor(self, factor):
        match factor:
            case 2: sys.exit("by exit")
            case 3: raise LookupError("by a mistake")
            case 4: raise KeyboardInterrupt
            case 5: return self.set_factor(5)
            case 6: self.in_.receive()
            case 8: raise AssertionError("the check was skipped")
    @staticmethod
    def validate(properties):
        if properties["factor"] == 8:
            raise ValueError("eight fits nothing")
"""
    it = waveform(script(body))
    it.start()
    for value, words in [
        (2, "by exit"),
        (3, "LookupError: by a mistake"),
        (4, "KeyboardInterrupt"),
        (5, "RecursionError"),
        (6, "in use by another thread, or by a call further out"),
    ]:
        assert words in stripline("set", it.name, f"gain.factor={value}", code=1)
        assert stripline("get", it.name, "gain.factor") == "1\n"
    # The check of all properties comes before the setter.
    assert "eight fits nothing" in stripline("set", it.name, "gain.factor=8", code=1)
    assert "no property `fact`; did you mean `factor`?" in stripline("set", it.name, "gain.fact=8", code=2)
    assert stripline("set", it.name, "gain.factor=7") == "gain.factor = 7 (was 1)\n"
    it.counts()
    it.stop()


def test_a_program_of_a_component_inherits_nothing_of_the_launcher(
    waveform: Callable[..., Waveform], script: Callable[[str], Path]
) -> None:
    body = """
    def run(self):
        import subprocess
        code = "import os; print([name for name in os.environ if name.endswith(('_FD', '_PID'))])"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        sys.exit(f"found {found.strip()}")
"""
    it = waveform(script(body))
    assert "found []" in stripline("run", str(it.path), code=1)


def test_a_scripts_own_handler_of_a_signal_runs(
    waveform: Callable[..., Waveform], script: Callable[[str], Path]
) -> None:
    body = """
    def run(self):
        self.forward()

def handle(number, frame):
    open(sys.argv[0] + ".handled", "w").close()

signal.signal(signal.SIGINT, handle)
"""
    path = script(body)
    it = waveform(path)
    it.start()
    it.counts()
    pid = it.pid()
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    wait_until(Path(f"{path}.handled").exists)
    assert it.pid() == pid
    it.stop()


def test_the_log_reaches_the_launcher(waveform: Callable[..., Waveform], script: Callable[[str], Path]) -> None:
    body = """
    def run(self):
        import logging
        logging.getLogger("stripline.node").warning("an %s thing", "odd")
        logging.getLogger("stripline.node").debug("hidden")
        print("printed", file=sys.stderr)
"""
    it = waveform(script(body), source="duration_s = 0.01, sample_rate = 1e5")
    text = stripline("run", str(it.path))
    assert "[gain] stripline: an odd thing\n" in text and "[gain] printed\n" in text, text
    assert "hidden" not in text


def test_processors_are_those_of_the_waveform(
    waveform: Callable[..., Waveform], script: Callable[[str], Path]
) -> None:
    cpu = max(os.sched_getaffinity(0))
    body = "    def run(self):\n        sys.exit(f'runs on {os.sched_getaffinity(0)}')\n"
    it = waveform(script(body), keys=f"cpu = {cpu}")
    assert f"runs on {{{cpu}}}" in stripline("run", str(it.path), code=1)


def test_the_script_by_hand() -> None:
    def gain(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(EXAMPLES / "gain.py"), *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S)

    (described,) = json.loads(gain("--describe").stdout)
    assert (described["name"], described["summary"]) == ("gain", "Multiplies every sample by a factor.")
    assert gain("--check", given='{"factor": 2}').stdout == "null\n"
    assert "must be from 0 to" in gain("--check", given='{"factor": -2}').stdout
    for arguments in ([], ["--help"]):
        usage = gain(*arguments)
        assert usage.returncode == 2 and usage.stdout == ""
        assert f'[component.gain]\n    exec = ["python3", "{EXAMPLES / "gain.py"}"]\n' in usage.stderr


@pytest.mark.parametrize("scope", ["transport", "target"])
@pytest.mark.parametrize("placement", ["threads", "processes"])
def test_two_of_one_script(waveform: Callable[..., Waveform], scope: str, placement: str) -> None:
    # In one process, a sender that waits for the receiver must not keep the interpreter's lock.
    more = f"""
[component.second]
exec = ["{sys.executable}", "{EXAMPLES / "gain.py"}"]
[[connection]]
from = "gain.out"
to = "second.in"
scope = "{scope}"
"""
    it = waveform(source="duration_s = 0.1, sample_rate = 1e6")
    text = it.path.read_text().replace('from = "gain.out"', 'from = "second.out"')
    it.path.write_text(text + more)
    json_file = it.path.with_suffix(".json")
    stripline("run", str(it.path), "--quiet", "--placement", placement, "--output", str(json_file))
    connections = json.loads(json_file.read_text())["connections"]
    assert len({connection["packets"] for connection in connections}) == 1
    transports = {connection["to"]: connection["transport"] for connection in connections}
    assert transports["second.in"] == ("inproc" if placement == "threads" else "shm")


def test_several_types_of_one_script(waveform: Callable[..., Waveform], script: Callable[[str], Path]) -> None:
    path = script("""
    def run(self):
        self.forward()

class Other(Gain, name="other"):
    pass
""")
    path.write_text(path.read_text().replace("main(Gain)", "main(Gain, Other)"))
    it = waveform(path, keys='type = "other"')
    it.check()
    it.start()
    it.counts()
    it.stop()
    path.write_text(path.read_text().replace("main(Gain, Other)", "main(Gain, Gain)"))
    assert "two components are named `gain`" in waveform(path, keys='type = "gain"').check(code=2)


@pytest.mark.parametrize("dispatch", ["queue", "direct", "pool(2)"])
def test_a_handler(waveform: Callable[..., Waveform], script: Callable[[str], Path], dispatch: str) -> None:
    body = """
    def handle(self, packet):
        self.packets += 1
        packet.samples[:] *= np.float32(self.factor)
        return packet.samples
"""
    it = waveform(script(body), keys=f'dispatch = "{dispatch}"')
    it.check()
    it.start()
    it.counts()
    assert stripline("set", it.name, "gain.factor=2") == "gain.factor = 2 (was 1)\n"
    it.stop()


ADSB = Path(__file__).parents[3] / "waveforms/adsb.toml"


@pytest.mark.parametrize("source", ["simulation", "capture"])
def test_the_decoder_in_python_gives_the_frames_of_the_stock_one(tmp_path: Path, source: str) -> None:
    decoder = EXAMPLES / "adsb_decoder.py"
    assert len(decoder.read_text().splitlines()) < 150
    given = os.environ.get("STRIPLINE_ADSB_CAPTURE")
    options = ["--set", "source.rate=0", "--set", "source.duration_s=3"]
    if source == "capture":
        if given is None:
            pytest.skip("set STRIPLINE_ADSB_CAPTURE to modes1.bin")
        options = ["--set", f"source.path={given}"]
    stock = ADSB.read_text()
    ours = stock.replace('type = "adsb-decoder"', f'exec = ["{sys.executable}", "{decoder}"]')
    assert ours != stock
    rules = ["", "properties = { correct_bits = 3, correct_unknown = true, address_lifetime_s = 0.5 }\n"]
    for number, properties in enumerate(rules):
        found = []
        for name, text in [("stock", stock), ("ours", ours)]:
            path, frames = tmp_path / f"{name}.toml", tmp_path / f"{name}-{number}.avr"
            path.write_text(text.replace("[component.sink]", f"{properties}[component.sink]"))
            stripline("run", str(path), "--quiet", "--set", f"sink.path={frames}", *options)
            found.append(frames.read_text())
        assert found[0] == found[1]
        assert len(found[0].splitlines()) > 30
