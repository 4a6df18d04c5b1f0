"""The message class of docs/python.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from conftest import TIMEOUT_S, linked

import stripline


@dataclass
class Point:
    x: float
    y: float


@dataclass
class Detection:
    range_bin: int
    level_db: float
    note: str | None
    path: list[Point]
    kind: Literal["lost", "kept"]


def test_the_page(node: stripline.Node) -> None:
    samples, taken = linked(node)
    in_ = node.message_subscriber("detections", Detection)
    out = node.message_publisher("detections", Detection)
    out.wait_for_receivers(1, TIMEOUT_S)
    samples.send(np.ones(4, np.float32), time_ns=7, sample_index=30)
    packet = taken.receive(TIMEOUT_S)
    out.send(Detection(40, 12.5, None, [Point(1.0, 2.0)], "lost"), like=packet)
    message = in_.receive(TIMEOUT_S)
    assert message.value == Detection(40, 12.5, None, [Point(1.0, 2.0)], "lost")
    assert (message.time_ns, message.sample_index) == (7, 30)
    assert (message.sequence, message.gap, message.stream) == (0, None, packet.stream)
    wrong = Detection(40, 12.5, None, [Point(1.0, 2.0), Point("1", 2.0)], "lost")  # type: ignore[arg-type]
    with pytest.raises(stripline.UsageError) as refused:
        out.send(wrong)
    assert "`detection.path[1].x`: a float must be here, not text" in str(refused.value)
    out.send(Detection(40, 14.5, None, [], "kept"), time_ns=9)
    out.finish()
    shown = []

    def show(*values: float) -> None:
        shown.append(values)

    for message in in_:
        show(message.value.level_db, message.time_ns)
    assert shown == [(14.5, 9)]
    samples.finish()
