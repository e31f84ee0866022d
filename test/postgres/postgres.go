// Package postgres has tests run on a PostgreSQL: one that is started for them of the
// programs on this machine, or the one of WINDSOCK_TEST_POSTGRES.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// variable names the server that tests are to use. If it is "required", one is started,
// and where there is none to start that is a failure.
const variable = "WINDSOCK_TEST_POSTGRES"

// shared ends with this process.
var shared = sync.OnceValues(func() (*Server, error) {
	if given := os.Getenv(variable); given != "" && given != "required" {
		return &Server{given: given}, nil
	}
	return start()
})

// Schema returns the URL of an empty schema, of a server that all tests of a program share.
func Schema(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		leave(t, err)
	}
	server := s.URL()
	name := "t" + uuid.NewString()[:8]
	run(t, server, "CREATE SCHEMA "+name)
	if s.given != "" {
		t.Cleanup(func() { run(t, server, "DROP SCHEMA "+name+" CASCADE") })
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

func leave(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNone) && os.Getenv(variable) != "required" {
		t.Skip(err)
	}
	t.Fatal(err)
}

func run(t testing.TB, server, statement string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, statement); err != nil {
		t.Fatal(err)
	}
}

// A Server is one that a test has for itself, to stop it and start it anew.
type Server struct {
	given string // where it is, if it is not ours
	dir   string
	bin   string
	user  *syscall.Credential // nil: ours
	cmd   *exec.Cmd
	held  io.WriteCloser // while this is open it runs
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		leave(t, err)
	}
	t.Cleanup(func() {
		s.Stop()
		os.RemoveAll(s.dir)
	})
	return s
}

var errNone = errors.New("no PostgreSQL is installed here, and " + variable + " names none")

func start() (*Server, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append([]string{path}, found...)
	}
	if len(found) == 0 {
		return nil, errNone
	}
	s := &Server{bin: filepath.Dir(found[len(found)-1])}
	if os.Getuid() == 0 { // which PostgreSQL refuses
		account, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		s.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	var err error
	if s.dir, err = os.MkdirTemp("/tmp", "windsock-pg"); err != nil { // a socket's path is short
		return nil, err
	}
	if s.user != nil {
		if err := os.Chown(s.dir, int(s.user.Uid), int(s.user.Gid)); err != nil {
			return nil, err
		}
	}
	// A locale that sorts otherwise than by bytes, which nothing may depend on.
	initdb := s.command(filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return s, s.start()
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user, Setpgid: true}
	return cmd
}

// supervise ends the server when our end of its input is closed, however we end.
const supervise = `dir=$1; shift; "$@" >>"$dir/log" 2>&1 & read -r word; kill -QUIT $!; wait $!; [ "$word" = keep ] || rm -rf "$dir"`

// Start starts it again.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) start() (err error) {
	// What was committed is not to survive the power, but for all else.
	s.cmd = s.command("/bin/sh", "-c", supervise, "sh", s.dir, filepath.Join(s.bin, "postgres"), "-D", s.data(), "-k", s.dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=300")
	if s.held, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop ends it as a crash does: nobody is waited for.
func (s *Server) Stop() {
	if s.held == nil {
		return
	}
	io.WriteString(s.held, "keep\n")
	s.held.Close()
	s.cmd.Wait()
	s.held = nil
}

// URL is where it is.
func (s *Server) URL() string {
	if s.given != "" {
		return s.given
	}
	return "postgres://postgres@/postgres?host=" + url.QueryEscape(s.dir)
}
