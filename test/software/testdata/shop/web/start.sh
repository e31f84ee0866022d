#!/bin/sh
set -e
cd "$disk"
WINDSOCK_TEST_SERVICE=web setsid bin/web >address 2>log &
until test -s address; do sleep 0.05; done
tr -d '\n' < address > "$heat_outputs_path.address"
