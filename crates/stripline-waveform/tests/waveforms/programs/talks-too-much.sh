#!/bin/sh
exec yes '{"name":'
