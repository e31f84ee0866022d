package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// The agent takes what there is to run, and says what came of it. Folders may be given
// from where it was started.
func TestAgent(t *testing.T) {
	signalled := make(chan string, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/instances/db-1/components", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			<-r.Context().Done()
			return
		}
		if auth := r.Header.Get("Authorization"); auth != "Bearer wsi_a" {
			t.Errorf("Authorization: %s", auth)
		}
		w.Header().Set("ETag", `"1"`)
		fmt.Fprintf(w, `{"components": [{"id": "a.1", "name": "a", "deployment_id": "shop", "group": "mine",
			"deadline_at": %q, "signal_url": "http://windsock.example/api/signal/wss_a"}]}`, time.Now().Add(time.Hour).Format(time.RFC3339))
	})
	mux.HandleFunc("POST /api/signal/wss_a", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		signalled <- string(body)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"token": "wsi_a\n", "mine": "#!/bin/sh\necho x\n"} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "agent", "--url", s.URL, "--instance", "db-1", "--token-file", "token", "--state", "state", "--hooks", ".")
	for _, want := range []string{`{"status":"started"}`, `{"deploy_status_code":0,"deploy_stderr":"","deploy_stdout":"x\n"}`} {
		select {
		case got := <-signalled:
			if got != want {
				t.Errorf("signalled %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%s was never signalled", want)
		}
	}
	p.Stop()
	if status := <-p.Exit; status != 0 {
		t.Errorf("it ended with %d", status)
	}
}

func TestAgentRefuses(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(open, []byte("wsi_a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"no URL":                       {[]string{"--instance", "a"}, 2, "--url"},
		"a URL that is none":           {[]string{"--instance", "a", "--url", "windsock.example"}, 2, "--url: want a URL"},
		"no instance":                  {[]string{"--url", "http://127.0.0.1:1"}, 2, "--instance"},
		"no token":                     {[]string{"--url", "http://127.0.0.1:1", "--instance", "a", "--token-file", open + "-not"}, 1, "no such file"},
		"a token that others may read": {[]string{"--url", "http://127.0.0.1:1", "--instance", "a", "--token-file", open}, 1, "chmod 600"},
		"install, but what":            {[]string{"install", "--url", "http://127.0.0.1:1", "--instance", "a"}, 2, "--print"},
		"install without a token":      {[]string{"install", "--print", "--url", "http://127.0.0.1:1", "--instance", "a", "--token-file", open + "-not"}, 1, "no such file"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append([]string{"agent"}, tc.args...), &stdout, &stderr)
		if status != tc.status || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%s: exit status %d, want %d; want %q in: %s", name, status, tc.status, tc.want, &stderr)
		}
	}
}

// printed is what an agent install prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), append([]string{"agent", "install"}, args...), &stdout, &stderr); status != 0 {
		t.Fatalf("exit status %d: %s", status, &stderr)
	}
	return stdout.String()
}

func TestAgentUserData(t *testing.T) {
	t.Parallel()
	type file struct{ Path, Permissions, Content string }
	var got struct {
		Files []file     `yaml:"write_files"`
		Run   [][]string `yaml:"runcmd"`
	}
	args := []string{"--print", "--url", "https://windsock.example/", "--instance", "db: #1", "--token", "wsi_a", "--binary-url", "https://windsock.example/arm64"}
	for _, name := range []string{"ca", "cert", "key"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--"+name+"-file", path)
	}
	text := printed(t, args...)
	if !strings.HasPrefix(text, "#cloud-config\n") {
		t.Errorf("it begins with %.20q", text)
	}
	if err := yaml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	unit := printed(t, "--unit", "--url", "https://windsock.example/", "--instance", "db: #1",
		"--ca-file", "/etc/windsock/ca.pem", "--cert-file", "/etc/windsock/cert.pem", "--key-file", "/etc/windsock/key.pem")
	files := []file{
		{"/etc/windsock/token", "0600", "wsi_a\n"},
		{"/etc/windsock/ca.pem", "0600", "ca\n"},
		{"/etc/windsock/cert.pem", "0600", "cert\n"},
		{"/etc/windsock/key.pem", "0600", "key\n"},
		{"/etc/systemd/system/windsock-agent.service", "0644", unit},
	}
	if diff := cmp.Diff(files, got.Files); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := len(got.Run); n != 4 || got.Run[0][0] != "curl" || got.Run[n-1][0] != "systemctl" {
		t.Errorf("runs %q", got.Run)
	}
	if tool, err := exec.LookPath("cloud-init"); err == nil {
		path := filepath.Join(t.TempDir(), "user-data")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tool, "schema", "--config-file", path).CombinedOutput(); err != nil {
			t.Errorf("cloud-init schema: %v\n%s", err, out)
		}
	}
}

func TestAgentUnit(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := printed(t, "--unit", "--url", "https://windsock.example", "--instance", `50% "a\b" $c`, "--binary", self)
	if want := `"--instance" "50%% \"a\\b\" $$c" "--token-file" "/etc/windsock/token"`; !strings.Contains(unit, want) {
		t.Errorf("%s is not in\n%s", want, unit)
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not here to read it")
	}
	path := filepath.Join(t.TempDir(), "windsock-agent.service")
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "verify", "--man=no", path).CombinedOutput(); err != nil || strings.Contains(string(out), "windsock-agent.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
