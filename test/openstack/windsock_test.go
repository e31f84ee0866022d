package openstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	state   = os.Getenv("WINDSOCK_TEST_OPENSTACK") // the folder of the cloud
	amqpURL = os.Getenv("WINDSOCK_TEST_AMQP")
	binary  string // the program under test
)

func TestMain(m *testing.M) {
	if state == "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "windsock-openstack")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "windsock")
	build := exec.Command("go", "build", "-o", binary, "windsock/cmd/windsock")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// A watcher is a windsock that observes the cloud, and a monitor that it calls back.
type watcher struct {
	name  string
	api   string
	pid   int
	began time.Time
	log   logFile

	mu    sync.Mutex
	told  []callback
	heard map[string]int // how many of a subject's callbacks were expected
}

type callback struct {
	Deployment string `json:"deployment_id"`
	Instance   string `json:"instance_id"`
	Word       string `json:"state"`
	Observed   string `json:"observed_state"`
	Reason     string `json:"reason"`

	at time.Time
}

func (c callback) subject() string {
	if c.Instance != "" {
		return c.Instance
	}
	return c.Deployment
}

// logFile is what a process writes to its standard error.
type logFile struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// observe starts one that looks for changes in the cloud, and at all of it, as often as is
// said, and listens to its notifications if there is a URL. It returns when it has listed
// it once.
func observe(t testing.TB, name, every, full, amqpURL string) *watcher {
	t.Helper()
	w := &watcher{name: name, began: time.Now(), heard: map[string]int{}}
	dir := t.TempDir()
	provider := map[string]any{"id": name, "kind": "openstack", "cloud": "member", "interval": every, "full": full}
	if amqpURL != "" {
		provider["notifications"] = amqpURL
	}
	settings, err := json.Marshal(map[string]any{ // which is YAML, too
		"providers":   []any{provider},
		"deployments": []any{map[string]any{"id": "shop", "provider": name, "provider_id": "shop", "flap": "off"}}, // much happens to one server
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "windsock.yaml"), settings, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(dir, "w.db"), "--config", filepath.Join(dir, "windsock.yaml"))
	cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+filepath.Join(state, "etc/clouds.yaml"))
	cmd.Stderr = &w.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.pid = cmd.Process.Pid
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("windsock %s: %v\n%s", name, err, w.log.String())
		}
		if password := os.Getenv("OS_PASSWORD"); password != "" && strings.Contains(w.log.String(), password) {
			t.Errorf("the log of windsock %s shows the password", name)
		}
	})
	ready := regexp.MustCompile(`msg=ready.* address=(http://\S+)`)
	eventually(t, "windsock is ready", func() bool { return ready.MatchString(w.log.String()) })
	w.api = ready.FindStringSubmatch(w.log.String())[1]

	monitor := httptest.NewServer(http.HandlerFunc(w.hearOf))
	t.Cleanup(monitor.Close)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(monitor.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(w.api+"/api/monitors/add", "application/json", strings.NewReader(fmt.Sprintf(`{"address": %q, "port": %s}`, host, port)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("the monitor is not added: %s", resp.Status)
	}
	eventually(t, name+" has listed the cloud", func() bool {
		resp, err := http.Get(w.api + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var text bytes.Buffer
		text.ReadFrom(resp.Body)
		return strings.Contains(text.String(), fmt.Sprintf("windsock_provider_up{provider=%q} 1", name)) &&
			(amqpURL == "" || strings.Contains(text.String(), fmt.Sprintf("windsock_provider_listening{provider=%q} 1", name)))
	})
	return w
}

func (w *watcher) hearOf(rw http.ResponseWriter, r *http.Request) {
	c := callback{at: time.Now()}
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, c)
}

// of returns the callbacks about a subject.
func (w *watcher) of(subject string) (told []callback) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.told {
		if c.subject() == subject {
			told = append(told, c)
		}
	}
	return told
}

// bound is generous: machines that run all of this are slow.
const bound = 20 * time.Second

// hear waits for what is heard next of a subject, and returns when that was. It fails the
// test if it is another word, or does not come.
func (w *watcher) hear(t testing.TB, seen time.Time, subject, word string) time.Time {
	t.Helper()
	n := w.heard[subject]
	w.heard[subject]++
	for deadline := time.After(bound); ; {
		if told := w.of(subject); len(told) > n {
			if c := told[n]; c.Word != word {
				t.Fatalf("%s heard %+v, want %s; of %v", w.name, c, word, told)
			}
			t.Logf("%-5s heard %s of %s %+.1f s after it was seen", w.name, word, subject, told[n].at.Sub(seen).Seconds())
			return told[n].at
		}
		select {
		case <-deadline:
			t.Fatalf("%s did not hear %s of %s within %s; but of %v", w.name, word, subject, bound, w.of(subject))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// hearNoMore fails the test for each callback about a server or a stack that was not
// waited for, or about a project: every server here has a deployment, but for old ones.
func (w *watcher) hearNoMore(t *testing.T, old []string) {
	t.Helper()
	told := map[string]bool{}
	w.mu.Lock()
	for _, c := range w.told {
		if c.Instance != "" && !slices.Contains(old, c.Instance) {
			told[c.Instance] = true
		}
		if strings.HasPrefix(c.Deployment, "project:") && len(old) == 0 {
			told[c.Deployment] = true
		}
	}
	w.mu.Unlock()
	for subject := range w.heard {
		told[subject] = true
	}
	for subject := range told {
		if all := w.of(subject); len(all) != w.heard[subject] {
			t.Errorf("%s heard %d callbacks of %s that nothing in the cloud was the cause of: %+v", w.name, len(all)-w.heard[subject], subject, all)
		}
	}
}

type watchers []*watcher

// hear waits for each to hear next of a subject what has just been seen in the cloud, and
// fails the test if it hears something else.
func (ws watchers) hear(t *testing.T, subject, word string) {
	t.Helper()
	seen := time.Now()
	for _, w := range ws {
		w.hear(t, seen, subject, word)
	}
}
