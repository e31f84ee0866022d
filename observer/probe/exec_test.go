package probe

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"windsock"
)

func run(t *testing.T, timeout windsock.Duration, command ...string) Result {
	return Look(t.Context(), windsock.Probe{Type: windsock.ProbeExec, Command: command, Timeout: timeout})
}

func script(text string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", text, "plugin"}, args...)
}

// What the monitoring-plugins 2.3.3 really print and exit with.
func TestPluginAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		stdout string
		exit   int
		want   Result
	}{
		"check_dummy 0": {"OK: all good", 0, running("OK: all good")},
		"check_dummy 1": {"WARNING: getting warm", 1, running("WARNING: getting warm")},
		"check_dummy 2": {"CRITICAL: broken", 2, failed("CRITICAL: broken")},
		"check_dummy 3": {"UNKNOWN: no idea", 3, unknown("UNKNOWN: no idea")},
		"check_disk": {"DISK CRITICAL - free space: / 71553MiB (76% inode=96%);| /=22763536384B;2705525309;2705525309;0;270552530944", 2,
			failed("DISK CRITICAL - free space: / 71553MiB (76% inode=96%);")},
		"check_file_age": {"FILE_AGE CRITICAL: File not found - /no/such/file", 2,
			failed("FILE_AGE CRITICAL: File not found - /no/such/file")},
		"check_http of a 404": {"HTTP WARNING: HTTP/1.0 404 Not Found - 176 bytes in 0.007 second response time |time=0.007045s;;;0.000000;5.000000 size=176B;;;0;", 1,
			running("HTTP WARNING: HTTP/1.0 404 Not Found - 176 bytes in 0.007 second response time")},
		"check_http of a 500": {"HTTP CRITICAL: HTTP/1.0 500 Internal Server Error - 94 bytes in 0.003 second response time |time=0.003268s;;;0.000000;5.000000 size=94B;;;0;", 2,
			failed("HTTP CRITICAL: HTTP/1.0 500 Internal Server Error - 94 bytes in 0.003 second response time")},
		"check_http, refused": {"connect to address 127.0.0.1 and port 18099: Connection refused\nHTTP CRITICAL - Unable to open TCP socket", 2,
			failed("connect to address 127.0.0.1 and port 18099: Connection refused")},
		"check_http, its own time-out": {"CRITICAL - Socket timeout after 1 seconds", 2,
			failed("CRITICAL - Socket timeout after 1 seconds")},
		"check_http without arguments": {"check_http: Could not parse arguments\nUsage:\n check_http -H <vhost> | -I <IP-address> [-u <uri>] [-p <port>]", 3,
			unknown("check_http: Could not parse arguments")},
		"check_load": {"LOAD OK - total load average: 22.79, 18.30, 11.33|load1=22.790;100.000;200.000;0; load5=18.300;100.000;200.000;0; load15=11.330;100.000;200.000;0; ", 0,
			running("LOAD OK - total load average: 22.79, 18.30, 11.33")},
		"check_procs": {"PROCS CRITICAL: 0 processes with command name 'no-such-proc' | procs=0;;1:;0;", 2,
			failed("PROCS CRITICAL: 0 processes with command name 'no-such-proc'")},
		"negate, misused": {"negate: Require path to command\nUsage:\nnegate [-t timeout] [-Towcu STATE] [-s] <definition of wrapped plugin>", 3,
			unknown("negate: Require path to command")},
	} {
		t.Run(name, func(t *testing.T) {
			command := script(`printf '%s\n' "$1"; exit "$2"`, tt.stdout, strconv.Itoa(tt.exit))
			wantResult(t, run(t, ample, command...), tt.want)
		})
	}
}

// The plugins themselves, where they are installed.
func TestInstalledPlugins(t *testing.T) {
	const dir = "/usr/lib/nagios/plugins"
	if _, err := os.Stat(dir + "/check_tcp"); err != nil {
		t.Skip("the package monitoring-plugins-basic is not installed")
	}
	_, open, _ := strings.Cut(accept(t, func(c net.Conn) { c.Close() }), ":")
	_, closed, _ := strings.Cut(nobody(t), ":")
	for name, tt := range map[string]struct {
		command []string
		want    windsock.State
		reason  string
	}{
		"dummy, OK":      {[]string{dir + "/check_dummy", "0", "fine"}, windsock.Running, "OK: fine"},
		"dummy, UNKNOWN": {[]string{dir + "/check_dummy", "3"}, windsock.Unknown, "UNKNOWN"},
		"tcp, open":      {[]string{dir + "/check_tcp", "-H", "127.0.0.1", "-p", open}, windsock.Running, "TCP OK - "},
		"tcp, closed":    {[]string{dir + "/check_tcp", "-H", "127.0.0.1", "-p", closed}, windsock.Failed, "connect to address 127.0.0.1"},
		"tcp, misused":   {[]string{dir + "/check_tcp"}, windsock.Unknown, "check_tcp: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, ample, tt.command...)
			if got.State != tt.want || !strings.HasPrefix(got.Reason, tt.reason) {
				t.Errorf("got %s: %q, want %s: %q…", got.State, got.Reason, tt.want, tt.reason)
			}
		})
	}
}

