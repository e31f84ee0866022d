package openstack

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// server is what we read of a server.
type server struct {
	ID        string               `json:"id"`
	Name      string               `json:"name"`
	Status    string               `json:"status"`
	Updated   string               `json:"updated"`
	Project   string               `json:"tenant_id"`
	Metadata  map[string]string    `json:"metadata"`
	Addresses map[string][]address `json:"addresses"`
	Zone      string               `json:"OS-EXT-AZ:availability_zone"`
	VM        string               `json:"OS-EXT-STS:vm_state"`
	Task      string               `json:"OS-EXT-STS:task_state"`
	Power     int                  `json:"OS-EXT-STS:power_state"`
	Host      string               `json:"host_status"` // seen by administrators,
	Machine   string               `json:"OS-EXT-SRV-ATTR:host"`
	Node      string               `json:"OS-EXT-SRV-ATTR:hypervisor_hostname"`
	Fault     fault                `json:"fault"`
	Groups    []string             `json:"server_groups"` // of one server that is asked for alone
}

type address struct {
	Addr    string `json:"addr"`
	Version int    `json:"version"`
	Type    string `json:"OS-EXT-IPS:type"`
}

type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (f fault) String() string {
	if f == (fault{}) {
		return ""
	}
	return fmt.Sprintf("%d: %s", f.Code, f.Message)
}

// fewKeys reports whether the server is in a cell that does not answer, so that no more
// is known of it than that it is there.
func (r *server) fewKeys() bool { return r.Status == "UNKNOWN" && r.VM == "" }

// address returns the one to reach it at: a floating one that is not known to be somebody
// else's, else a fixed one; IPv4 before IPv6, and always the same.
func (r *server) address(owners map[string]string) string {
	best, bestRank, bestNetwork := "", 0, ""
	for network, list := range r.Addresses {
		for _, a := range list {
			rank := 1
			_, known := owners[a.Addr]
			switch {
			case a.Type == "floating" && known:
				continue // Nova has not heard of it
			case a.Type == "floating":
				rank = 3
			case a.Version == 4:
				rank = 2
			}
			if rank > bestRank || rank == bestRank && network < bestNetwork {
				best, bestRank, bestNetwork = a.Addr, rank, network
			}
		}
	}
	return best
}

// clock tells the cloud's time.
type clock struct {
	since time.Time // before the first question that was asked; zero: none was
}

// Times are of whole seconds, and are written some time before others can read what
// happened then. Without a Date our own clock has to do.
const (
	overlap        = 5 * time.Second
	overlapNoClock = time.Minute
)

// note takes the time from the header of an answer that took that long.
func (c *clock) note(header http.Header, took time.Duration) {
	if !c.since.IsZero() {
		return
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		c.since = date.Add(-took - overlap)
	} else {
		c.since = time.Now().Add(-took - overlapNoClock)
	}
}

// listServers shows the servers that query selects, a page at a time, as Nova cuts them.
// No limit is asked for: with one, the servers of cells that are down are not shown.
func (p *Provider) listServers(ctx context.Context, s *session, query url.Values, clock *clock, show func([]server) error) error {
	query = cloneQuery(query)
	if !s.ownOnly {
		query.Set("all_tenants", "1")
	}
	seen, seed := map[uint64]struct{}{}, maphash.MakeSeed() // hashes of ids
	cut := false
	for {
		var body struct {
			Servers []server   `json:"servers"`
			Links   []struct{} `json:"servers_links"`
		}
		began := time.Now()
		header, err := s.ask(ctx, s.nova, "servers/detail", query, &body)
		if status(err) == http.StatusForbidden && !s.ownOnly {
			if err := p.ownOnly(s, err); err != nil {
				return err
			}
			query.Del("all_tenants")
			continue
		}
		if err != nil {
			return err
		}
		clock.note(header, time.Since(began))
		if !s.ownOnly {
			p.mu.Lock()
			p.everybody = true
			p.mu.Unlock()
		}
		if body.Servers == nil {
			return errors.New("servers/detail: the answer has no servers")
		}
		more := len(body.Links) > 0
		last := ""
		fresh := slices.DeleteFunc(body.Servers, func(r server) bool {
			last = r.ID
			cut = cut || more && r.fewKeys()
			hash := maphash.String(seed, r.ID)
			_, twice := seen[hash]
			seen[hash] = struct{}{}
			return twice
		})
		if slices.ContainsFunc(fresh, func(r server) bool { return r.ID == "" }) {
			return errors.New("servers/detail: a server has no id")
		}
		if more && len(fresh) == 0 {
			return errors.New("servers/detail: the pages repeat themselves")
		}
		if err := p.readStops(ctx, s, fresh); err != nil {
			return err
		}
		if err := show(fresh); err != nil {
			return err
		}
		if !more {
			break
		}
		query.Set("marker", last)
	}
	if cut {
		return errors.New("cells do not answer, and their servers are more than fit on a page")
	}
	return nil
}

// ownOnly has only the servers of our own project listed, as those of all may not be. If
// they once were, this is a fault: they must not seem gone.
func (p *Provider) ownOnly(s *session, err error) error {
	p.mu.Lock()
	before := p.everybody
	p.mu.Unlock()
	if before {
		return fmt.Errorf("the servers of all projects were listed before: %w", err)
	}
	s.ownOnly = true
	p.sayOnce("only the servers of the own project are observed", err)
	return nil
}

func cloneQuery(query url.Values) url.Values {
	clone := url.Values{}
	for key, values := range query {
		clone[key] = values
	}
	return clone
}

// server asks for one server.
func (s *session) server(ctx context.Context, id string) (server, error) {
	var body struct {
		Server server `json:"server"`
	}
	err := s.read(ctx, s.novaOne, "servers/"+url.PathEscape(id), nil, &body)
	if err == nil && body.Server.ID != id {
		err = fmt.Errorf("servers/%s: the answer is about another one", id)
	}
	return body.Server, err
}

// deleted reports whether Nova remembers what was done to a server that is not there any
// more, and so that somebody deleted it: of one that never had a host it does not note the
// delete itself. Else there never was one, or it is long gone, or none of our business.
func (s *session) deleted(ctx context.Context, id string) (bool, error) {
	_, err := s.actions(ctx, id)
	if status(err) == http.StatusNotFound || status(err) == http.StatusForbidden {
		return false, nil
	}
	return err == nil, err
}

// group is a server group.
type group struct{ id, name string }

// readGroups reads which server is in which group, if that is asked for.
func (p *Provider) readGroups(ctx context.Context, s *session) error {
	if p.config.GroupBy != "server_group" {
		return nil
	}
	const limit = 1000
	groups := map[string]group{}
	query := url.Values{"limit": {fmt.Sprint(limit)}}
	if !s.ownOnly {
		query.Set("all_projects", "True")
	}
	for offset := 0; ; {
		query.Set("offset", fmt.Sprint(offset))
		var body struct {
			Groups []struct {
				ID      string   `json:"id"`
				Name    string   `json:"name"`
				Members []string `json:"members"`
			} `json:"server_groups"`
		}
		err := s.read(ctx, s.nova, "os-server-groups", query, &body)
		if code := status(err); code == http.StatusForbidden || code == http.StatusNotFound {
			p.sayOnce("server groups are not observed", err)
			return nil
		}
		if err != nil {
			return err
		}
		for _, g := range body.Groups {
			for _, id := range g.Members {
				groups[id] = group{g.ID, g.Name}
			}
		}
		if offset += len(body.Groups); len(body.Groups) == 0 {
			break
		}
	}
	p.mu.Lock()
	p.groups = groups
	p.mu.Unlock()
	return nil
}
