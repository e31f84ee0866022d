package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// ListenCmd is "windsock listen".
type ListenCmd struct {
	Addr      string `help:"Address to listen on (default ${default})." placeholder:"HOST:PORT" default:"127.0.0.1:9090"`
	Secret    string `help:"Secret that callbacks have to be signed with, as whsec_…" placeholder:"SECRET" env:"WINDSOCK_SECRET"`
	Fail      int64  `help:"Answer 503 to the first N callbacks." placeholder:"N" xor:"answer"`
	Status    int    `help:"Answer every callback with this status." placeholder:"CODE" xor:"answer"`
	JSON      bool   `name:"json" help:"Print JSON lines."`
	ExitAfter int    `help:"End after N callbacks." placeholder:"N"`
}

// Validate is called by kong.
func (c *ListenCmd) Validate() error {
	if c.Status != 0 && (c.Status < 200 || c.Status > 599) {
		return fmt.Errorf("--status: want 200 to 599, got %d", c.Status)
	}
	return nil
}

// Run receives until ctx ends or enough was received.
func (c *ListenCmd) Run(ctx context.Context, io stdio) error {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	var mu sync.Mutex // one line at a time
	received := 0
	rc := &receiver{Fail: c.Fail, Status: c.Status}
	rc.Seen = func(cb *callback) {
		mu.Lock()
		defer mu.Unlock()
		if c.JSON {
			json.NewEncoder(io.out).Encode(cb)
		} else {
			fmt.Fprintln(io.out, cb)
		}
		if received++; received == c.ExitAfter {
			enough()
		}
	}
	rc.Refused = func(reason string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(io.err, "refused:", printable(reason))
	}
	if c.Secret != "" {
		signer, err := standardwebhooks.NewWebhook(c.Secret)
		if err != nil {
			return fmt.Errorf("--secret: want whsec_ and base64")
		}
		rc.Signer = signer
	}
	l, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(io.err, "listening on http://%s\n", l.Addr())
	return answerOn(ctx, l, rc)
}
