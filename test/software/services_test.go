package software

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// serveAs is what the scripts start, this program being both: a database that keeps what
// it is sent, or a web service that shows what is in it. It writes where it answers, and
// ends when it is asked to.
func serveAs(role string) {
	var h http.Handler
	switch role {
	case "database":
		h = database(os.Getenv("PASSWORD"))
	case "web":
		h = web("settings.json")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile("pid", []byte(fmt.Sprint(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	panic(http.Serve(l, h))
}

func database(password string) http.Handler {
	var mu sync.Mutex
	kept := map[string][]byte{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, given, _ := r.BasicAuth()
		switch data, err := io.ReadAll(r.Body); {
		case given != password:
			w.WriteHeader(http.StatusUnauthorized)
		case err == nil && r.Method == http.MethodPut:
			kept[r.URL.Path] = data
		default:
			w.Write(kept[r.URL.Path])
		}
	})
}

func web(settings string) http.Handler {
	var s struct{ Database, Password string }
	data, err := os.ReadFile(settings)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		panic(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, _ := http.NewRequest("GET", "http://"+s.Database+r.URL.Path, nil)
		q.SetBasicAuth("shop", s.Password)
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		row, _ := io.ReadAll(answer.Body)
		io.WriteString(w, strings.TrimSpace(string(row)))
	})
}

// stopServices ends what the scripts started.
func stopServices(t *testing.T, dir string) {
	pids, _ := filepath.Glob(filepath.Join(dir, "*", "pid"))
	for _, path := range pids {
		var pid int
		data, _ := os.ReadFile(path)
		if _, err := fmt.Sscan(string(data), &pid); err == nil {
			syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	if len(pids) != 2 {
		t.Errorf("%d services were started, want 2", len(pids))
	}
}
