#!/bin/sh
# An executable with an input for frames of rows.
[ "$1" = --describe ] || exit 2
cat <<'END'
{"name":"detector","summary":"Takes maps.","ports":[{"name":"in","direction":"input","types":{"one-of":["f32"]},"shape":"frames","mandatory":true,"many_writers":false,"summary":"maps"}],"properties":[]}
END
