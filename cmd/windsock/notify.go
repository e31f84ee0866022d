package main

import (
	"context"
	"log/slog"
	"net"
	"os"
)

// tellSystemd says that the service is ready, and that it stops when ctx ends.
func tellSystemd(ctx context.Context, log *slog.Logger) {
	tell := func(state string) {
		if err := notify(state); err != nil {
			log.Warn("systemd cannot be told", "state", state, "error", err)
		}
	}
	tell("READY=1")
	context.AfterFunc(ctx, func() { tell("STOPPING=1") })
}

// notify tells systemd, if it asked to be told, how the service is: READY=1 or STOPPING=1,
// as sd_notify(3) has them.
func notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	c, err := net.Dial("unixgram", path) // "@" begins an abstract name, for Go and systemd alike
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(state))
	return err
}
