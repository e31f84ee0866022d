#!/bin/sh
# What stays when the script has ended leaves its process group.
set -e
cd "$disk"
WINDSOCK_TEST_SERVICE=database PASSWORD="$password" setsid bin/database >address 2>log &
until test -s address; do sleep 0.05; done
tr -d '\n' < address > "$heat_outputs_path.address"
