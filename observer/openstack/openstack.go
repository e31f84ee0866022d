// Package openstack is the provider of clouds that run OpenStack: Nova's servers are
// instances, Heat's stacks deployments. It only reads; Heat's check is never asked for,
// as it writes what it finds over the state of a stack that is still under way.
package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"windsock"
	"windsock/observer/openstack/notify"
)

// Config says which cloud it is, and how it is cut into deployments and pools.
type Config struct {
	Cloud       string            `json:"cloud"`        // its name in clouds.yaml; "": the one of the OS_* variables
	Region      string            `json:"region"`       // default the one given there
	Endpoints   map[string]string `json:"endpoints"`    // by type of service, instead of what the catalog says
	Pool        string            `json:"pool"`         // what a pool is: project (default) or zone
	MetadataKey string            `json:"metadata_key"` // names the deployment of a server in no stack; default windsock:deployment
	GroupBy     string            `json:"group_by"`     // what else makes its deployment: server_group (default), if it is in one, or project; none: it is not observed

	Notifications string   `json:"notifications"` // URL of the RabbitMQ where its services tell each other what they do; secret
	Exchanges     []string `json:"exchanges"`     // there; default nova and heat
}

// complete fills in the defaults and returns a FieldError for what there is not.
func (c *Config) complete() error {
	c.Pool, c.GroupBy = cmp.Or(c.Pool, "project"), cmp.Or(c.GroupBy, "server_group")
	c.MetadataKey = cmp.Or(c.MetadataKey, "windsock:deployment")
	if c.Pool != "project" && c.Pool != "zone" {
		return windsock.Invalid("pool", "want project or zone, got %q", windsock.Clip(c.Pool))
	}
	if c.GroupBy != "server_group" && c.GroupBy != "project" && c.GroupBy != "none" {
		return windsock.Invalid("group_by", "want server_group, project or none, got %q", windsock.Clip(c.GroupBy))
	}
	if err := notify.ValidURL(c.Notifications); c.Notifications != "" && err != nil {
		return windsock.Invalid("notifications", "%v", err)
	}
	for service, at := range c.Endpoints {
		if service != novaService && service != heatService && service != neutronService && service != cinderService {
			return windsock.Invalid("endpoints."+service, "want %s, %s, %s or %s", novaService, heatService, neutronService, cinderService)
		}
		if u, err := url.Parse(at); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return windsock.Invalid("endpoints."+service, "want a URL, got %q", windsock.Clip(at))
		}
	}
	return nil
}

// Provider is one cloud. Observe and Changes are called one at a time, Check at any.
type Provider struct {
	config Config
	log    *slog.Logger

	since time.Time // by the cloud's clock; of the looks alone
	heat  heat
	hosts []service // as they were read last; nil: they never were

	mu        sync.Mutex
	session   *session            // nil: to be signed in
	everybody bool                // the servers of all projects were listed once
	groups    map[string]group    // by server
	zones     map[string]string   // by deployment, the first of those its servers are in
	runsOn    map[string][]string // by deployment, as it was shown
	stops     map[string]stop     // by server that is off
	volumes   map[string]string   // by server, what is wrong with its volumes
	floating  floating
	said      map[string]bool
}

// sayOnce logs what goes without.
func (p *Provider) sayOnce(what string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said[what] {
		return
	}
	p.said[what] = true
	p.log.Info(what, "error", err)
}

// asideLimit is how long what is read aside may take, as servers are not to wait for long.
const asideLimit = 15 * time.Second

// aside reads what no state depends on, and has it taken, with mu held. What cannot be read
// stays what it was; that it cannot be is told.
func aside[T any](ctx context.Context, p *Provider, otherwise string, read func(context.Context) (T, error), take func(T)) {
	limited, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	got, err := read(limited)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		p.sayOnce(otherwise, err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	take(got)
}

// New returns the provider of a cloud. Nothing is asked of that before it is observed.
func New(c Config, log *slog.Logger) (*Provider, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	return &Provider{
		config: c, log: log, heat: newHeat(), floating: floating{moved: map[string]bool{}},
		zones: map[string]string{}, stops: map[string]stop{}, said: map[string]bool{},
	}, nil
}

// Observe implements observer.Provider.
func (p *Provider) Observe(ctx context.Context, page func([]windsock.Sighting) error) error {
	return p.look(ctx, page, true)
}

// Changes implements observer.Differ. Stacks are shown all, servers as far as they
// changed; Nova does not count it as a change that a host dies.
func (p *Provider) Changes(ctx context.Context, page func([]windsock.Sighting) error) error {
	return p.look(ctx, page, false)
}

func (p *Provider) look(ctx context.Context, page func([]windsock.Sighting) error, full bool) error {
	err := p.lookWith(ctx, page, full)
	if err != nil {
		p.mu.Lock()
		p.session = nil // its endpoints, rights and token may be others now
		p.mu.Unlock()
	}
	return err
}

func (p *Provider) lookWith(ctx context.Context, page func([]windsock.Sighting) error, full bool) error {
	s, err := p.signIn(ctx)
	if err != nil {
		return err
	}
	v := p.newView(s)
	incomplete, err := p.readHeat(ctx, s)
	if err != nil {
		return err
	}
	if incomplete == nil {
		v.roots, v.ended = p.heat.roots(), p.endedStacks(ctx, s)
	}
	if err := p.readGroups(ctx, s); err != nil {
		return err
	}
	if err := v.readHosts(ctx, page); err != nil {
		return err
	}
	var clock clock
	if full || p.since.IsZero() {
		p.readFloating(ctx, s)
		p.readVolumes(ctx, s)
		if err := p.listServers(ctx, s, nil, &clock, v.show(page, false)); err != nil {
			return err
		}
		full = true
	}
	if !p.since.IsZero() { // after a full listing for what was deleted meanwhile: it is not missed then
		query := url.Values{"changes-since": {p.since.UTC().Format(time.RFC3339)}}
		if err := p.listServers(ctx, s, query, &clock, v.show(page, full)); err != nil {
			return err
		}
	}
	if !full {
		p.readFloating(ctx, s) // afterwards, as no state depends on it
	}
	if err := p.readMoved(ctx, s, full, page); err != nil {
		return err
	}
	v.blind = v.blind || incomplete != nil
	if err := v.rest(page, full); err != nil {
		return err
	}
	if incomplete != nil {
		return incomplete // the servers are where Heat had them, and that was not all
	}
	p.since = clock.since
	return nil
}

// Check implements observer.Provider.
func (p *Provider) Check(ctx context.Context, subject windsock.Subject) (windsock.Sighting, error) {
	s, err := p.signIn(ctx)
	if err != nil {
		return windsock.Sighting{}, err
	}
	if subject.Kind == windsock.KindDeployment {
		return p.checkStack(ctx, s, subject.ID)
	}
	if host, ok := windsock.NodeHost(subject.ID); ok {
		return p.checkHost(ctx, s, host)
	}
	return p.checkServer(ctx, s, subject.ID)
}

// checkServer looks at one server. A deleted one has left a note of that.
func (p *Provider) checkServer(ctx context.Context, s *session, id string) (windsock.Sighting, error) {
	row, err := s.server(ctx, id)
	if status(err) == http.StatusNotFound {
		deleted, err := s.deleted(ctx, id)
		switch {
		case err != nil:
			return windsock.Sighting{}, err
		case !deleted:
			return windsock.Sighting{}, fmt.Errorf("server %q: %w", id, windsock.ErrNotFound)
		}
		row = server{ID: id, Status: "DELETED"}
	} else if err != nil {
		return windsock.Sighting{}, err
	}
	if err := p.readStops(ctx, s, []server{row}); err != nil {
		return windsock.Sighting{}, err
	}
	v := p.newView(s)
	sighting := v.sighting(&row)
	if _, ok := p.heat.place(id); !ok && sighting.State != windsock.Gone {
		// It may be of a stack that is new. If that cannot be told, it stays where it is.
		if p.readHeatSoon(ctx, s) != nil {
			sighting.Description = windsock.Description{}
			return sighting, nil
		}
		sighting = v.sighting(&row)
	}
	return sighting, nil
}

func (p *Provider) checkStack(ctx context.Context, s *session, id string) (windsock.Sighting, error) {
	if !isUUID(id) {
		return windsock.Sighting{}, fmt.Errorf("deployment %q is no stack, only a listing shows it", id)
	}
	if s.heat == nil {
		return windsock.Sighting{}, errNoHeat
	}
	st, err := s.stack(ctx, id)
	if err != nil {
		return windsock.Sighting{}, err
	}
	if st.Parent != "" {
		return windsock.Sighting{}, fmt.Errorf("stack %q is nested in another: %w", id, windsock.ErrNotFound)
	}
	return p.newView(s).stack(&st), nil
}

var errNoHeat = errors.New("the cloud has no Heat")

// isUUID tells the ids of stacks from those of the deployments that we make up.
func isUUID(id string) bool {
	return len(id) == 36 && strings.Count(id, "-") == 4 && strings.Trim(id, "0123456789abcdefABCDEF-") == ""
}

// status returns the HTTP status of an error, or 0 if it is none of a service.
func status(err error) int {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.status
	}
	return 0
}