func TestPluginOutput(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want Result
	}{
		"no line break":          {`printf OK`, running("OK")},
		"nothing":                {`exit 2`, failed("plugin said nothing")},
		"a warning, not so said": {`echo getting warm; exit 1`, running("WARNING: getting warm")},
		"figures only":           {`echo '|time=1s'`, running("plugin said nothing")},
		"complaints":             {`echo complaint >&2; echo OK`, running("OK")},
		"binary":                 {`printf '\377\376 O\000K\033[31m\tred \342\200\256 \303\244|x'; exit 2`, failed("OK[31m red  ä")},
		"megabytes on one line":  {`head -c 3000000 /dev/zero | tr '\0' x; exit 2`, failed(strings.Repeat("x", maxLine-len("…")) + "…")},
		"megabytes after it":     {`echo OK; head -c 3000000 /dev/zero`, running("OK")},
		"a cut inside a letter":  {`printf x; for i in $(seq 200); do printf ä; done`, running("x" + strings.Repeat("ä", 126) + "…")},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, ample, script(tt.text)...)
			wantResult(t, got, tt.want)
			if len(got.Reason) > maxLine || !utf8.ValidString(got.Reason) {
				t.Errorf("%d bytes, valid: %v", len(got.Reason), utf8.ValidString(got.Reason))
			}
		})
	}
}

func TestPluginWithoutAnswer(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	busy := file("busy", "#!/bin/sh\n", 0o700)
	writer, err := os.OpenFile(busy, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for name, tt := range map[string]struct {
		command []string
		want    string
	}{
		"missing":              {[]string{"/no/such/plugin"}, "plugin does not start: no such file or directory"},
		"not executable":       {[]string{file("plain", "#!/bin/sh\n", 0o600)}, "plugin does not start: permission denied"},
		"a folder":             {[]string{dir}, "plugin does not start: permission denied"},
		"no program":           {[]string{file("text", "just text", 0o700)}, "plugin does not start: exec format error"},
		"being written":        {[]string{busy}, "plugin does not start: text file busy"},
		"its own is missing":   {script("exec /no/such/thing 2>/dev/null"), "plugin exited with 127: plugin said nothing"},
		"an exit of its own":   {script("echo what; exit 42"), "plugin exited with 42: what"},
		"killed by another":    {script("kill -9 $$"), "plugin killed by signal: killed"},
		"crashed":              {script("ulimit -c 0; kill -SEGV $$"), "plugin killed by signal: segmentation fault"},
		"killed while it said": {script("echo CRITICAL; kill -TERM $$"), "plugin killed by signal: terminated"},
	} {
		t.Run(name, func(t *testing.T) { wantResult(t, run(t, ample, tt.command...), unknown(tt.want)) })
	}
}

func TestPluginTimesOut(t *testing.T) {
	for name, text := range map[string]string{
		"hangs":                "exec sleep 1000",
		"hangs after a word":   "echo CRITICAL; sleep 1000",
		"prints for ever":      "exec yes",
		"does not want to die": "trap '' TERM INT HUP; while :; do sleep 1; done",
	} {
		t.Run(name, func(t *testing.T) { wantResult(t, run(t, soon, script(text)...), unknown("plugin timed out")) })
	}
}

func TestPluginCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := windsock.Probe{Type: windsock.ProbeExec, Command: script("exit 2"), Timeout: ample}
	wantResult(t, Look(ctx, p), unknown("the look was called off"))
}

// A plugin sees no secret of ours in its environment, and no folder that matters.
func TestPluginSurroundings(t *testing.T) {
	t.Setenv("WINDSOCK_SECRET", "SECRET")
	want := "/ C " + strings.TrimPrefix(environment[0], "PATH=") + " -"
	wantResult(t, run(t, ample, script(`echo "$PWD $LANG $PATH $HOME$WINDSOCK_SECRET-"`)...), running(want))
}

// A child that ignores SIGTERM and holds on to the output dies with its plugin, whether
// that hangs itself or has long ended, and leaves no zombie even if we are the one who
// inherits it.
func TestWholeGroupEnds(t *testing.T) {
	inheritOrphans(t)
	const child = `sh -c 'trap "" TERM; echo $$ >"$0"; while :; do sleep 1000; done' "$1" &
		while ! test -s "$1"; do sleep 0.01; done
		echo $$ >>"$1"; echo OK; `
	for name, tt := range map[string]struct {
		text    string
		timeout time.Duration
		want    Result
	}{
		"plugin hangs":     {child + "wait", 50 * time.Millisecond, unknown("plugin timed out")},
		"plugin has ended": {child + "exit 0", time.Minute, running("OK")},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pids")
			var pids []string
			for len(pids) < 2 { // on a busy machine they need longer than the time-out to get there
				os.Remove(file)
				wantResult(t, run(t, windsock.Duration(tt.timeout), script(tt.text, file)...), tt.want)
				written, _ := os.ReadFile(file)
				pids = strings.Fields(string(written))
				tt.timeout *= 2
			}
			for _, pid := range pids {
				n, err := strconv.Atoi(pid)
				if err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(n, 0); err != syscall.ESRCH {
					t.Errorf("process %s of %v is still there: %v", pid, pids, err)
				}
			}
		})
	}
}

// inheritOrphans makes this process the parent of its descendants that lose theirs, as
// it is in a container, until the test ends.
func inheritOrphans(t *testing.T) {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER of prctl(2)
	set := func(on uintptr) {
		if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, setChildSubreaper, on, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	set(1)
	t.Cleanup(func() { set(0) })
}

func TestOutputIsBounded(t *testing.T) {
	var h head
	for range 100 {
		if n, err := h.Write(make([]byte, 10_000)); n != 10_000 || err != nil {
			t.Fatalf("wrote %d, %v; want all, as a short write would end the plugin", n, err)
		}
	}
	if len(h) != maxOutput {
		t.Errorf("kept %d bytes, want %d", len(h), maxOutput)
	}
}
