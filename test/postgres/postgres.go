// Package postgres has tests run on a PostgreSQL: one that is started for them of the
// programs on this machine, or the one of WINDSOCK_TEST_POSTGRES.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	if errors.Is(err, ErrNone) && os.Getenv(variable) != "required" {
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
	Addr string // "host:port"; "": it has a socket only

	given    string // where it is, if it is not ours
	dir      string
	bin      string
	settings []string
	user     *syscall.Credential // nil: ours
	cmd      *exec.Cmd
	held     io.WriteCloser // while this is open it runs
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return ending(t, start)
}

// StartDurable starts one that loses nothing to the power either, and that can be reached
// by TCP, too.
func StartDurable(t testing.TB) *Server {
	t.Helper()
	return ending(t, Durable)
}

func ending(t testing.TB, start func() (*Server, error)) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		leave(t, err)
	}
	t.Cleanup(s.Remove)
	return s
}

// Durable is StartDurable for who removes it himself.
func Durable() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	return create(&Server{Addr: addr, settings: []string{"listen_addresses=127.0.0.1", "port=" + port, "max_connections=300"}})
}

var ErrNone = errors.New("no PostgreSQL is installed here, and " + variable + " names none")

// start starts one of which what was committed is not to survive the power, but all else.
func start() (*Server, error) {
	return create(&Server{settings: []string{"listen_addresses=", "fsync=off", "full_page_writes=off", "max_connections=300"}})
}

func create(s *Server) (*Server, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append([]string{path}, found...)
	}
	if len(found) == 0 {
		return nil, ErrNone
	}
	s.bin = filepath.Dir(found[len(found)-1])
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
	initdb := s.Command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en", "--no-sync")
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
const supervise = `dir=$1; shift; "$@" >>"$dir/log" 2>&1 & read -r word; kill -"${word:-QUIT}" $!; wait $!; [ "$word" ] || rm -rf "$dir"`

// Start starts it again.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) start() (err error) {
	args := []string{"-c", supervise, "sh", s.dir, filepath.Join(s.bin, "postgres"), "-D", s.data(), "-k", s.dir}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	s.cmd = s.command("/bin/sh", args...)
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

// Stop ends it as a crash does: nobody is waited for. StopFast has it roll back what is
// under way, and write down all that it has.
func (s *Server) Stop()     { s.stop("QUIT") }
func (s *Server) StopFast() { s.stop("INT") }

func (s *Server) stop(signal string) {
	if s.held == nil {
		return
	}
	io.WriteString(s.held, signal+"\n")
	s.held.Close()
	s.cmd.Wait()
	s.held = nil
}

// Remove ends it and leaves nothing.
func (s *Server) Remove() {
	s.Stop()
	os.RemoveAll(s.dir)
}

// Command is one of PostgreSQL's own programs, to be run.
func (s *Server) Command(name string, args ...string) *exec.Cmd {
	return s.command(filepath.Join(s.bin, name), args...)
}

// URL is where it is.
func (s *Server) URL() string {
	switch {
	case s.given != "":
		return s.given
	case s.Addr != "":
		return "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable"
	}
	return "postgres://postgres@/postgres?host=" + url.QueryEscape(s.dir)
}
