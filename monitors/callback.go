package monitors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"windsock"
)

// A notice is an event on its way to the monitors that it concerns. What all of them
// are sent is made once, when the first of them is called.
type notice struct {
	windsock.Event
	oldest *windsock.Event // the first of those that it is told for; nil: it is told for this alone
	stands int64           // how many they are

	once   sync.Once
	body   []byte
	headed sync.Once
	header http.Header
}

// message is the body of a callback.
type message struct {
	Version       string             `json:"version"`
	DeploymentID  string             `json:"deployment_id,omitempty"`
	InstanceID    string             `json:"instance_id,omitempty"`
	MonitorID     string             `json:"monitor_id,omitempty"`
	Provider      string             `json:"provider,omitempty"` // of an event about it
	Word          windsock.Word      `json:"state,omitempty"`    // absent from what only those hear who asked for all
	Type          windsock.EventType `json:"type"`
	Metadata      map[string]string  `json:"metadata,omitempty"`
	Observed      windsock.State     `json:"observed_state,omitempty"`
	Previous      windsock.State     `json:"previous_state,omitempty"`
	PreviousSince string             `json:"previous_since,omitempty"` // of what is over
	Expected      windsock.State     `json:"expected_state,omitempty"`
	Source        string             `json:"source,omitempty"`
	Reason        string             `json:"reason,omitempty"`
	Seq           int64              `json:"seq"`
	DetectedAt    string             `json:"detected_at,omitempty"`
	Time          string             `json:"time,omitempty"`
	Stale         bool               `json:"stale,omitempty"`
	Suspect       bool               `json:"suspect,omitempty"`
	Unstable      bool               `json:"unstable,omitempty"`
	Held          windsock.Word      `json:"held,omitempty"`    // what its state would be, were callbacks not held
	HeldBy        string             `json:"held_by,omitempty"` // what holds it, in words
	Instances     []string           `json:"instances,omitempty"`
	Affected      []string           `json:"affected,omitempty"` // deployments that depend on one that is down

	Component *windsock.ComponentChange `json:"component,omitempty"` // of an event about one

	ExpiresAt string `json:"expires_at,omitempty"` // of the lease that ends

	windsock.Trace // of what it follows from

	FirstSeq  int64 `json:"first_seq,omitempty"` // of a gap, with the monitor's id; or of what is coalesced
	LastSeq   int64 `json:"last_seq,omitempty"`
	Lost      int64 `json:"lost,omitempty"`
	Coalesced int64 `json:"coalesced,omitempty"`
}

// subject returns what the event is about.
func (n *notice) subject() windsock.Subject { return subjectOf(&n.Event) }

// encode makes the body. It depends on what is told alone, as the headers do, so that every
// try and every replay sends the same.
func (n *notice) encode() {
	e := &n.Event
	msg := message{
		Version: windsock.Version, DeploymentID: e.DeploymentID,
		Word: e.Word, Type: e.Type, Metadata: e.Metadata,
		Observed: e.State, Previous: e.Previous, PreviousSince: stamp(e.PreviousSince), Expected: e.Expected,
		Source: e.Source, Reason: e.Reason, Seq: e.Seq,
		DetectedAt: stamp(e.DetectedAt), Time: stamp(e.Time),
		Stale: e.Stale, Suspect: e.Suspect, Unstable: e.Unstable, Held: e.Held, HeldBy: e.HeldBy, Instances: e.Instances, Affected: e.Affected, Component: e.Component, ExpiresAt: stamp(e.ExpiresAt), Trace: e.Trace,
	}
	switch e.Kind {
	case windsock.KindDeployment:
		msg.DeploymentID = e.SubjectID
	case windsock.KindInstance:
		msg.InstanceID = e.SubjectID
	case windsock.KindLog:
		msg.MonitorID, msg.FirstSeq, msg.LastSeq, msg.Lost = e.SubjectID, e.FirstSeq, e.LastSeq, e.Lost
	case windsock.KindMonitor:
		msg.MonitorID = e.SubjectID
	case windsock.KindProvider:
		msg.Provider = e.SubjectID
	}
	if n.oldest != nil {
		msg.FirstSeq, msg.LastSeq, msg.Coalesced = n.oldest.Seq, n.Seq, n.stands
	}
	n.body, _ = json.Marshal(msg) // text, numbers and a map of text: it cannot fail
}

// head makes the headers of a callback about it alone.
func (n *notice) head(source, version string) {
	e := &n.Event
	n.header = attributes(e.ID, source, string(e.Type), string(e.Kind)+"/"+e.SubjectID, e.Time, version)
	n.header["Ce-Sequence"] = []string{sequence(e.Seq)}
	if e.TraceParent != "" { // of the event: that of the callback is another one
		n.header["Ce-Traceparent"] = []string{ceText(e.TraceParent)}
	}
	if e.TraceState != "" {
		n.header["Ce-Tracestate"] = []string{ceText(e.TraceState)}
	}
}

// sequence is a seq that sorts as text.
func sequence(seq int64) string { return fmt.Sprintf("%020d", seq) }

// attributes returns the headers that depend on nothing but what is told.
func attributes(id, source, kind, subject string, at time.Time, version string) http.Header {
	h := plainHeader(ceText(id), version)
	h["Ce-Specversion"] = []string{"1.0"}
	h["Ce-Id"] = []string{ceText(id)}
	h["Ce-Source"] = []string{ceText(source)}
	h["Ce-Type"] = []string{ceText("windsock." + kind)}
	h["Ce-Subject"] = []string{ceText(subject)}
	h["Ce-Time"] = []string{stamp(at)}
	return h
}

