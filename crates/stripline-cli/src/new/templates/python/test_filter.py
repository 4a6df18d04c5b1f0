"""Tests of the filter, with one component in this process. To run them: python3 -m unittest"""

import unittest

import numpy as np
from filter import Filter
from stripline import testing


class FilterTest(unittest.TestCase):
    def test_samples_are_multiplied(self) -> None:
        result = testing.run(Filter, {"in": np.array([1, 2, 3], np.float32)})
        self.assertEqual(result.outputs["out"].tolist(), [2, 4, 6])

    def test_the_factor_changes_while_it_runs(self) -> None:
        with testing.Harness(Filter) as it:
            it.set("factor", 3)
            source, sink = it.input("in"), it.output("out")
            source.send(np.ones(2, np.float32))
            source.finish()
            # Fails after a minute if the component hangs.
            it.finish()
            self.assertEqual([packet.samples.tolist() for packet in sink], [[3, 3]])
