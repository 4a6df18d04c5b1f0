"""Arrays and types that do not match."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import TIMEOUT_S, linked

import stripline

PAIR = [("re", "i2"), ("im", "i2")]
weakrefs: list[weakref.ref[Any]] = []


@pytest.mark.parametrize(
    "dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", np.uint64, "f4", "f8", "c8", "c16", float, np.uint16]
)
def test_numbers(node: stripline.Node, dtype: Any) -> None:
    out, in_ = linked(node, dtype)
    sent = np.arange(5).astype(dtype)
    out.send(sent)
    found = in_.receive(TIMEOUT_S).samples
    assert found.dtype == sent.dtype and (found == sent).all()
    out.finish()


@pytest.mark.parametrize("name", ["cs8", "cs16", "cs32", "cs64", "cu8", "cu16", "cu32", "cu64", "cf32", "s16"])
def test_types_by_their_names(node: stripline.Node, name: str) -> None:
    kind = stripline.SampleType(name)
    out, in_ = linked(node, kind)
    with out.loan(2) as y:
        y[:] = np.array([(1, 2), (3, 4)], kind.dtype) if kind.dtype.names else 7
    found = in_.receive(TIMEOUT_S).samples
    assert found.dtype == kind.dtype and len(found) == 2
    if kind.dtype.names:
        assert found["im"].tolist() == [2, 4]
    assert kind.layout == name and kind == stripline.SampleType(name) and hash(kind) == hash(stripline.SampleType(name))
    out.finish()


def test_structures(node: stripline.Node) -> None:
    fields = [("range_bin", "u4"), ("doppler_bin", "i4"), ("level_db", "f4")]
    det = stripline.SampleType("det", fields)
    assert det.layout == "det{range_bin:u32,doppler_bin:s32,level_db:f32}"
    assert stripline.SampleType(det.layout).dtype == np.dtype(fields)
    out, in_ = linked(node, det)
    sent = np.array([(1, -2, 3.5), (4, 5, 6)], fields)
    out.send(sent)
    found = in_.receive(TIMEOUT_S).samples
    assert (found == sent).all() and found["doppler_bin"].tolist() == [-2, 5]
    # The dtype contains the name.
    assert stripline.SampleType("all", [("one", det.dtype), ("more", det.dtype, (2,))]).layout == (
        f"all{{one:{det.layout},more:{det.layout}[2]}}"
    )
    nested = stripline.SampleType("track{id:u32,at:point{x:f32,y:f32}[2],m:f32[2][3]}")
    assert nested.dtype["at"].shape == (2,) and nested.dtype["m"].shape == (2, 3)
    assert stripline.SampleType("track", nested.dtype) == nested
    out.finish()


@pytest.mark.parametrize("name", ["cf32", "cs16", "f32", "s8", "u8", "u16"])
def test_names_of_waveform_files_are_types(node: stripline.Node, name: str) -> None:
    subscriber = node.subscriber("named", name)
    assert subscriber.dtype == stripline.SampleType(name).dtype


@pytest.mark.parametrize(
    ("dtype", "problem"),
    [
        (object, "has Python objects"),
        (bool, "is not a type of samples"),
        ("f2", "is not a type of samples"),
        ("U4", "is not a type of samples"),
        ("S4", "is not a type of samples"),
        ("V0", "is not a type of samples"),
        ("M8[ns]", "is not a type of samples"),
        (np.longdouble, "is not a type of samples"),
        (">f4", "has swapped bytes"),
        (PAIR, "without a name"),
        ("no such type", "is neither a dtype"),
    ],
)
def test_types_that_are_refused(node: stripline.Node, dtype: Any, problem: str) -> None:
    for make in (node.publisher, node.subscriber):
        with pytest.raises(stripline.UsageError, match=problem) as refused:
            make("topic", dtype)
        assert refused.value.code == "invalid-argument"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (np.dtype([("a", "u1"), ("b", "u4")], align=True), "padding before the field `b`"),
        ([("a", "u1"), ("b", "u4")], "padding would be before it"),
        (np.dtype([("a", "u4"), ("b", "u1")], align=True), "padding at its end"),
        ({"names": ["a", "b"], "formats": ["u4", "u2"], "offsets": [0, 0]}, "over each other"),
        ([("a", "O")], "has Python objects"),
        ([("a", "?")], "is not a type of samples"),
        ([("a", ">u4")], "swapped bytes"),
        ([("a", PAIR)], "without a name"),
        ([("a b", "u4")], "a field"),
        ([], "a field"),
        ("f4", "has no fields"),
    ],
)
def test_structures_that_are_refused(fields: Any, problem: str) -> None:
    with pytest.raises(stripline.UsageError, match=problem):
        stripline.SampleType("det", fields)


@pytest.mark.parametrize("layout", ["det", "det{", "det{a:x}", "message/a{a:u8}", "", "f33", "u8[2]"])
def test_layouts_that_are_refused(layout: str) -> None:
    with pytest.raises(stripline.UsageError):
        stripline.SampleType(layout)


def test_arrays_that_do_not_fit(node: stripline.Node) -> None:
    out, in_ = linked(node)
    good = np.arange(6, dtype=np.float32)
    masked: np.ndarray = np.ma.masked_less(good, 2)  # type: ignore[no-untyped-call, type-arg]
    for array, problem in (
        (good.astype(np.float64), "sends float32, and the array has float64; use `array.astype"),
        (good.astype(">f4"), "bytes are swapped"),
        (good[::2], "not contiguous"),
        (good[::-1], "not contiguous"),
        (good.reshape(2, 3), r"the shape \(2, 3\), and the stream has no rows"),
        (np.array(3, np.float32), r"the shape \(\), and the stream has no rows"),
        (np.zeros(3, object), "and the array has object"),
        (np.zeros(3, PAIR), "and the array has"),
        ([1.0, 2.0], "arrays of numpy, not list"),
        (b"1234", "arrays of numpy, not bytes"),
        (None, "arrays of numpy, not NoneType"),
        (np.float32(3), "arrays of numpy, not float32"),
        (masked, "this one has a mask; use `array.filled\\(value\\)`"),
    ):
        with pytest.raises(stripline.UsageError, match=problem) as refused:
            out.send(array)  # type: ignore[arg-type]
        assert refused.value.code == "invalid-argument"
    # Nothing was sent. Read-only, empty and unaligned arrays are accepted.
    good.flags.writeable = False
    out.send(good)
    out.send(good[:0])
    shifted = np.zeros(9, np.uint8)[1:].view(np.float32)
    out.send(shifted)
    assert [in_.receive(TIMEOUT_S).sequence for _ in range(3)] == [0, 1, 2]
    out.finish()


def test_too_large(node: stripline.Node) -> None:
    out, in_ = linked(node, np.uint8)
    # The array takes no memory before it is written.
    huge = np.zeros(2**31, np.uint8)
    with pytest.raises(stripline.UsageError, match="too large") as refused:
        out.send(huge)
    assert refused.value.code == "too-large"
    with pytest.raises(stripline.UsageError, match="too large"):
        with out.loan(2**31):
            pass
    with pytest.raises(stripline.UsageError, match="too large"):
        with out.loan(2**63):
            pass
    with pytest.raises(OverflowError):
        out.loan(-1)
    assert out.samples_max < 2**31
    assert in_.try_receive() is None and out.sequence == 0
    out.finish()


def test_names_and_numbers_that_are_refused(node: stripline.Node) -> None:
    for hold in (0, 5000):
        with pytest.raises(stripline.UsageError, match="from 1 to 4096"):
            node.subscriber("topic", "f4", hold=hold)
    out = node.publisher("topic", "f4")
    info: Any = stripline.StreamInfo
    axis: Any = stripline.Axis
    clock: Any = stripline.StreamClock
    for stream, problem in (
        ("tone", "described by a `StreamInfo`"),
        (info("a", float("inf")), "`sample_rate_hz` of the stream is inf; it must be a finite number"),
        (info("a", -1), "`sample_rate_hz` is -1; it must be finite and above 0"),
        (info("a", "100"), "`sample_rate_hz` of the stream is '100'; it must be a finite number"),
        (info("a", 10**400), "`sample_rate_hz` of the stream is 1000"),
        (info("a", row_length=0), "`row_length` of the stream is 0; it must be a whole number from 1"),
        (info("a", row_length="100"), "`row_length` of the stream is '100'; it must be a whole"),
        (info("a", row_length=True), "`row_length` of the stream is True"),
        (info("a", frame_rows=2**32), "`frame_rows` .* from 1 to 4294967295, or None"),
        (info("a", clock="gps"), r"`clock` of the stream is 'gps'; it must be a `StreamClock`"),
        (info("a", clock=clock("sundial")), "`clock.reference` of the stream is 'sundial'; it must be one of host"),
        (info("a", clock=clock("gps", -1)), "`clock.error_ns` of the stream is -1; it must be 0 to 1000000000000000"),
        (info("a", axes=(1,)), r"`axes` of the stream is \(1,\); it must be a tuple of `Axis`"),
        (info("a", axes=(axis("0", 1),)), r"`axes\[0\].start` of the stream is '0'"),
        (info("a", channels="ab"), "`channels` of the stream is 'ab'; it must be a tuple of texts"),
        (info(7), "`id` of the stream is 7; it must be text"),
        (info("a", keywords=[1]), "`keywords` of the stream"),
        (info("a", channels=("x", "x")), "two channels"),
        (info("a", keywords={"k": object()}), "not one of JSON"),
        (info("a", row_length=-1), "`row_length` of the stream is -1; it must be a whole number"),
    ):
        with pytest.raises(stripline.UsageError, match=problem):
            out.set_stream(stream)  # type: ignore[arg-type]
    # Numbers of numpy are numbers.
    out.set_stream(info("a", np.float32(8), row_length=np.int64(4)))
    out.finish()


@pytest.mark.parametrize(
    "keep",
    [
        lambda array: array,
        lambda array: array[:],
        lambda array: array.reshape(2, 2)[:],
        memoryview,
        lambda array: np.frombuffer(array, np.float32),
        iter,
    ],
)
def test_an_array_that_the_program_keeps_is_not_used_again(
    node: stripline.Node, keep: Callable[[Any], Any]
) -> None:
    out, in_ = linked(node)
    out.send(np.full(4, 5, np.float32))
    kept = keep(in_.receive(TIMEOUT_S).samples)
    for number in range(20):
        out.send(np.full(4, number, np.float32))
        packet = in_.receive(TIMEOUT_S)
        assert packet.samples.tolist() == [number] * 4
        if number % 2:
            packet.release()
    assert np.array(list(kept)).ravel().tolist() == [5] * 4
    out.finish()


@pytest.mark.parametrize(
    "change",
    [
        lambda array: setattr(array, "shape", (2, -1)),
        lambda array: setattr(array, "dtype", np.int32),
        lambda array: array.setflags(align=False),
        lambda array: memoryview(array).release(),
        lambda array: weakrefs.append(weakref.ref(array)),
    ],
)
def test_an_array_that_the_program_has_changed_is_not_used_again(
    node: stripline.Node, change: Callable[[Any], None]
) -> None:
    out, in_ = linked(node)
    for number in range(20):
        out.send(np.full(number + 1, number, np.float32))
        packet = in_.receive(TIMEOUT_S)
        array = packet.samples
        assert array.shape == (number + 1,) and array.dtype == np.float32 and array.flags.aligned
        assert array.tolist() == [number] * (number + 1) and not array.flags.writeable
        if number % 4 == 3:
            change(array)
        del array
    # No weak reference leads to an array of a later packet.
    assert all(reference() is None for reference in weakrefs[:-1])
    weakrefs.clear()
    out.finish()


def test_arrays_of_packets_are_used_again(node: stripline.Node) -> None:
    out, in_ = linked(node)
    places = set()
    for number in range(50):
        out.send(np.full(number, number, np.float32))
        packet = in_.receive(TIMEOUT_S)
        places.add(id(packet.samples))
        assert packet.samples.tolist() == [number] * number
    assert len(places) <= 2
    out.finish()


def test_a_packet_whose_array_is_used_again_cannot_reach_it(node: stripline.Node) -> None:
    out, in_ = linked(node)
    for number in range(4):
        out.send(np.full(2, number, np.float32))
    first = in_.receive(TIMEOUT_S)
    assert first.samples.tolist() == [0, 0]
    first.release()
    second = in_.receive(TIMEOUT_S)
    assert second.samples.tolist() == [1, 1]
    with pytest.raises(stripline.UsageError, match="is closed"):
        first.samples
    # The packet keeps the memory for a send that takes its stamps.
    out.send(np.full(2, 9, np.float32), like=second)
    del second
    assert [in_.receive(TIMEOUT_S).samples[0] for _ in range(3)] == [2, 3, 9]
    out.finish()
