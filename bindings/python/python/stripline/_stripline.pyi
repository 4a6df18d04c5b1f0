from collections.abc import Iterator
from contextlib import AbstractContextManager
from os import PathLike
from types import TracebackType
from typing import Any, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from ._aio import AsyncPackets
from ._types import Connection, Gap, SampleType, StreamInfo

__version__: str

def _check_layout(text: str) -> tuple[int, int]: ...
def _after_fork() -> None: ...
def _at_exit() -> None: ...
