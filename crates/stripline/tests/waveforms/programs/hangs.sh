#!/bin/sh
# Never ends, and neither does its child.
sleep 60 &
sleep 60
