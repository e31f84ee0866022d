package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"windsock"
	"windsock/monitors"
	"windsock/observer"
	"windsock/store"
)

// What the API asks of the observer and of the deliverer it asks in this process, as far as
// that is for it to do, and else by the store.

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
func answerTo(ctx context.Context, text string, answer func(context.Context, question) reply) string {
	var q question
	var r reply
	if err := json.Unmarshal([]byte(text), &q); err != nil { // of another version of this program
		r.Failure = failureOf(fmt.Errorf("the question is not understood: %w", windsock.ErrUnavailable))
	} else {
		r = answer(ctx, q)
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

// ask asks the process that a unit is for.
func ask(ctx context.Context, st *store.Store, unit string, q question) (r reply, err error) {
	text, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	answer, err := st.Ask(ctx, unit, string(text))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		return r, err
	}
	return r, r.Failure.err()
}

// answerOthers answers what other processes ask of this one until ctx ends.
func answerOthers(ctx context.Context, st *store.Store, o *observer.Observer, d *monitors.Deliverer) error {
	return st.Answer(ctx, func(ctx context.Context, text string) string {
		return answerTo(ctx, text, func(ctx context.Context, q question) (r reply) {
			var err error
			switch {
			case q.Check != nil:
				r.Check, err = o.Check(ctx, *q.Check)
			case q.Listing != "":
				r.Listing, err = o.Listing(ctx, q.Listing)
			case q.Ping != "":
				r.Ping, err = d.Ping(ctx, q.Ping)
			case len(q.CheckAll) > 0:
				var all []windsock.Looked
				all, err = o.CheckAll(ctx, q.CheckAll)
				for _, l := range all {
					r.CheckAll = append(r.CheckAll, looked{l.Subject, l.Looks, failureOf(l.Err)})
				}
			default:
				r.Deliveries = d.Deliveries(ctx, q.Deliveries)
			}
			r.Failure = failureOf(err)
			return r
		})
	})
}

// delivering is the deliverer, wherever its shares are.
type delivering struct {
	store *store.Store
	here  *monitors.Deliverer
}

func (d delivering) Ping(ctx context.Context, monitorID string) (windsock.Pong, error) {
	unit := windsock.DelivererUnit(monitorID)
	if d.store.Holds(unit) {
		return d.here.Ping(ctx, monitorID)
	}
	r, err := ask(ctx, d.store, unit, question{Ping: monitorID})
	return r.Ping, err
}

// soonKnown is how long to wait for what is only good to know.
const soonKnown = time.Second

// Deliveries knows nothing of those of which nobody tells soon.
func (d delivering) Deliveries(ctx context.Context, monitorIDs []string) map[string]windsock.Delivery {
	known := d.here.Deliveries(ctx, monitorIDs)
	if len(known) == len(monitorIDs) {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, soonKnown)
	defer cancel()
	holders, err := d.store.Holders(ctx)
	if err != nil {
		return known
	}
	asked := map[int64][]string{}
	for _, id := range monitorIDs {
		if unit := windsock.DelivererUnit(id); holders[unit] != 0 && !d.store.Holds(unit) {
			asked[holders[unit]] = append(asked[holders[unit]], id)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, ids := range asked {
		wg.Go(func() {
			r, _ := ask(ctx, d.store, windsock.DelivererUnit(ids[0]), question{Deliveries: ids})
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(known, r.Deliveries)
		})
	}
	wg.Wait()
	return known
}

// observing is the observer, wherever its parts are.
type observing struct {
	store *store.Store
	here  *observer.Observer
}

func (o observing) Words(provider string) map[string]windsock.State { return o.here.Words(provider) }

func (o observing) Listing(ctx context.Context, provider string) (windsock.Listing, error) {
	unit := windsock.ProviderUnit(provider)
	if o.store.Holds(unit) {
		return o.here.Listing(ctx, provider)
	}
	r, err := ask(ctx, o.store, unit, question{Listing: provider})
	if errors.Is(err, windsock.ErrNobody) && o.here.Words(provider) == nil {
		err = fmt.Errorf("provider %q: %w", provider, windsock.ErrNotFound)
	}
	return r.Listing, err
}

func (o observing) Check(ctx context.Context, at windsock.Place) (looks []windsock.Look, err error) {
	holders, err := o.store.Holders(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range o.views(at, holders) {
		r := reply{}
		if o.store.Holds(v.unit) {
			r.Check, err = o.here.Check(ctx, v.Place)
		} else {
			r, err = ask(ctx, o.store, v.unit, question{Check: &v.Place})
		}
		if err != nil {
			return nil, err
		}
		looks = append(looks, r.Check...)
	}
	return looks, nil
}

// A view is what one unit sees of a place.
type view struct {
	unit string
	windsock.Place
}

// views returns the provider's, if that is observed, and then that of the probe.
func (o observing) views(at windsock.Place, holders map[string]int64) (list []view) {
	byProvider, byProbe := at, at
	byProvider.Probed, byProbe.ProviderID = false, ""
	unit := windsock.ProviderUnit(at.Provider)
	if at.ProviderID != "" && (holders[unit] != 0 || o.here.Words(at.Provider) != nil) {
		list = append(list, view{unit, byProvider})
	}
	if at.Probed {
		list = append(list, view{windsock.ProbesUnit(at.ID), byProbe})
	}
	return list
}

// CheckAll has each process look at what is for it to look at.
func (o observing) CheckAll(ctx context.Context, all []windsock.Place) ([]windsock.Looked, error) {
	holders, err := o.store.Holders(ctx)
	if err != nil {
		return nil, err
	}
	found := map[windsock.Subject]*windsock.Looked{}
	asked := map[int64][]view{} // by process
	for _, at := range all {
		found[at.Subject] = &windsock.Looked{Subject: at.Subject}
		for _, v := range o.views(at, holders) {
			asked[holders[v.unit]] = append(asked[holders[v.unit]], v)
		}
	}
	if _, none := asked[0]; none && len(asked) == 1 {
		return nil, windsock.ErrNobody
	}
	var mu sync.Mutex
	var g errgroup.Group
	for holder, views := range asked {
		g.Go(func() error {
			seen, err := o.checkViews(ctx, holder, all[0], views)
			mu.Lock()
			defer mu.Unlock()
			for _, l := range seen {
				f := found[l.Subject]
				f.Looks, f.Err = append(f.Looks, l.Looks...), cmp.Or(f.Err, l.Err)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	list := make([]windsock.Looked, len(all))
	for i, at := range all {
		list[i] = *found[at.Subject]
		slices.SortStableFunc(list[i].Looks, func(a, b windsock.Look) int { return cmp.Compare(b.Source, a.Source) }) // a provider's first
	}
	return list, nil
}

// checkViews has one process look, at things of a deployment.
func (o observing) checkViews(ctx context.Context, holder int64, of windsock.Place, views []view) (list []windsock.Looked, err error) {
	places := []windsock.Place{{Subject: of.Subject, Provider: of.Provider}}
	for _, v := range views {
		switch last := &places[len(places)-1]; {
		case holder == 0:
			list = append(list, windsock.Looked{Subject: v.Subject, Err: windsock.ErrNobody})
		case last.Subject == v.Subject:
			last.ProviderID, last.Probed = cmp.Or(last.ProviderID, v.ProviderID), last.Probed || v.Probed
		default:
			places = append(places, v.Place)
		}
	}
	switch {
	case holder == 0:
		return list, nil
	case o.store.Holds(views[0].unit):
		return o.here.CheckAll(ctx, places)
	}
	r, err := ask(ctx, o.store, views[0].unit, question{CheckAll: places})
	for _, l := range r.CheckAll {
		list = append(list, windsock.Looked{Subject: l.Subject, Looks: l.Looks, Err: l.Failure.err()})
	}
	return list, err
}
