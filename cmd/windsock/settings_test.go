package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"windsock"
)

// parseServe returns the command as the arguments and the environment give it.
func parseServe(t *testing.T, args ...string) *ServeCmd {
	t.Helper()
	var cmds commands
	parser := kong.Must(&cmds, defaults, kong.Writers(io.Discard, io.Discard))
	if _, err := parser.Parse(append([]string{"serve"}, args...)); err != nil {
		t.Fatal(err)
	}
	return &cmds.Serve
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	file := Config{Listen: "file:1", DB: "file.db", Plugins: []string{"/file"}, Log: LogConfig{Level: "error", Format: "json"}}
	check := func(c *ServeCmd, file Config, wantListen, wantDB, wantPlugins, wantLevel string, wantJSON bool) {
		t.Helper()
		opts := c.options(file)
		if plugins := strings.Join(opts.Plugins, " "); opts.Listen != wantListen || opts.DB != wantDB || plugins != wantPlugins {
			t.Errorf("got %s, %s, %s; want %s, %s, %s", opts.Listen, opts.DB, plugins, wantListen, wantDB, wantPlugins)
		}
		var out bytes.Buffer
		level := new(slog.LevelVar)
		log, err := c.logger(&out, level, file)
		if err != nil {
			t.Fatal(err)
		}
		log.Error("x")
		if isJSON := strings.HasPrefix(out.String(), "{"); level.Level().String() != wantLevel || isJSON != wantJSON {
			t.Errorf("level %s, logs %q; want %s, JSON %t", level, out.String(), wantLevel, wantJSON)
		}
	}
	check(parseServe(t), Config{}, defaultListen, defaultDB, strings.Join(defaultPlugins, " "), "INFO", false)
	check(parseServe(t), file, "file:1", "file.db", "/file", "ERROR", true)

	t.Setenv("WINDSOCK_LISTEN", "env:1")
	t.Setenv("WINDSOCK_DB", "env.db")
	t.Setenv("WINDSOCK_PLUGINS", "/env,/env2")
	t.Setenv("WINDSOCK_LOG_LEVEL", "warn")
	t.Setenv("WINDSOCK_LOG_FORMAT", "text")
	check(parseServe(t), file, "env:1", "env.db", "/env /env2", "WARN", false)
	check(parseServe(t, "--listen", "flag:1", "--db", "flag.db", "--plugins", "/a", "--plugins", "/b", "--log-level", "debug", "--log-format", "json"),
		file, "flag:1", "flag.db", "/a /b", "DEBUG", true)
}

func TestOrigin(t *testing.T) {
	host, _ := os.Hostname()
	if got := parseServe(t).options(Config{}).Origin; got != host && got != "" {
		t.Errorf("by default it is %s", got)
	}
	file := Config{Origin: "file.example.com"}
	check := func(want string, args ...string) {
		t.Helper()
		if got := parseServe(t, args...).options(file).Origin; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check("file.example.com")
	t.Setenv("WINDSOCK_ORIGIN", "env.example.com")
	check("env.example.com")
	check("flag.example.com", "--origin", "flag.example.com")
}

func TestRoles(t *testing.T) {
	file := Config{Roles: []windsock.Role{windsock.RoleObserver}}
	check := func(want string, args ...string) {
		t.Helper()
		if got := fmt.Sprint(parseServe(t, args...).options(file).Roles); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check("[observer]")
	t.Setenv("WINDSOCK_ROLES", "api,deliverer")
	check("[api deliverer]")
	check("[api observer]", "--roles", "api,observer")
	err := parseServe(t, "--roles", "api,cook").Run(t.Context(), stdio{io.Discard, io.Discard})
	if err == nil || !strings.Contains(err.Error(), `got "cook"`) {
		t.Errorf("a role that there is not: %v", err)
	}
}

func TestHangupReadsTheFileAgain(t *testing.T) {
	path := writeConfig(t, "log: {level: info}\n")
	c := &ServeCmd{Config: path}
	level := new(slog.LevelVar)
	out, said := lines()
	log := slog.New(slog.NewTextHandler(out, nil))
	hangup, reloads := make(chan os.Signal), make(chan Config)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.reload(ctx, hangup, reloads, nil, level, log)
	}()

	rewrite(t, path, "log: {level: debug}\ndeployments: [{id: shop}]\n")
	hangup <- syscall.SIGHUP
	if file := <-reloads; len(file.Deployments) != 1 || level.Level() != slog.LevelDebug {
		t.Errorf("after a hangup: %+v, level %s", file, level)
	}

	rewrite(t, path, "log: {level: error}\ndeployments: [{id: a/b}]\n")
	hangup <- syscall.SIGHUP
	await(t, said, "windsock.yaml:2: deployments[0].id")
	if level.Level() != slog.LevelDebug {
		t.Errorf("a file that is no good set the level to %s", level)
	}

	rewrite(t, path, "deployments: [{id: bank}]\n")
	hangup <- syscall.SIGHUP
	if file := <-reloads; len(file.Deployments) != 1 || file.Deployments[0].ID != "bank" || level.Level() != slog.LevelInfo {
		t.Errorf("after it was mended: %+v, level %s", file, level)
	}

	hangup <- syscall.SIGHUP
	cancel() // while what was read may not have been taken over yet
	<-ended
}

// TestServeTakesOverTheFile runs the whole service: what the file declares is there
// from the start, and what it declares later is there after a hangup.
func TestServeTakesOverTheFile(t *testing.T) {
	path := writeConfig(t, "deployments: [{id: shop, instances: [{id: web}]}]\n")
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "windsock.db"), "--config", path)
	_, url, _ := strings.Cut(await(t, p.Err, "msg=ready"), "address=")
	url, _, _ = strings.Cut(url, " ")
	status := func(path string) int {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if was, will := status("/api/instances/web"), status("/api/instances/db"); was != 200 || will != 404 {
		t.Errorf("at first web is answered %d and db %d, want 200 and 404", was, will)
	}
	rewrite(t, path, "reports: [{name: own, subject: [{id: '{/vm}'}], cases: [{word: FAIL DETECTED}]}]\ndeployments: [{id: shop, instances: [{id: web}, {id: db}]}]\n")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, p.Err, "file read again")
	if got := status("/api/instances/db"); got != 200 {
		t.Errorf("after a hangup db is answered %d, want 200", got)
	}
	resp, err := http.Post(url+"/api/reports/own", "application/json", strings.NewReader(`{"vm":"db"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("a report by a rule that is new after a hangup is answered %d, want 200", resp.StatusCode)
	}
	check := start(t, "healthcheck", "--url", url)
	check.exits(t, 0)
	p.Stop()
	p.exits(t, 0)
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
