#!/bin/sh
# A program that knows nothing of --describe.
echo "usage: fails FILE" >&2
echo "unknown option: $1" >&2
exit 64
