"""Tests of the sink. To run them: python3 -m unittest"""

import unittest

from sink import line


class SinkTest(unittest.TestCase):
    def test_a_detection_is_a_line(self) -> None:
        self.assertEqual(line({"sample": 7, "level": 1.5}), "sample 7: level 1.5")
