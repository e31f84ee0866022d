// Package arm64 runs the binary for arm64, as "make build-arm64" makes it: by itself
// where this is an arm64, else by qemu.
package arm64

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// windsock is the program with those arguments.
func windsock(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := filepath.Abs("../../bin/windsock-arm64")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skip("there is none: make build-arm64")
	}
	if runtime.GOARCH == "arm64" {
		return exec.Command(binary, args...)
	}
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("nothing runs it here; on Debian: apt-get install qemu-user-static")
	}
	return exec.Command(qemu, append([]string{binary}, args...)...)
}

// start starts it, and stops it when the test ends. What it logs is passed on.
func start(t *testing.T, args ...string) <-chan string {
	t.Helper()
	cmd := windsock(t, args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, ended := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(log); s.Scan(); {
			lines <- s.Text()
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("windsock %s: %v", args[0], err)
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	return lines
}

const patience = time.Minute

func TestVersion(t *testing.T) {
	out, err := windsock(t, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "linux/arm64") || !strings.Contains(string(out), "SQLite 3.") {
		t.Errorf("got %s, %v", out, err)
	}
}

// The service keeps what it is told in SQLite.
func TestService(t *testing.T) {
	log := start(t, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "w.db"))
	addr := ""
	for timeout := time.After(patience); addr == ""; {
		select {
		case line := <-log:
			if _, at, ok := strings.Cut(line, " address="); ok && strings.Contains(line, "msg=ready") {
				addr, _, _ = strings.Cut(at, " ")
			}
		case <-timeout:
			t.Fatal("it is never ready")
		}
	}
	req, err := http.NewRequest(http.MethodPut, addr+"/api/instances/web-1", strings.NewReader(`{"deployment_id": "shop"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, ask := range []func() (*http.Response, error){
		func() (*http.Response, error) {
			return http.Post(addr+"/api/deployments", "application/json", strings.NewReader(`{"id": "shop"}`))
		},
		func() (*http.Response, error) { return http.DefaultClient.Do(req) },
		func() (*http.Response, error) {
			return http.Post(addr+"/api/monitors/deployment/instance/web-1", "application/json", strings.NewReader(`{"version": "1", "state": "FAIL DETECTED"}`))
		},
	} {
		resp, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %s %s", resp.Request.Method, resp.Request.URL, resp.Status, body)
		}
	}
	resp, err := http.Get(addr + "/api/instances/web-1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Observed string `json:"observed_state"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Observed != "failed" {
		t.Errorf("got %q, %v, want failed", got.Observed, err)
	}
}

// The agent runs a script, and signals what came of it.
func TestAgent(t *testing.T) {
	signalled := make(chan string, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/instances/db-1/components", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("ETag", `"1"`)
		fmt.Fprint(w, `{"components": [{"id": "a.1", "name": "a", "group": "script", "config": "echo $((40+2))", "signal_url": "http://x/api/signal/wss_a"}]}`)
	})
	mux.HandleFunc("POST /api/signal/wss_a", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		signalled <- string(body)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("wsi_a"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "agent", "--url", s.URL, "--instance", "db-1", "--token-file", filepath.Join(dir, "token"), "--state", filepath.Join(dir, "state"), "--hooks", dir)
	for _, want := range []string{`{"status":"started"}`, `{"deploy_status_code":0,"deploy_stderr":"","deploy_stdout":"42\n"}`} {
		select {
		case got := <-signalled:
			if got != want {
				t.Errorf("signalled %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%s was never signalled", want)
		}
	}
}
