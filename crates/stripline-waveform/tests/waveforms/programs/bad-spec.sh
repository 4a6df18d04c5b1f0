#!/bin/sh
# Two ports of one name, and one that has its type from no port.
cat <<'END'
{"name":"bad","summary":"","ports":[
{"name":"in","direction":"input","types":"any","mandatory":true,"many_writers":false,"summary":""},
{"name":"in","direction":"input","types":{"same-as":"gone"},"mandatory":true,"many_writers":false,"summary":""}
],"properties":[]}
END
