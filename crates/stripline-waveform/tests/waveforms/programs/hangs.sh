#!/bin/sh
# Never ends, and neither does its child.
sleep 3600 &
sleep 3600
