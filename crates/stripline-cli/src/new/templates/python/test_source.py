"""Tests of the source, with one component in this process. To run them: python3 -m unittest"""

import unittest

from source import Source
from stripline import testing


class SourceTest(unittest.TestCase):
    def test_pulses_do_not_depend_on_packets(self) -> None:
        result = testing.run(Source, properties={"sample_rate": 3000, "duration_s": 1, "packet": 7})
        samples = result.outputs["out"]
        self.assertEqual((len(samples), samples.sum()), (3000, 30))
        self.assertEqual((samples[1009], samples[1010]), (1, 0))
        self.assertEqual(len(result.packets["out"][-1]), 3000 % 7)
