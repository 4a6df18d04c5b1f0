#!/bin/sh
# Never ends, and neither does what it started.
sleep 3600 &
sleep 3600
