package openstack

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"

	"windsock"
)

const stopReads = 4 // servers whose actions are read at a time

// action is what was done to a server.
type action struct {
	Name string `json:"action"`
	User string `json:"user_id"` // who asked for it; "": nobody, Nova did it by itself
}

// actions asks for what was last done to a server, the newest first. Nova keeps that for
// some time after it was deleted.
func (s *session) actions(ctx context.Context, id string) ([]action, error) {
	var body struct {
		Actions []action `json:"instanceActions"`
	}
	err := s.read(ctx, s.novaOne, "servers/"+url.PathEscape(id)+"/os-instance-actions", url.Values{"limit": {"100"}}, &body)
	if err == nil && body.Actions == nil {
		err = errors.New("os-instance-actions: the answer has no actions")
	}
	return body.Actions, err
}

// stop is why a server is off, as it was found when Nova had last updated it.
type stop struct {
	updated string
	asked   bool // somebody asked for it
}

// readStops finds out why servers are off, of those that were not when they were last
// seen, or were updated since.
func (p *Provider) readStops(ctx context.Context, s *session, rows []server) error {
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(stopReads)
	for _, r := range p.newStops(rows) {
		reads.Go(func() error { return p.readStop(ctx, s, r) })
	}
	return reads.Wait()
}

// newStops returns the servers that are off and of which it is not known why, and forgets
// those that are not off any more.
func (p *Provider) newStops(rows []server) (list []*server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range rows {
		r := &rows[i]
		if state, _ := judge(r); state != windsock.Stopped || requested[r.Status] {
			delete(p.stops, r.ID)
		} else if known, ok := p.stops[r.ID]; !ok || known.updated != r.Updated {
			list = append(list, r)
		}
	}
	return list
}

func (p *Provider) readStop(ctx context.Context, s *session, r *server) error {
	actions, err := s.actions(ctx, r.ID)
	switch status(err) {
	case http.StatusForbidden:
		p.sayOnce("who stops servers is not observed", err)
	case http.StatusNotFound:
	case http.StatusInternalServerError: // Nova has trouble with this one; that must not hide the others
		p.sayOnce("who stopped a server cannot be read: "+r.ID, err)
		return nil
	default:
		if err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stops[r.ID] = stop{r.Updated, wasAsked(actions)}
	return nil
}

// boots are the actions after which a server is on.
var boots = map[string]bool{"create": true, "start": true, "reboot": true, "rescue": true, "unrescue": true, "unshelve": true, "restore": true}

// wasAsked reports whether somebody asked for a server to be off. When a guest dies it is
// Nova that stops the server then, for nobody; so it does when one is on that should not be.
func wasAsked(actions []action) bool {
	for _, a := range actions {
		if a.Name == "stop" && a.User != "" {
			return true
		}
		if boots[a.Name] {
			return false
		}
	}
	return false
}

// asked reports whether somebody asked for the server to be off.
func (p *Provider) asked(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stops[id].asked
}
