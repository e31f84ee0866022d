package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"windsock"
)

// What can be wrong with a request as such.
var (
	errCrossOrigin = errors.New("this comes from a web page of another origin")
	errNoPath      = errors.New("there is nothing at this path")
	errMethod      = errors.New("the header Allow names the methods of this path")
	errMediaType   = errors.New("the header Content-Type is missing or names what is not read here")
	errTooLarge    = errors.New("the body is larger")
	errExists      = errors.New("there is one with this id already")
	errUnobserved  = errors.New("it has no probe, and no provider that is observed here knows it, so nothing can look at it")
	errUnlisted    = errors.New("it is not observed here, so it cannot be listed")
	errNoAPI       = errors.New("this process does not have the role api; ask one that does")
	errNoObserver  = errors.New("no process with the role observer answers")
	errNoDeliverer = errors.New("no process with the role deliverer answers")
	errNotReady    = errors.New("not ready")
	errLoop        = errors.New("this is a callback of this very windsock; the monitor that it is for is registered with, or passes it on to, this address")
	errNoSoftware  = errors.New("this process keeps no deployables and components; ask one that does")
	errRate        = errors.New("too many requests")
	errAwait       = errors.New("the state was not reached in time")
)

// fault says how an error is answered.
type fault struct {
	err    error
	status int
	kind   string // of /problems/…, which is part of the contract
	title  string
}

// faults are all that can be wrong but for fields; the first that an error wraps counts.
// What is in no row is our fault.
var faults = []fault{
	{windsock.ErrNotFound, http.StatusNotFound, "not-found", "There is no such thing"},
	{windsock.ErrConflict, http.StatusConflict, "conflict", "What is there contradicts the request"},
	{windsock.ErrUnauthorized, http.StatusUnauthorized, "unauthorized", "Who asks is not known"},
	{windsock.ErrForbidden, http.StatusForbidden, "forbidden", "Who asks may not do this"},
	{windsock.ErrFinal, http.StatusConflict, "over", "It is over already"},
	{windsock.ErrTooMany, http.StatusConflict, "too-many", "There are too many already"},
	{windsock.ErrPrecondition, http.StatusPreconditionFailed, "precondition-failed", "It was changed meanwhile"},
	{windsock.ErrPruned, http.StatusGone, "pruned", "The log does not reach back so far"},
	{windsock.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", "The store cannot be used now"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "unavailable", "The store did not answer in time"},
	{errExists, http.StatusConflict, "conflict", "What is there contradicts the request"},
	{errUnobserved, http.StatusConflict, "not-probed", "Nothing looks at it"},
	{errUnlisted, http.StatusConflict, "not-observed", "It is not observed here"},
	{errCrossOrigin, http.StatusForbidden, "cross-origin", "Browsers may not send this"},
	{errNoPath, http.StatusNotFound, "no-such-path", "There is no such path"},
	{errMethod, http.StatusMethodNotAllowed, "method-not-allowed", "This path does not take this method"},
	{errTooLarge, http.StatusRequestEntityTooLarge, "too-large", "The body is too large"},
	{errRate, http.StatusTooManyRequests, "too-many-requests", "Too many requests"},
	{errMediaType, http.StatusUnsupportedMediaType, "media-type", "This content type is not read here"},
	{errNoAPI, http.StatusServiceUnavailable, "no-api", "The API is elsewhere"},
	{errNoObserver, http.StatusServiceUnavailable, "no-observer", "Nobody can look now"},
	{errNoDeliverer, http.StatusServiceUnavailable, "no-deliverer", "Nobody can call back now"},
	{errNoSoftware, http.StatusServiceUnavailable, "no-software", "Nobody keeps components here"},
	{errNotReady, http.StatusServiceUnavailable, "not-ready", "Not ready"},
	{errLoop, http.StatusLoopDetected, "loop", "Our own callback came back"},
	{errAwait, http.StatusGatewayTimeout, "await-timeout", "The state was not reached in time"},
}

// problem is the body of an answer that says no (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Result string `json:"result"`
	facts
}

