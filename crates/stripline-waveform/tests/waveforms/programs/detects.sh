#!/bin/sh
# Two component types, whose ports have a type without a layout.
[ "$1" = --describe ] || exit 2
cat <<'END'
[{"name":"detects","summary":"Detects.","ports":[{"name":"out","direction":"output","types":{"one-of":["det"]},"mandatory":true,"many_writers":false,"summary":"detections"}],"properties":[]},
{"name":"tracks","summary":"Tracks.","ports":[{"name":"in","direction":"input","types":{"one-of":["det"]},"mandatory":true,"many_writers":false,"summary":"detections"}],"properties":[]}]
END
