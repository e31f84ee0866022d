package monitors

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"windsock"
)

const (
	maxPings = 16 // under way at once
	pingTime = 10 * time.Second
)

// ping is the body of a callback that is about nothing.
type ping struct {
	Version   string `json:"version"`
	Type      string `json:"type"`
	MonitorID string `json:"monitor_id"`
	Time      string `json:"time"`
}

// Ping sends a monitor one callback that only tries the way, at once and once, and
// returns what came of it. It is no event: nothing waits for it, and how far the monitor
// has come and how its callbacks go is not touched. It returns ErrTooMany when many are
// under way, and ErrUnavailable until Run has begun.
func (d *Deliverer) Ping(ctx context.Context, monitorID string) (p windsock.Pong, err error) {
	if d.Beat().IsZero() { // before that its fields are not for others
		return p, fmt.Errorf("callbacks have not begun: %w", windsock.ErrUnavailable)
	}
	defer d.pings.Add(-1)
	if d.pings.Add(1) > maxPings {
		return p, fmt.Errorf("%d pings are under way: %w", maxPings, windsock.ErrTooMany)
	}
	t, err := d.Log.Target(ctx, monitorID)
	if err != nil {
		return p, err
	}
	now := time.Now()
	id := uuid.NewString()
	to, header, body := d.encodePing(&t, id, now)
	failure := authenticate(header, &t, now, body)
	p = windsock.Pong{
		URL: to, WebhookID: id,
		SignedString: signedString(header, body), Signature: header.Get("Webhook-Signature"),
	}
	if failure != "" {
		p.Class, p.Error = classOf(reply{failure: failure, unsigned: true}), failure
		return p, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	got := d.send(ctx, http.MethodPost, &t, p.URL, header, body, now)
	p.Duration = windsock.Duration(time.Since(now).Truncate(time.Microsecond))
	p.Taken = got.failure == ""
	p.Status, p.Answer = got.status, clean(string(got.body), &t)
	p.Class, p.Error, p.Wire = classOf(got), got.failure, got.wire()
	return p, nil
}

// encodePing returns where a ping goes and what it says, in the format of t.
func (d *Deliverer) encodePing(t *windsock.Target, id string, now time.Time) (to string, header http.Header, body []byte) {
	says := ping{windsock.Version, "monitor.ping", t.ID, stamp(now)}
	if slices.Contains(foreign, t.Format) {
		header, body = d.pinged(t, id, says).request(id, d.Version)
		return baseURL(&t.MonitorSpec), header, body
	}
	body, _ = json.Marshal(says) // text: it cannot fail
	return baseURL(&t.MonitorSpec) + "/api/ping", attributes(id, d.Source, says.Type, "monitor/"+t.ID, now, d.Version), body
}

// classOf returns what kind of failure a reply is, or "".
func classOf(r reply) string {
	if r.failure == "" {
		return ""
	}
	way, _, _ := strings.Cut(r.failure, ":")
	switch {
	case r.unsigned:
		return "signature"
	case r.status == 0 && (way == "blocked_address" || way == "dns" || way == "connect" || way == "tls" || way == "timeout"):
		return way
	case r.broken && strings.HasSuffix(r.failure, "timeout"):
		return "timeout"
	case r.status == 0, r.broken:
		return "connection"
	case r.status < 200 || r.status > 299:
		return "status"
	}
	return "refused" // it says so itself
}
