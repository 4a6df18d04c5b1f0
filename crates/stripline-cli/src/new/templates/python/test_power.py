"""Tests of the power, with one component in this process. To run them: python3 -m unittest"""

import unittest

import numpy as np
import stripline
from power import Power
from stripline import testing


class PowerTest(unittest.TestCase):
    def test_windows_do_not_depend_on_packets(self) -> None:
        stream = stripline.StreamInfo("test", sample_rate_hz=48e3)
        packets = [np.array(part, np.float32) for part in ([1, 1, 1], [1, 2, 2], [2, 2, 9])]
        feeds = [testing.Feed(packet, stream=stream) for packet in packets]
        result = testing.run(Power, {"in": feeds}, properties={"length": 4})
        self.assertEqual(result.outputs["out"].tolist(), [1, 4])
        self.assertEqual([packet.sample_index for packet in result.packets["out"]], [0, 1])
        self.assertEqual(result.packets["out"][0].stream.sample_rate_hz, 12e3)
