#!/bin/sh
set -e
mkdir -p "$disk/bin"
ln -sf "$service" "$disk/bin/database"
