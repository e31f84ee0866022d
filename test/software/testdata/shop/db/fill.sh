#!/bin/sh
set -e
curl -fsS -u "shop:$password" -T - "http://$address/stock" <<END
three apples
END
