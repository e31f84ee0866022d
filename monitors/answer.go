package monitors

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode"

	"windsock"
)

const (
	maxAnswer = 64 << 10 // bytes that are read of an answer,
	maxKept   = 4 << 10  // that are kept of it
	maxLogged = 256      // and that are logged
)

// An answer is what came of one try.
type answer struct {
	meaning    meaning
	failure    string            // "": it was taken,
	failed     map[string]string // but for the events of these ids, for these reasons
	retryAfter time.Duration     // for so long the monitor wants to be left alone; 0: it does not say
	to         string            // the URL
	reply      reply
}

// A meaning is what an answer says of the event, and of the monitor.
type meaning int

const (
	taken   meaning = iota // the event was delivered
	refused                // the monitor is there, but does not take this event: others may well go through
	away                   // the monitor is not there, or cannot take anything now
	gone                   // it wants nothing any more
)

// meaningOf returns what an answer means that was judged.
func meaningOf(status int, failure string) meaning {
	switch {
	case failure == "":
		return taken
	case status == http.StatusGone:
		return gone
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return away
	}
	return refused
}

// judge returns why an answer is none that ends the matter, or "".
func judge(status int, body []byte) string {
	switch {
	case status >= 300 && status <= 399:
		return fmt.Sprintf("HTTP %d: redirects are not followed", status)
	case status < 200 || status > 299:
		return strings.TrimSuffix(fmt.Sprintf("HTTP %d: %s", status, body), ": ")
	}
	var said struct {
		Result string `json:"result"`
	}
	if json.Unmarshal(body, &said) == nil && said.Result == "fail" {
		return fmt.Sprintf("HTTP %d, but: %s", status, body)
	}
	return ""
}

// cause returns what went wrong on the way: class and cause, and never the text of the
// whole error, in which others put addresses.
func cause(err error) string {
	var (
		refused blocked
		lookup  *net.DNSError
		op      *net.OpError
		errno   syscall.Errno
		cert    *tls.CertificateVerificationError
		timeout interface{ Timeout() bool }
		late    = errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout())
	)
	class := ""
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &lookup):
		class = "dns: "
	case errors.As(err, &op) && op.Op == "dial":
		class = "connect: "
	case errors.As(err, &cert):
		return "tls: " + cert.Err.Error()
	}
	switch {
	case late:
		return class + "timeout"
	case lookup != nil && lookup.IsNotFound:
		return class + "no such host"
	case lookup != nil:
		return class + "no answer from the name server"
	case errors.As(err, &errno):
		return class + errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return class + "connection closed before the answer was complete"
	case op != nil:
		return class + op.Err.Error()
	}
	return err.Error()
}

// credentials are what a URL may hold of them: the user and the query.
var credentials = regexp.MustCompile(`//[^\s/@"'<>]*@|\?[^\s"'<>]*=[^\s"'<>]*`)

// clean makes a text that may come from the monitor fit to be kept: a line of printable
// characters of bounded length, without what must not be seen, should the monitor have
// sent that back.
func clean(text string, t *windsock.Target) string {
	if text == "" {
		return ""
	}
	text = strings.ToValidUTF8(text, "")
	text = credentials.ReplaceAllStringFunc(text, func(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "/?"))] + "…" })
	text = redact(text, t)
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	return cut(text, maxKept)
}

// redact takes a monitor's keys and the parts of its path that may be one out of text.
func redact(text string, t *windsock.Target) string {
	const hidden = "[hidden]"
	for _, key := range keysOf(t) {
		text = strings.ReplaceAll(text, key, hidden)
	}
	for part := range strings.SplitSeq(t.Path, "/") {
		if len(part) >= 8 {
			text = strings.ReplaceAll(text, part, hidden)
		}
	}
	return text
}

// cut returns at most size bytes of s.
func cut(s string, size int) string {
	if len(s) <= size {
		return s
	}
	return strings.ToValidUTF8(s[:size-len("…")], "") + "…"
}
