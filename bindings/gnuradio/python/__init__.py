"""Stripline for GNU Radio: topics as sources and sinks of a flowgraph, which may be a component."""

try:
    from .component import TestResult, main, readout, self_test
    from .stripline_python import message_sink, message_source, sink, source
except ImportError as failed:
    raise ImportError(
        f"the blocks of Stripline cannot be loaded: {failed}. Install the library with packaging/cpp-install,"
        " and put its folder `lib` into LD_LIBRARY_PATH if it was moved since",
        name=failed.name,
        path=failed.path,
    ) from failed

__all__ = ["TestResult", "main", "message_sink", "message_source", "readout", "self_test", "sink", "source"]
