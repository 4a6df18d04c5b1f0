#!/bin/sh
# An executable with two component types, which may share a process.
[ "$1 $2" = "--check pick" ] && echo null && exit
[ "$1" = --describe ] || exit 2
cat <<'END'
[{"name":"pick","summary":"Picks samples.","ports":[{"name":"in","direction":"input","types":{"one-of":["f32"]},"mandatory":true,"many_writers":false,"summary":"samples"},{"name":"out","direction":"output","types":{"same-as":"in"},"mandatory":true,"many_writers":false,"summary":"samples"}],"properties":[],"validates":true},
{"name":"tick","summary":"Has no ports.","ports":[],"properties":[]}]
END
