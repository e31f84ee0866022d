package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"windsock"
)

// maxCallback is the most that a callback may be, in bytes.
const maxCallback = 1 << 20

// callback is what a monitor is told, as far as we show it.
type callback struct {
	Received  time.Time       `json:"received_at"`
	WebhookID string          `json:"webhook_id"`         // the same on every try
	BatchID   string          `json:"batch_id,omitempty"` // of the batch that it came with
	Kind      windsock.Kind   `json:"kind"`
	ID        string          `json:"id"`
	Answered  int             `json:"answered"` // the HTTP status
	Body      json.RawMessage `json:"body"`

	said callbackBody
}

// callbackBody is the part of a callback's body that is shown in a line.
type callbackBody struct {
	Type     windsock.EventType `json:"type"`
	Word     windsock.Word      `json:"state"`
	Observed windsock.State     `json:"observed_state"`
	Previous windsock.State     `json:"previous_state"`
	Reason   string             `json:"reason"`
	Seq      int64              `json:"seq"`

	MonitorID string `json:"monitor_id"` // of a ping or a gap
	FirstSeq  int64  `json:"first_seq"`
	LastSeq   int64  `json:"last_seq"`
	Lost      int64  `json:"lost"`

	Coalesced int64  `json:"coalesced"` // for so many it is told, from FirstSeq to LastSeq
	Replay    bool   `json:"replay"`    // in a batch; else a header says so
	Provider  string `json:"provider"`

	ID           string `json:"id"` // in a batch, where no URL says it
	DeploymentID string `json:"deployment_id"`
	InstanceID   string `json:"instance_id"`

	Component *windsock.ComponentChange `json:"component"`
}

// String is the callback in one line, without anything that moves a cursor.
func (c *callback) String() string {
	line := fmt.Sprintf("%s  %-14s  %-10s  %-8s  %s → %s  (seq %d)",
		c.Received.Format(time.TimeOnly), cmp.Or(c.said.Word, "-"), c.Kind, c.ID,
		cmp.Or(c.said.Previous, windsock.Unknown), cmp.Or(c.said.Observed, windsock.Unknown), c.said.Seq)
	switch c.Kind {
	case windsock.KindComponent:
		if of := c.said.Component; of != nil {
			line = fmt.Sprintf("%s  %-14s  %-10s  %-8s  %s → %s  (seq %d)", c.Received.Format(time.TimeOnly), of.Action, c.Kind, c.ID, cmp.Or(of.Previous, "new"), of.State, c.said.Seq)
		}
	case windsock.KindProvider:
		line = fmt.Sprintf("%s  %-14s  %-10s  %-8s  (seq %d)", c.Received.Format(time.TimeOnly), c.said.Type, c.Kind, c.ID, c.said.Seq)
	case windsock.KindMonitor:
		line = fmt.Sprintf("%s  %-14s  %-10s  %s", c.Received.Format(time.TimeOnly), strings.TrimPrefix(string(c.said.Type), "monitor."), c.Kind, c.ID)
	case windsock.KindLog:
		line = fmt.Sprintf("%s  LOST  up to %d events for monitor %s, of %d to %d  (seq %d)",
			c.Received.Format(time.TimeOnly), c.said.Lost, c.said.MonitorID, c.said.FirstSeq, c.said.LastSeq, c.said.Seq)
	}
	if c.said.Coalesced > 1 {
		line += fmt.Sprintf("  [newest of %d, from seq %d on]", c.said.Coalesced, c.said.FirstSeq)
	}
	if c.said.Replay {
		line += "  [again]"
	}
	if c.said.Reason != "" {
		line += "  " + c.said.Reason
	}
	if c.Answered >= 300 {
		line += fmt.Sprintf("  [answered %d]", c.Answered)
	}
	return printable(line)
}

// printable replaces what a terminal would obey instead of showing it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, s)
}

// receiver is a monitor's end of the callbacks.
type receiver struct {
	Signer  *standardwebhooks.Webhook // nil: signatures are not looked at
	Fail    int64                     // so many callbacks are answered 503 first
	Status  int                       // what the others are answered; 0: 200
	Seen    func(*callback)           // called for each, before it is answered, by several goroutines
	Refused func(reason string)       // called for what is no callback of ours

	received atomic.Int64
}

