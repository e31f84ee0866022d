# What up, down and run share: where everything is, and how services start and end.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export state=${WINDSOCK_OPENSTACK_STATE:-/var/tmp/windsock-openstack-test}
first=${WINDSOCK_OPENSTACK_PORT:-15000} # of nine

ip=127.0.0.1
identity=$first image=$((first + 1)) placement=$((first + 2)) compute=$((first + 3)) network=$((first + 4)) orchestration=$((first + 5))
amqp=$((first + 6)) epmd=$((first + 7)) erlang=$((first + 8))
password=not-a-secret # everywhere; all of it is on loopback

say() { printf '%s  %s\n' "$(date +%T)" "$*" >&2; }
fail() { say "FAIL: $*"; exit 1; }

# eventually SECONDS COMMAND…: until the command succeeds.
eventually() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || fail "in vain, for too long: $*"
    sleep 0.5
  done
}
listens() { (: <"/dev/tcp/$ip/$1"); }

# start NAME COMMAND…: in the background, in a process group of its own. The pid file has
# when it was born, too: the number may be another process one day.
start() {
  local name=$1
  shift
  setsid "$@" >>"$state/log/$name.log" 2>&1 </dev/null &
  echo "$! $(born $!)" >"$state/run/$name"
}
born() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
alive() {
  local pid when
  read -r pid when <"$state/run/$1" && [[ $when && $(born "$pid") == "$when" ]]
}
services() { ls "$state/run" 2>/dev/null; }
all_alive() {
  local name
  for name in $(services); do alive "$name" || return; done
}

# signal SIGNAL NAME…: to those of them that are alive, with all that they started.
signal() {
  local sig=$1 name pid
  shift
  for name; do
    alive "$name" && read -r pid _ <"$state/run/$name" && kill "-$sig" -- "-$pid" 2>/dev/null || :
  done
}
ended() {
  local name
  for name; do ! alive "$name" || return 1; done
}

# end NAME…: asks them to, and insists soon: nothing of theirs is kept.
end() {
  signal TERM "$@"
  (eventually 5 ended "$@") 2>/dev/null || signal KILL "$@"
}
