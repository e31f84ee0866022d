#!/bin/sh
set -e
umask 077
printf '%s' "$settings" > "$disk/settings.json"
