#!/bin/sh
# Validates its properties, and refuses a factor of 3.
if [ "$1" = --check ]; then
    grep -q '"factor":3.0' && echo '{"property":"factor","message":"3 is odd","remedy":"choose 2"}' || echo null
    exit
fi
cat <<'END'
{"name":"doubler","summary":"Doubles every sample.","ports":[],"properties":[{"name":"factor","kind":{"float":{"min":0.0,"max":10.0}},"default":2,"unit":"","summary":"the factor"}],"validates":true}
END