// plainHeader returns those that also a batch has.
func plainHeader(id, version string) http.Header {
	return http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {"windsock/" + version},
		// So that a kept connection which the monitor just closed is replaced without
		// further ado. The transport looks for this key and does not send it when empty.
		"Idempotency-Key": {},
		"Webhook-Id":      {id},
	}
}

// stamp writes a time as in RFC 3339; none as "".
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// ceText encodes an attribute as the CloudEvents HTTP binding wants it in a header
// (version 1.0.2, section 3.1.3.2): percent and hex for what is not printable ASCII, and
// for space, quote and percent.
func ceText(s string) string {
	if strings.IndexFunc(s, escaped) < 0 {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; escaped(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func escaped(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '%' }

// callbackURL returns where a monitor hears of an event.
func callbackURL(t *windsock.MonitorSpec, e *windsock.Event) string {
	to := "/api/deployment/" + url.PathEscape(e.SubjectID)
	switch e.Kind {
	case windsock.KindInstance:
		to = "/api/deployment/instance/" + url.PathEscape(e.SubjectID)
	case windsock.KindComponent:
		to = "/api/component/" + url.PathEscape(e.DeploymentID) + "/" + url.PathEscape(strings.TrimPrefix(e.SubjectID, e.DeploymentID+"/"))
	case windsock.KindMonitor:
		to = "/api/monitor/" + url.PathEscape(e.SubjectID)
	case windsock.KindProvider:
		to = "/api/provider/" + url.PathEscape(e.SubjectID)
	case windsock.KindLog:
		to = "/api/gap"
	}
	return baseURL(t) + to
}

func baseURL(t *windsock.MonitorSpec) string {
	return cmp.Or(t.Scheme, "http") + "://" + net.JoinHostPort(t.Address, strconv.Itoa(t.Port)) + t.Path
}

// encode returns where a batch goes and what it says, in the format of t.
func (d *Deliverer) encode(t *windsock.Target, b *batch) (to string, header http.Header, body []byte) {
	if t.Format == windsock.Batch {
		header, body = b.encode(d.Version)
		return baseURL(&t.MonitorSpec) + "/api/events", header, body
	}
	n := b.items[0].notice
	if slices.Contains(foreign, t.Format) {
		header, body = d.render(t, n).request(n.ID, d.Version)
		return baseURL(&t.MonitorSpec), header, body
	}
	n.once.Do(n.encode)
	n.headed.Do(func() { n.head(d.Source, d.Version) })
	return callbackURL(&t.MonitorSpec, &n.Event), maps.Clone(n.header), n.body
}

// call makes one try to deliver b, which ends with ctx.
func (d *Deliverer) call(ctx context.Context, t *windsock.Target, b *batch) (a answer) {
	to, header, body := d.encode(t, b)
	span := d.trace(ctx, t, b, header)
	defer func() { finish(span, &a) }()
	header[windsock.AttemptHeader] = []string{strconv.Itoa(b.attempt)}
	now := time.Now()
	if failure := authenticate(header, t, now, body); failure != "" {
		return answer{meaning: away, failure: failure, to: to, reply: reply{failure: failure, unsigned: true}}
	}
	if b.repeats() {
		header[replayHeader] = []string{"true"}
	}
	got := d.send(ctx, http.MethodPost, t, to, header, body, now)
	var failed map[string]string
	if t.Format == windsock.Batch && got.failure == "" {
		failed, got.failure = d.failures(t, b, &got)
	}
	a = answer{meaning: meaningOf(got.status, got.failure), failed: failed, failure: got.failure, retryAfter: askedWait(got.status, got.header, now), to: to, reply: got}
	if got.failure != "" && (got.status == 0 || got.broken) {
		a.meaning = away // no whole answer came
	}
	return a
}

// A reply is what came back of a request.
type reply struct {
	failure  string // why it is none that ends the matter; "": it is
	status   int    // 0: nothing came
	header   http.Header
	body     []byte
	broken   bool // not all of it came
	unsigned bool // it could not be signed, and was not sent
	withheld bool // it was not ours to send
	protocol string
	trace    *trace // nil: no request was made
}

// send makes one request to t, which ends with ctx.
func (d *Deliverer) send(ctx context.Context, method string, t *windsock.Target, to string, header http.Header, body []byte, now time.Time) reply {
	ctx, how := follow(ctx, t.Scheme == "https")
	defer how.end()
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return reply{failure: "its address and path make no URL"} // err would show them
	}
	req.Header = header
	if d.ID != "" {
		req.Header[windsock.IDHeader] = []string{d.ID}
	}
	transport, err := d.byTLS.of(t.TLS, d.Transport, now)
	if err != nil {
		return reply{failure: err.Error()}
	}
	if d.era() == 0 {
		return reply{failure: errNotMine.Error(), withheld: true, trace: how}
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return reply{failure: clean(cause(err), t), withheld: errors.Is(err, errNotMine), trace: how}
	}
	defer resp.Body.Close()
	got := reply{status: resp.StatusCode, header: resp.Header, protocol: strings.Replace(resp.Proto, "2.0", "2", 1), trace: how}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = http.NoBody // it is the connection itself, which does not end with ctx
	}
	got.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		got.broken = true
		got.failure = clean(fmt.Sprintf("HTTP %d, then %s", resp.StatusCode, cause(err)), t)
		return got
	}
	got.failure = clean(judge(got.status, got.body), t)
	return got
}
