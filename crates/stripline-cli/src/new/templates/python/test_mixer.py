"""Tests of the mixer, with one component in this process. To run them: python3 -m unittest"""

import unittest

import numpy as np
import stripline
from mixer import Mixer
from stripline import testing


class MixerTest(unittest.TestCase):
    def test_a_constant_becomes_a_tone(self) -> None:
        stream = stripline.StreamInfo("test", sample_rate_hz=4e3)
        # The phase goes on from one packet into the next.
        packets = [testing.Feed(np.ones(length, np.complex64), stream=stream) for length in (3, 2)]
        result = testing.run(Mixer, {"in": packets})
        np.testing.assert_allclose(result.outputs["out"], [1, 1j, -1, -1j, 1], atol=1e-6)

    def test_a_stream_without_a_sample_rate_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "no sample rate"):
            testing.run(Mixer, {"in": np.ones(1, np.complex64)})
