"""Tests of the detector, with one component in this process. To run them: python3 -m unittest"""

import unittest

import numpy as np
from detector import Detector
from stripline import testing


class DetectorTest(unittest.TestCase):
    def test_a_rise_is_one_detection_also_across_packets(self) -> None:
        packets = [np.array(part, np.float32) for part in ([0, 0, 1], [1, 0, 2])]
        result = testing.run(Detector, {"in": packets})
        self.assertEqual(result.messages["out"], [{"sample": 2, "level": 1}, {"sample": 5, "level": 2}])

    def test_a_sample_behind_a_gap_is_compared_with_nothing(self) -> None:
        one = np.ones(1, np.float32)
        result = testing.run(Detector, {"in": [testing.Feed(one), testing.Feed(one, sample_index=10)]})
        self.assertEqual([message["sample"] for message in result.messages["out"]], [0])
