#!/bin/sh
# A program without the option --describe.
echo "usage: fails FILE" >&2
echo "unknown option: $1" >&2
exit 64
