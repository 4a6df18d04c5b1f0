#!/bin/sh
# Never ends, and neither does what it started.
sleep 60 &
sleep 60
