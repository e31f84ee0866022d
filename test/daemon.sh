# What the scripts share that start a daemon to test against. They say where it is in
# $state; all that it keeps is there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$state"

say() { printf '%s  %s\n' "$(date +%T)" "$*" >&2; }
fail() { say "FAIL: $*"; tail -n 20 "$state"/*.log >&2 || :; exit 1; }

# eventually SECONDS COMMAND…: until the command succeeds.
eventually() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || fail "in vain, for too long: $*"
    sleep 0.1
  done
}

# install PACKAGE…: those that are missing, without starting what is in them.
install() {
  local missing=() package policy=/usr/sbin/policy-rc.d
  for package; do
    [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null) == ii* ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  say "installs ${missing[*]}"
  apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" >>"$state/apt.log" 2>&1 </dev/null; }
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  apt update && apt install -y --no-install-recommends "${missing[@]}" || fail "the packages cannot be installed"
}

# start NAME COMMAND…: in the background, in a process group of its own, unless it runs.
start() {
  local name=$1
  shift
  ! alive "$name" || return 0
  setsid "$@" >>"$state/$name.log" 2>&1 </dev/null &
  echo "$! $(born $!)" >"$state/$name.pid"
}
born() { sed 's/.*) //; /^Z/d' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; } # nothing, once it has ended
alive() {
  local pid when
  read -r pid when 2>/dev/null <"$state/$1.pid" && [[ $when && $(born "$pid") == "$when" ]]
}
ended() { ! alive "$1"; }

# end NAME: asks it to, and insists, with all that it started.
end() {
  local pid
  alive "$1" || return 0
  read -r pid _ <"$state/$1.pid"
  kill "$pid"
  (eventually 15 ended "$1") 2>/dev/null || :
  kill -KILL -- "-$pid" 2>/dev/null || :
}
