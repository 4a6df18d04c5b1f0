#!/bin/sh
# Describes itself and ends, but leaves a child with its output open.
sleep 3600 &
echo '{"name":"left","summary":"","ports":[],"properties":[]}'
