#!/bin/sh
# A receiver of a type without a layout, in a program of its own.
[ "$1" = --describe ] || exit 2
cat <<'END'
{"name":"tracks","summary":"Tracks.","ports":[{"name":"in","direction":"input","types":{"one-of":["det"]},"mandatory":true,"many_writers":false,"summary":"detections"}],"properties":[]}
END
