#!/bin/sh
# A component executable with a wrong name among its transports.
[ "$1" = --describe ] || exit 2
cat <<'END'
{"name":"doubler","summary":"Doubles every sample.","ports":[{"name":"in","direction":"input","types":{"one-of":["f32"]},"mandatory":true,"many_writers":false,"summary":"samples"},{"name":"out","direction":"output","types":{"same-as":"in"},"mandatory":true,"many_writers":false,"summary":"samples"}],"transports":["tcp","no name"],"properties":[{"name":"factor","kind":{"float":{"min":0.0,"max":10.0}},"default":2,"unit":"","summary":"the factor"}]}
END
