package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"golang.org/x/sync/errgroup"

	"windsock"
)

const (
	floatingPage = 1000
	movedReads   = 4   // servers whose addresses changed that are read at a time
	movedLimit   = 100 // and in one look
)

// floatingIP is what we read of one.
type floatingIP struct {
	ID      string `json:"id"`
	Address string `json:"floating_ip_address"`
	Port    string `json:"port_id"` // that it is attached to
	Details struct {
		Device string `json:"device_id"` // a server, or something else
	} `json:"port_details"` // of the port
}

// floating is what Neutron says of floating IPs. Nova has a copy of that, which may lag for
// hours, and to get another is no change of a server to it.
type floating struct {
	owners  map[string]string // by address: who has it, or "" if nobody has
	servers map[string]string // by who has them: the address that sorts first
	moved   map[string]bool   // servers that are to be looked at
}

// readFloating reads all floating IPs: Neutron (21.0) refuses changed_since.
func (p *Provider) readFloating(ctx context.Context, s *session) {
	if s.neutron != nil {
		aside(ctx, p, "floating IPs are those that Nova knows", s.floatingIPs, p.floating.take)
	}
}

// take notes all floating IPs there are, and for which servers that is news.
func (f *floating) take(list []floatingIP) {
	was := f.servers
	f.owners, f.servers = map[string]string{}, map[string]string{}
	for _, ip := range list {
		owner := ip.Details.Device
		if owner == "" && ip.Port != "" {
			continue // an old Neutron, which does not say whose the port is
		}
		f.owners[ip.Address] = owner
		if first, ok := f.servers[owner]; owner != "" && (!ok || ip.Address < first) {
			f.servers[owner] = ip.Address
		}
	}
	for _, m := range [...]map[string]string{was, f.servers} {
		for server := range m {
			if was[server] != f.servers[server] {
				f.moved[server] = true
			}
		}
	}
}

// address returns the one to reach a server at: of floating IPs what Neutron says counts.
func (p *Provider) address(r *server) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if floating := p.floating.servers[r.ID]; floating != "" {
		return floating
	}
	return r.address(p.floating.owners)
}

// readMoved shows the servers whose floating IPs changed, unless all were shown.
func (p *Provider) readMoved(ctx context.Context, s *session, all bool, page func([]windsock.Sighting) error) error {
	p.mu.Lock()
	if all {
		clear(p.floating.moved)
	}
	ids := slices.Collect(maps.Keys(p.floating.moved))
	p.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	ids = ids[:min(len(ids), movedLimit)]
	sightings := make([]windsock.Sighting, len(ids))
	reads, readCtx := errgroup.WithContext(ctx)
	reads.SetLimit(movedReads)
	for i, id := range ids {
		reads.Go(func() (err error) {
			if sightings[i], err = p.checkServer(readCtx, s, id); errors.Is(err, windsock.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return err
	}
	sightings = slices.DeleteFunc(sightings, func(s windsock.Sighting) bool { return s.ID == "" })
	if err := page(sightings); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		delete(p.floating.moved, id)
	}
	return nil
}

// floatingIPs lists those of all projects that may be seen.
func (s *session) floatingIPs(ctx context.Context) (list []floatingIP, err error) {
	type link struct {
		Rel string `json:"rel"`
	}
	query := url.Values{"limit": {fmt.Sprint(floatingPage)}, "fields": {"id", "floating_ip_address", "port_id", "port_details"}}
	for {
		var body struct {
			Page  []floatingIP `json:"floatingips"`
			Links []link       `json:"floatingips_links"`
		}
		if err := s.read(ctx, s.neutron, "floatingips", query, &body); err != nil {
			return nil, err
		}
		if body.Page == nil {
			return nil, errors.New("floatingips: the answer has no floating IPs")
		}
		list = append(list, body.Page...)
		if len(body.Page) == 0 || !slices.Contains(body.Links, link{"next"}) {
			return list, nil
		}
		last := list[len(list)-1].ID
		if last == query.Get("marker") {
			return nil, errors.New("floatingips: the pages repeat themselves")
		}
		query.Set("marker", last)
	}
}
