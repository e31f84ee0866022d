package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"windsock"
)

const (
	maxWait   = time.Minute            // of a long poll
	heartbeat = 15 * time.Second       // of a stream
	hearsay   = 250 * time.Millisecond // within which the store hears of what another process committed
)

var eventTypes = []windsock.EventType{
	windsock.InstanceState, windsock.InstanceFlags, windsock.InstanceSettled, windsock.InstanceDeclared, windsock.InstanceRemoved,
	windsock.DeploymentState, windsock.DeploymentFlags, windsock.DeploymentSettled, windsock.DeploymentDeclared, windsock.DeploymentRemoved,
	windsock.MonitorAdded, windsock.MonitorRemoved, windsock.MonitorPaused, windsock.MonitorResumed, windsock.MonitorReplayed,
	windsock.MonitorVerified, windsock.MonitorExpiring, windsock.MonitorExpired, windsock.LogGap,
	windsock.ProviderLost, windsock.ProviderBack, windsock.ComponentChanged,
}

// events shows a page of the log, waits for one, or streams it.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	q := queryOf(r)
	var (
		head   = s.Store.Head()
		after  = q.number("after", 0, 0, 1<<62)
		limit  = q.limit()
		wait   = q.duration("wait", 0, maxWait)
		filter = eventFilter(q)
		stream = r.Method == http.MethodGet && wantsStream(r)
		field  = "after"
	)
	filter.Before = q.number("before", 0, 1, 1<<62)
	if filter.Before > 0 && (stream || q.Has("after") || q.Has("wait")) {
		q.refuse("before", "does not go with after, wait or a stream")
	}
	if q.err != nil {
		return q.err
	}
	if filter.Before > 0 {
		return s.pageBack(w, r, limit, filter)
	}
	if stream {
		if last := r.Header.Get("Last-Event-ID"); last != "" {
			field = "Last-Event-ID"
			var err error
			if after, err = strconv.ParseInt(last, 10, 64); err != nil || after < 0 {
				return windsock.Invalid(field, "want the id of an event, got %q", windsock.Clip(last))
			}
		} else if !q.Has("after") {
			after = head // only news
		}
	}
	if after > head { // another process may have told of it just now
		wait, cancel := context.WithTimeout(r.Context(), hearsay)
		s.Store.Wait(wait, after-1)
		cancel()
		head = s.Store.Head()
	}
	if after > head {
		return windsock.Invalid(field, "the newest event is %d, got %d", head, after)
	}
	if stream {
		return s.stream(w, r, after, filter)
	}
	return s.poll(w, r, after, limit, wait, filter)
}

func eventFilter(q *query) windsock.EventFilter {
	f := windsock.EventFilter{
		Kind: windsock.Kind(q.Get("kind")),
		Type: windsock.EventType(q.Get("type")),
		Word: windsock.Word(q.Get("detection")),
	}
	for _, kind := range []string{"deployment", "instance", "provider", "pool"} {
		switch {
		case !q.Has(kind):
		case f.Scope != "":
			q.refuse(kind, "want one of deployment, instance, provider, pool")
		default:
			f.Scope = windsock.Scope(kind + ":" + q.Get(kind))
		}
	}
	kinds := []windsock.Kind{windsock.KindDeployment, windsock.KindInstance, windsock.KindComponent, windsock.KindProvider, windsock.KindMonitor, windsock.KindLog}
	if f.Kind != "" && !slices.Contains(kinds, f.Kind) {
		q.refuse("kind", "want one of %v, got %q", kinds, windsock.Clip(string(f.Kind)))
	}
	if f.Type != "" && !slices.Contains(eventTypes, f.Type) {
		q.refuse("type", "want one of %v, got %q", eventTypes, windsock.Clip(string(f.Type)))
	}
	if _, err := windsock.ParseWord("detection", string(f.Word)); f.Word != "" && err != nil && q.err == nil {
		q.err = err
	}
	return f
}

func wantsStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// poll shows a page, as soon as there is something on it or the wait is over.
func (s *Server) poll(w http.ResponseWriter, r *http.Request, after int64, limit int, wait time.Duration, f windsock.EventFilter) error {
	linger(w, wait)
	waiting, cancel := s.untilStop(r.Context(), wait)
	defer cancel()
	found, next, err := s.eventsAfter(r.Context(), waiting, after, limit, f)
	if err != nil {
		return s.pruned(err)
	}
	if err := s.known(r.Context()); err != nil { // no more
		return err
	}
	return s.showEvents(w, r, found, next, max(next, s.Store.Head()))
}