// facts is what a problem tells beyond its kind.
type facts struct {
	Field    string         `json:"field,omitempty"` // of the body, parameter or header at fault; "body": the whole of it
	Observed windsock.State `json:"observed_state,omitempty"`
	Head     *int64         `json:"head,omitempty"`
	Failing  []string       `json:"failing,omitempty"`
	Limit    int64          `json:"limit,omitempty"` // of a body, in bytes

	Findings []windsock.Finding `json:"findings,omitempty"` // why a deployable cannot be deployed

	// The component that a signal was for.
	DeploymentID string                  `json:"deployment_id,omitempty"`
	Component    string                  `json:"component,omitempty"`
	State        windsock.ComponentState `json:"state,omitempty"`
}

// told is an error with facts for the client.
type told struct {
	error
	facts
}

func (t *told) Unwrap() error { return t.error }

// at says which field of the request err is about, if that is not known already.
func at(field string, err error) error {
	var t *told
	if err == nil || errors.As(err, &t) {
		return err
	}
	return &told{err, facts{Field: field}}
}

// problemOf returns what the client learns of err.
func problemOf(err error) problem {
	p := problem{Result: "fail"}
	var t *told
	if errors.As(err, &t) {
		p.facts = t.facts
	}
	var invalid *windsock.FieldError
	if errors.As(err, &invalid) {
		p.Type, p.Status, p.Title, p.Detail = "/problems/invalid", http.StatusBadRequest, "The request is not valid", invalid.Detail
		p.Field = windsock.Clip(cmp.Or(invalid.Field, p.Field))
		return p
	}
	for _, f := range faults {
		if errors.Is(err, f.err) {
			p.Type, p.Status, p.Title, p.Detail = "/problems/"+f.kind, f.status, f.title, err.Error()
			if f.status == http.StatusPreconditionFailed || f.status >= 500 {
				p.Field = "" // none is at fault
			}
			if f.kind == "unavailable" {
				p.Detail = "Nothing was stored. It is worth another try." // why is not for strangers
			}
			return p
		}
	}
	return problem{Type: "/problems/internal", Status: http.StatusInternalServerError, Title: "windsock failed", Result: p.Result}
}

// explain is problemOf, and logs what is our fault.
func (s *Server) explain(r *http.Request, err error) problem {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		s.Logger.Error("request failed", "method", r.Method, "path", loggedPath(r), "error", err)
	}
	return p
}

// loggedPath is the path without the token that may be in it.
func loggedPath(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, signalPath) {
		return signalPath + "…"
	}
	return r.URL.Path
}

// statusGone is noted, not sent, when the client went away before it had its answer.
const statusGone = 499

// retryAfter is how many seconds a client should wait that was sent away with 503.
const retryAfter = "1"

// fail answers with the problem that err is.
func (s *Server) fail(w *recorder, r *http.Request, err error) {
	if r.Context().Err() != nil && problemOf(err).Status >= http.StatusInternalServerError { // which is why
		w.status = cmp.Or(w.status, statusGone)
		panic(http.ErrAbortHandler) // or an empty 200 is sent
	}
	p := s.explain(r, err)
	if w.status != 0 {
		panic(http.ErrAbortHandler) // or the client takes half an answer for a whole one
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	var too *tooMany
	if errors.As(err, &too) {
		w.Header().Set("Retry-After", too.seconds())
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="windsock"`)
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	send(w, p.Status, "application/problem+json", body)
}

// recovered answers for a handler that panicked.
func (s *Server) recovered(w *recorder, r *http.Request, reason any) {
	if reason == http.ErrAbortHandler {
		panic(reason)
	}
	s.fail(w, r, fmt.Errorf("panic: %v\n%s", reason, debug.Stack()))
}