var callbackPath = regexp.MustCompile(`/api/(?:ping|gap|events|(deployment/|deployment/instance/|component/[^/]+/|monitor/|provider/)([^/]+))$`)

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Get("WebHook-Request-Origin"); r.Method == http.MethodOptions && origin != "" {
		w.Header().Set("Allow", http.MethodPost)
		w.Header().Set("WebHook-Allowed-Origin", origin)
		w.Header().Set("WebHook-Allowed-Rate", "*")
		return
	}
	path := callbackPath.FindStringSubmatch(r.URL.Path)
	if path == nil {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer(w, http.StatusMethodNotAllowed)
		return
	}
	conn := http.NewResponseController(w)
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallback))
	conn.SetReadDeadline(time.Time{})
	if err != nil {
		rc.refuse(w, bodyStatus(err), fmt.Sprintf("body not read: %v", err))
		return
	}
	if rc.Signer != nil {
		if err := rc.Signer.Verify(body, r.Header); err != nil {
			rc.refuse(w, http.StatusUnauthorized, fmt.Sprintf("%v; what has to be signed is %q%s", err, signedString(r.Header, body), fitting(rc.Signer, r.Header, body)))
			return
		}
	}
	read := single
	if path[0] == "/api/events" {
		read = batch
	}
	told, err := read(path, r.Header.Get(standardwebhooks.HeaderWebhookID), body)
	if err != nil {
		rc.refuse(w, http.StatusBadRequest, fmt.Sprintf("no callback: %v", err))
		return
	}
	answered := cmp.Or(rc.Status, http.StatusOK)
	if rc.received.Add(1) <= rc.Fail {
		answered = http.StatusServiceUnavailable
	}
	for _, c := range told {
		c.Received, c.Answered = time.Now(), answered
		c.said.Replay = c.said.Replay || path[0] != "/api/events" && r.Header.Get("Windsock-Replay") != ""
		rc.Seen(c)
	}
	answer(w, answered)
}

// single reads a callback about one thing.
func single(path []string, webhookID string, body []byte) ([]*callback, error) {
	c := &callback{WebhookID: webhookID, Kind: windsock.KindDeployment, ID: path[2], Body: body}
	switch path[1] {
	case "deployment/instance/":
		c.Kind = windsock.KindInstance
	case "monitor/":
		c.Kind = windsock.KindMonitor
	case "provider/":
		c.Kind = windsock.KindProvider
	}
	if err := json.Unmarshal(body, &c.said); err != nil {
		return nil, err
	}
	if deployment, ok := strings.CutPrefix(path[1], "component/"); ok {
		c.Kind, c.ID = windsock.KindComponent, deployment+c.ID
	}
	if c.ID == "" {
		c.Kind, c.ID = windsock.KindMonitor, c.said.MonitorID
		if path[0] == "/api/gap" {
			c.Kind = windsock.KindLog
		}
	}
	return []*callback{c}, nil
}

// batch reads one about many.
func batch(_ []string, webhookID string, body []byte) ([]*callback, error) {
	var events []json.RawMessage
	if err := json.Unmarshal(body, &events); err != nil {
		return nil, err
	}
	told := make([]*callback, len(events))
	for i, event := range events {
		c := &callback{BatchID: webhookID, Body: event}
		if err := json.Unmarshal(event, &c.said); err != nil {
			return nil, err
		}
		kind, _, _ := strings.Cut(string(c.said.Type), ".")
		c.WebhookID, c.Kind = c.said.ID, windsock.Kind(kind)
		c.ID = cmp.Or(c.said.MonitorID, c.said.InstanceID, c.said.DeploymentID, c.said.Provider)
		if c.said.Component != nil {
			c.ID = c.said.DeploymentID + "/" + c.said.Component.Name
		}
		told[i] = c
	}
	return told, nil
}

func (rc *receiver) refuse(w http.ResponseWriter, status int, reason string) {
	rc.Refused(reason)
	answer(w, status)
}

func answer(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if status < 300 {
		io.WriteString(w, `{"result":"success"}`)
	} else {
		io.WriteString(w, `{"result":"fail"}`)
	}
}

func bodyStatus(err error) int {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// fitting says which signature would have been the right one, if there is one.
func fitting(signer *standardwebhooks.Webhook, h http.Header, body []byte) string {
	if signature := signatureOf(signer, h, body); signature != "" {
		return ", which makes " + signature
	}
	return ""
}

// signatureOf returns the signature that the headers should hold, or "" when one of those
// it is made of is missing or is no time.
func signatureOf(signer *standardwebhooks.Webhook, h http.Header, body []byte) string {
	id := h.Get(standardwebhooks.HeaderWebhookID)
	secs, err := strconv.ParseInt(h.Get(standardwebhooks.HeaderWebhookTimestamp), 10, 64)
	if id == "" || err != nil {
		return ""
	}
	signature, err := signer.Sign(id, time.Unix(secs, 0), body)
	if err != nil {
		return ""
	}
	return signature
}

// signedString is what a signature is made of, by Standard Webhooks.
func signedString(h http.Header, body []byte) string {
	return h.Get(standardwebhooks.HeaderWebhookID) + "." + h.Get(standardwebhooks.HeaderWebhookTimestamp) + "." + string(body)
}