// pageBack shows the newest events before one, the newest first.
func (s *Server) pageBack(w http.ResponseWriter, r *http.Request, limit int, f windsock.EventFilter) error {
	found, err := s.Store.Events(r.Context(), 0, limit, f)
	if err != nil {
		return err
	}
	var next int64
	if len(found) == limit {
		next = found[limit-1].Seq
	}
	return s.showEvents(w, r, found, next, s.Store.Head())
}

func (s *Server) showEvents(w http.ResponseWriter, r *http.Request, found []windsock.Event, next, head int64) error {
	return represent(w, r, http.StatusOK, struct {
		Events []windsock.Event `json:"events"`
		Next   int64            `json:"next"` // seq after which, or before which, the next page begins
		Head   int64            `json:"head"`
	}{orEmpty(found), next, head})
}

// eventsAfter returns the events after one that the filter selects, and up to which one
// the log was looked through for them. While there are none it looks again at every news
// until waiting ends.
func (s *Server) eventsAfter(ctx, waiting context.Context, after int64, limit int, f windsock.EventFilter) ([]windsock.Event, int64, error) {
	for pause := time.Duration(0); ; pause = settle {
		head := s.Store.Head()
		found, err := s.Store.Events(ctx, after, limit, f)
		if err != nil {
			return nil, after, err
		}
		if len(found) == limit {
			return found, found[limit-1].Seq, nil
		}
		after = max(after, head)
		if len(found) > 0 {
			return found, max(after, found[len(found)-1].Seq), nil
		}
		switch err := s.news(waiting, after, pause); {
		case waiting.Err() != nil:
			return nil, after, nil
		case err != nil:
			return nil, after, err
		}
	}
}

// pruned tells one whose place in the log is gone where it ends now.
func (s *Server) pruned(err error) error {
	if !errors.Is(err, windsock.ErrPruned) {
		return err
	}
	head := s.Store.Head()
	return &told{err, facts{Field: "after", Head: &head}}
}

// stream sends events as they come (server-sent events), until the client leaves, lags
// behind what is kept, is stuck, is known no more, or the server stops. The client comes back by itself
// and says in Last-Event-ID how far it came.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, after int64, f windsock.EventFilter) error {
	if _, err := s.Store.Events(r.Context(), after, 1, f); err != nil {
		return s.pruned(err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	c := http.NewResponseController(w)
	follow := s.filtered(f)
	if f == (windsock.EventFilter{}) {
		s.tail.open.Add(1)
		defer s.tail.open.Add(-1)
		follow = s.everything
	}
	var (
		frames []byte
		err    error
	)
	for first := true; ; first = false {
		linger(w, 0)
		if first {
			w.WriteHeader(http.StatusOK)
		}
		if _, err := w.Write(frames); err != nil {
			return nil // gone or stuck
		}
		if err := c.Flush(); err != nil {
			return nil
		}
		waiting, cancel := s.untilStop(r.Context(), heartbeat)
		frames, after, err = follow(r.Context(), waiting, after)
		cancel()
		switch {
		case err != nil:
			return err
		case r.Context().Err() != nil || s.Stop.Err() != nil || s.known(r.Context()) != nil:
			return nil
		}
		if len(frames) == 0 { // the id moves its place in the log past what it does not want to hear
			frames = fmt.Appendf(nil, ":\nid: %d\n\n", after)
		}
	}
}

// A follower returns what a stream is to send that has come to after, and how far it comes
// by that; nothing when nothing happened until waiting ended.
type follower func(ctx, waiting context.Context, after int64) (frames []byte, next int64, err error)

// filtered is for streams that want to hear some events: each looks for its own.
func (s *Server) filtered(f windsock.EventFilter) follower {
	return func(ctx, waiting context.Context, after int64) ([]byte, int64, error) {
		found, next, err := s.eventsAfter(ctx, waiting, after, windsock.MaxPage, f)
		if err != nil {
			return nil, after, err
		}
		var frames bytes.Buffer
		for i := range found {
			if err := writeEvent(&frames, &found[i]); err != nil {
				return nil, after, err
			}
		}
		return frames.Bytes(), next, nil
	}
}

// everything is for those that want to hear all. Only one that lags behind the tail reads
// the store.
func (s *Server) everything(ctx, waiting context.Context, after int64) ([]byte, int64, error) {
	for {
		frames, next, ok, err := s.tail.since(ctx, s.Store, after)
		switch {
		case err != nil:
			return nil, after, err
		case !ok:
			return s.filtered(windsock.EventFilter{})(ctx, waiting, after)
		case len(frames) > 0:
			return frames, next, nil
		}
		after = next
		pace := s.tail.pace()
		switch err := s.news(waiting, after, pace/2+rand.N(pace)); {
		case waiting.Err() != nil:
			return nil, after, nil
		case err != nil:
			return nil, after, err
		}
	}
}

func writeEvent(frame *bytes.Buffer, e *windsock.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(frame, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, data)
	return err
}
