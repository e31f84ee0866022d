# What the shell tests share. They run from the root of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "FAIL: $*" >&2
  exit 1
}

# eventually SECONDS COMMAND…: until the command succeeds.
eventually() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || fail "in vain, for too long: $*"
    sleep 0.2
  done
}

# ready_at LOG: where the windsock that logs there answers; waits until it does.
ready_at() {
  eventually 30 grep -q 'msg=ready' "$1"
  sed -n 's/.*msg=ready.* address=\(http[^ ]*\).*/\1/p' "$1"
}

# However a test ends, the processes in started end, clean is called, and the logs are
# shown if it failed.
work=$(mktemp -d)
started=()
clean() { :; }
finish() {
  local status=$?
  set +e
  ((${#started[@]})) && kill "${started[@]}" 2>/dev/null
  wait
  ((status)) && tail -n 20 "$work"/*.log >&2
  clean
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT
