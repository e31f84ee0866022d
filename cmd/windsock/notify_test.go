package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// systemd is told once the service answers, and when it begins to stop.
func TestServeNotifiesSystemd(t *testing.T) {
	for name, path := range map[string]string{"a file": filepath.Join(t.TempDir(), "notify"), "an abstract name": "@windsock-test-" + filepath.Base(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			l.SetReadDeadline(time.Now().Add(time.Minute))
			t.Setenv("NOTIFY_SOCKET", path)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan int)
			go func() {
				ended <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "w.db")}, io.Discard, io.Discard)
			}()
			var said []string
			for range 2 {
				buf := make([]byte, 64)
				n, err := l.Read(buf)
				if err != nil {
					t.Fatalf("%v, after %q", err, said)
				}
				said = append(said, string(buf[:n]))
				stop()
			}
			if got := strings.Join(said, " "); got != "READY=1 STOPPING=1" {
				t.Errorf("it said %s", got)
			}
			if status := <-ended; status != 0 {
				t.Errorf("it ended with %d", status)
			}
		})
	}
}
