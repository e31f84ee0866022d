package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"windsock"
	"windsock/monitors"
	"windsock/observer"
	"windsock/store"
)

// What the API asks of the observer and of the deliverer it asks in this process, if they
// are at work here, and else by the store.

// A question is one of these.
type question struct {
	Check      *windsock.Place  `json:"check,omitempty"`
	CheckAll   []windsock.Place `json:"check_all,omitempty"`
	Listing    string           `json:"listing,omitempty"`
	Ping       string           `json:"ping,omitempty"`
	Deliveries []string         `json:"deliveries,omitempty"`
}

// A reply is to the question of the same name.
type reply struct {
	Check      []windsock.Look              `json:"check,omitempty"`
	CheckAll   []looked                     `json:"check_all,omitempty"`
	Listing    windsock.Listing             `json:"listing,omitzero"`
	Ping       windsock.Pong                `json:"ping,omitzero"`
	Deliveries map[string]windsock.Delivery `json:"deliveries,omitempty"`
	Failure    *failure                     `json:"failure,omitempty"`
}

// looked is a windsock.Looked that can be written down.
type looked struct {
	windsock.Subject
	Looks   []windsock.Look `json:"looks"`
	Failure *failure        `json:"failure,omitempty"`
}

// A failure is an error that is the same elsewhere, as far as callers can act on it.
type failure struct {
	Text string `json:"text"`
	Kind string `json:"kind,omitempty"`
}

var kindsOfFailure = map[string]error{
	"not-found": windsock.ErrNotFound, "conflict": windsock.ErrConflict, "too-many": windsock.ErrTooMany,
	"unavailable": windsock.ErrUnavailable, "late": context.DeadlineExceeded,
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for kind, is := range kindsOfFailure {
		if errors.Is(err, is) {
			f.Kind = kind
		}
	}
	return f
}

func (f *failure) err() error {
	if f == nil {
		return nil
	}
	return &elsewhere{f.Text, kindsOfFailure[f.Kind]}
}

// elsewhere is an error that another process met.
type elsewhere struct {
	text string
	is   error
}

func (e *elsewhere) Error() string { return e.text }
func (e *elsewhere) Unwrap() error { return e.is }

// maxReply bounds what a reply takes of the store.
const maxReply = 16 << 20

// answerTo has a question answered as it was asked.
func answerTo[W any](ctx context.Context, w W, text string, answer func(context.Context, W, question) reply) string {
	var q question
	var r reply
	if err := json.Unmarshal([]byte(text), &q); err != nil { // of another version of this program
		r.Failure = failureOf(fmt.Errorf("the question is not understood: %w", windsock.ErrUnavailable))
	} else {
		r = answer(ctx, w, q)
	}
	data, err := json.Marshal(r)
	if err == nil && len(data) > maxReply {
		err = fmt.Errorf("an answer of %d bytes: %w", len(data), windsock.ErrTooMany)
	}
	if err != nil {
		data, _ = json.Marshal(reply{Failure: failureOf(err)})
	}
	return string(data)
}

// ask asks the process that has a role.
func ask(ctx context.Context, st *store.Store, role windsock.Role, q question) (r reply, err error) {
	text, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	answer, err := st.Ask(ctx, string(role), string(text))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		return r, err
	}
	return r, r.Failure.err()
}

// observing is the observer, wherever it is.
type observing struct {
	*duty[*observer.Observer]
	known *observer.Observer // as this process is configured; it does not run
}

func (o observing) Check(ctx context.Context, at windsock.Place) ([]windsock.Look, error) {
	if here, ok := o.here(); ok {
		return here.Check(ctx, at)
	}
	r, err := ask(ctx, o.store, o.role, question{Check: &at})
	return r.Check, err
}

func (o observing) CheckAll(ctx context.Context, all []windsock.Place) ([]windsock.Looked, error) {
	if here, ok := o.here(); ok {
		return here.CheckAll(ctx, all)
	}
	r, err := ask(ctx, o.store, o.role, question{CheckAll: all})
	list := make([]windsock.Looked, len(r.CheckAll))
	for i, l := range r.CheckAll {
		list[i] = windsock.Looked{Subject: l.Subject, Looks: l.Looks, Err: l.Failure.err()}
	}
	return list, err
}

func (o observing) Words(provider string) map[string]windsock.State { return o.known.Words(provider) }

func (o observing) Listing(ctx context.Context, provider string) (windsock.Listing, error) {
	if here, ok := o.here(); ok {
		return here.Listing(ctx, provider)
	}
	r, err := ask(ctx, o.store, o.role, question{Listing: provider})
	return r.Listing, err
}

// observerReplies answers what other processes ask of the observer.
func observerReplies(ctx context.Context, o *observer.Observer, q question) (r reply) {
	var err error
	switch {
	case q.Check != nil:
		r.Check, err = o.Check(ctx, *q.Check)
	case q.Listing != "":
		r.Listing, err = o.Listing(ctx, q.Listing)
	case len(q.CheckAll) > 0:
		var all []windsock.Looked
		all, err = o.CheckAll(ctx, q.CheckAll)
		for _, l := range all {
			r.CheckAll = append(r.CheckAll, looked{l.Subject, l.Looks, failureOf(l.Err)})
		}
	}
	r.Failure = failureOf(err)
	return r
}

// delivering is the deliverer, wherever it is.
type delivering struct {
	*duty[*monitors.Deliverer]
}

func (d delivering) Ping(ctx context.Context, monitorID string) (windsock.Pong, error) {
	if here, ok := d.here(); ok {
		return here.Ping(ctx, monitorID)
	}
	r, err := ask(ctx, d.store, d.role, question{Ping: monitorID})
	return r.Ping, err
}

// soonKnown is how long to wait for what is only good to know.
const soonKnown = time.Second

// Deliveries knows nothing when nobody tells soon.
func (d delivering) Deliveries(ctx context.Context, monitorIDs []string) map[string]windsock.Delivery {
	if here, ok := d.here(); ok {
		return here.Deliveries(ctx, monitorIDs)
	}
	ctx, cancel := context.WithTimeout(ctx, soonKnown)
	defer cancel()
	r, _ := ask(ctx, d.store, d.role, question{Deliveries: monitorIDs})
	return r.Deliveries
}

func delivererReplies(ctx context.Context, d *monitors.Deliverer, q question) (r reply) {
	var err error
	if q.Ping != "" {
		r.Ping, err = d.Ping(ctx, q.Ping)
	} else {
		r.Deliveries = d.Deliveries(ctx, q.Deliveries)
	}
	r.Failure = failureOf(err)
	return r
}
