package api_test

import (
	"context"
	"fmt"
	"testing"

	"windsock"
	"windsock/api"
)

// pongs is a Pinger to which always the same comes back.
type pongs windsock.Pong

func (p pongs) Ping(context.Context, string) (windsock.Pong, error) { return windsock.Pong(p), nil }

// busy is a Pinger that has too much to do.
type busy struct{}

func (busy) Ping(context.Context, string) (windsock.Pong, error) {
	return windsock.Pong{}, fmt.Errorf("16 pings: %w", windsock.ErrTooMany)
}

// nobody would ask another process, of which there is none.
type nobody struct{}

func (nobody) Ping(context.Context, string) (windsock.Pong, error) {
	return windsock.Pong{}, windsock.ErrNobody
}

func TestPingShowsWhatCameBack(t *testing.T) {
	s := open(t, func(srv *api.Server) {
		srv.Pinger = pongs{Status: 500, Class: "status", Error: "HTTP 500: no", Answer: "no", Duration: 2e6, URL: "http://127.0.0.1:9000/api/ping", SignedString: "a.1.{}", Signature: "v1,x"}
	})
	id := s.call("POST", add, `{`+goodAdd+`}`).want(201).field("monitor_id").(string)
	s.call("POST", "/api/monitors/"+id+"/ping", "").want(200).has(map[string]any{
		"result": "success", "monitor_id": id, "taken": false, "status": 500.0, "duration": "2ms", "error_class": "status",
		"error": "HTTP 500: no", "answer": "no", "signed_string": "a.1.{}", "signature": "v1,x",
	})
	s.call("POST", "/api/monitors/"+noID+"/ping", "").refused(404, "not-found", "id")
}

func TestPingThatCannotBeSent(t *testing.T) {
	for name, c := range map[string]struct {
		pinger api.Pinger
		kind   string
	}{
		"nobody calls back":          {nil, "no-deliverer"},
		"nor does any other process": {nobody{}, "no-deliverer"},
		"too many already":           {busy{}, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(srv *api.Server) { srv.Pinger = c.pinger })
			id := s.call("POST", add, `{`+goodAdd+`}`).want(201).field("monitor_id").(string)
			s.call("POST", "/api/monitors/"+id+"/ping", "").refused(503, c.kind, "")
		})
	}
}
