package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"windsock"
	"windsock/api"
	"windsock/store"
)

// said runs a command to its end and returns what it printed.
func said(t *testing.T, status int, args ...string) (out, err string) {
	t.Helper()
	p := start(t, args...)
	done := make(chan string, 1)
	go func() { done <- strings.Join(all(p.Err), "\n") }()
	out = strings.Join(all(p.Out), "\n")
	err = <-done
	if got := <-p.Exit; got != status {
		t.Fatalf("%v: exit status %d, want %d; it said %s %s", args, got, status, out, err)
	}
	return out, err
}

// serving starts windsock and returns its URL.
func serving(t *testing.T, args ...string) string {
	t.Helper()
	p := start(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	_, address, _ := strings.Cut(await(t, p.Err, "msg=ready"), "address=")
	address, _, _ = strings.Cut(address, " ")
	return address
}

func TestTokenCommands(t *testing.T) {
	dir := t.TempDir()
	db, file := filepath.Join(dir, "w.db"), filepath.Join(dir, "ops.token")
	ops, note := said(t, 0, "token", "create", "ops", "--role", "admin", "--db", db)
	if !strings.HasPrefix(ops, "wst_") || strings.Contains(ops, "\n") || strings.Contains(note, ops) {
		t.Fatalf("printed is %q, and beside it %q", ops, note)
	}
	if err := os.WriteFile(file, []byte(ops+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serving(t, "--db", db)
	if _, err := said(t, 1, "token", "list", "--url", url); !strings.Contains(err, "Authorization: Bearer") {
		t.Errorf("without a token it says %q", err)
	}
	said(t, 0, "healthcheck", "--url", url)

	reader, note := said(t, 0, "token", "create", "reader", "--ttl", "90d", "--url", url, "--token-file", file)
	if !strings.Contains(note, "role read") || !strings.Contains(note, "valid until 20") {
		t.Errorf("it says %q", note)
	}
	said(t, 0, "token", "create", "nagios", "--role", "report", "--scope", "deployment:shop", "--db", db) // beside it
	list, _ := said(t, 0, "token", "list", "--url", url, "--token-file", file)
	if lines := strings.Split(list, "\n"); len(lines) != 4 || !strings.Contains(lines[1], "deployment:shop") || strings.Contains(list, ops[4:]) {
		t.Errorf("listed are\n%s", list)
	}
	if list, _ := said(t, 0, "token", "list", "--json", "--db", db); strings.Count(list, `"name":`) != 3 {
		t.Errorf("listed are\n%s", list)
	}

	t.Setenv("WINDSOCK_TOKEN", reader)
	if _, err := said(t, 1, "token", "revoke", "ops", "--url", url); !strings.Contains(err, "reader has the role read; this takes admin") {
		t.Errorf("it says %q", err)
	}
	if out, _ := said(t, int(notPossible), "wait", "deployment", "none", "--url", url); !strings.Contains(out, "not found") {
		t.Errorf("it says %q", out)
	}
	if out, _ := said(t, int(statusUnknown), "check", "deployment", "none", "--url", url); !strings.Contains(out, "this takes report") {
		t.Errorf("it says %q", out)
	}
	said(t, 0, "token", "revoke", "reader", "--url", url, "--token-file", file)
	if _, err := said(t, 1, "token", "list", "--url", url); !strings.Contains(err, "revoked") {
		t.Errorf("with a token that is revoked it says %q", err)
	}
	if _, err := said(t, 1, "token", "revoke", "reader", "--db", db); !strings.Contains(err, "not found") {
		t.Errorf("it says %q", err)
	}
	if _, err := said(t, 1, "token", "create", "ops", "--db", db); !strings.Contains(err, `"ops" is there`) {
		t.Errorf("it says %q", err)
	}
	if _, err := said(t, 1, "token", "list", "--url", url, "--token-file", filepath.Join(dir, "none")); !strings.Contains(err, "no such file") {
		t.Errorf("it says %q", err)
	}
}

// What others reach is not served before there is a token.
func TestListensElsewhereWithTokensOnly(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "w.db")
	if _, err := said(t, 1, "serve", "--listen", "0.0.0.0:0", "--db", db); !strings.Contains(err, "windsock token create NAME --role admin --db "+db) {
		t.Errorf("it says %q", err)
	}

	st, err := store.Open(t.Context(), db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	elsewhere, here := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, &net.TCPAddr{IP: net.IPv6loopback}
	open := func(opts ServeOptions, at *net.TCPAddr) bool {
		t.Helper()
		var srv api.Server
		if err := opts.restrict(t.Context(), &srv, st, at); err != nil {
			t.Errorf("at %s: %v", at, err)
		}
		if srv.Open == nil {
			return false
		}
		open, err := srv.Open(t.Context())
		if err != nil {
			t.Error(err)
		}
		return open
	}
	for _, at := range []*net.TCPAddr{elsewhere, {}, {IP: net.IPv6unspecified}} {
		if (&ServeOptions{}).restrict(t.Context(), &api.Server{}, st, at) == nil {
			t.Errorf("it listens at %s without a token", at)
		}
	}
	if !open(ServeOptions{}, here) {
		t.Error("on loopback everybody is asked, though there is no token")
	}
	admin := adminToken(t, strings.Repeat("a", minAdminToken))
	if open(ServeOptions{Admin: admin}, here) || open(ServeOptions{Admin: admin}, elsewhere) {
		t.Error("nobody is asked, though there is the token of a file")
	}
	if _, _, err := st.AddToken(t.Context(), windsock.TokenSpec{Name: "ops", Role: windsock.MayAdmin}); err != nil {
		t.Fatal(err)
	}
	if open(ServeOptions{}, here) || open(ServeOptions{}, elsewhere) {
		t.Error("nobody is asked, though there is a token")
	}
}

func adminToken(t *testing.T, token string) *AdminToken {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := ReadAdminToken(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAdminTokenFile(t *testing.T) {
	first, second := strings.Repeat("1", minAdminToken), strings.Repeat("2", minAdminToken)
	a := adminToken(t, "\n "+first+"\n")
	knows := func(token string) bool {
		p, err := a.Principal(t.Context(), windsock.Secret(token))
		if err != nil && !errors.Is(err, windsock.ErrUnauthorized) {
			t.Error(err)
		}
		return p.Permission == windsock.MayAdmin
	}
	if !knows(first) || knows(first+" ") || knows("") || knows(first[1:]) {
		t.Error("it does not know its own token, or another")
	}
	for _, bad := range []string{"", first[1:], first + " " + second, "ü" + first, first + "\x00"} {
		if err := os.WriteFile(a.path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.Read(); err == nil || bad != "" && strings.Contains(err.Error(), bad) || !knows(first) {
			t.Errorf("%q is read as a token: %v", bad, err)
		}
	}
	if _, err := ReadAdminToken(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is one")
	}

	// At a hangup it is read again, without a configuration file, too.
	hangup, logged := make(chan os.Signal), make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		new(ServeCmd).reload(ctx, hangup, nil, a, new(slog.LevelVar), slog.New(slog.NewTextHandler(lineWriter(logged), nil)))
	}()
	hangup <- syscall.SIGHUP
	if line := <-logged; !strings.Contains(line, "not read again") || !knows(first) {
		t.Errorf("with a bad file it says %s", line)
	}
	if err := os.WriteFile(a.path, []byte(second), 0o600); err != nil {
		t.Fatal(err)
	}
	hangup <- syscall.SIGHUP
	if line := <-logged; !strings.Contains(line, "read again") || knows(first) || !knows(second) {
		t.Errorf("with another token it says %s", line)
	}
	cancel()
	<-ended
}

type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
