package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"windsock"
)

// service is the nova-compute of a host, as administrators see it.
type service struct {
	Host   string `json:"host"`
	Zone   string `json:"zone"`
	State  string `json:"state"`       // up, down; "" when its cell does not answer
	Forced bool   `json:"forced_down"` // somebody told Nova that the host is down
}

// The words for a host. That its nova-compute is not heard of says nothing of the host, nor of
// the servers there; that it is forced down is said by who looked, and made sure.
const (
	hostUp     = "up"
	hostDown   = "down"
	hostForced = "forced down"
)

var hostWords = map[string]windsock.State{hostUp: windsock.Running, hostDown: windsock.Unknown, hostForced: windsock.Failed}

// machine is where a server is, if that is a host whose failure takes it down; a machine of
// Ironic's is its own.
func (r *server) machine() string {
	if isUUID(r.Node) {
		return ""
	}
	return r.Machine
}

// askHosts asks for the hosts, or for one.
func (s *session) askHosts(ctx context.Context, host string) ([]service, error) {
	query := url.Values{"binary": {"nova-compute"}}
	if host != "" {
		query.Set("host", host)
	}
	var body struct {
		Services []service `json:"services"`
	}
	if err := s.read(ctx, s.nova, "os-services", query, &body); err != nil {
		return nil, err
	}
	if body.Services == nil {
		return nil, errors.New("os-services: the answer has no services")
	}
	return slices.DeleteFunc(body.Services, func(h service) bool { return h.Host == "" || host != "" && h.Host != host }), nil
}

// readHosts reads and shows the hosts, if we may see them. Once they were seen, that they
// cannot be read any more says nothing of them.
func (v *view) readHosts(ctx context.Context, page func([]windsock.Sighting) error) error {
	list, err := v.session.askHosts(ctx, "")
	code := status(err)
	switch {
	case err == nil:
		v.Provider.hosts, v.hosts = list, map[string]bool{}
		for _, h := range list {
			v.hosts[h.Host] = true
		}
	case v.Provider.hosts != nil && ctx.Err() == nil:
		v.sayOnce("hosts are not observed any more", err)
	case code == http.StatusForbidden || code == http.StatusNotFound:
		v.sayOnce("hosts are not observed", err)
		return nil
	default:
		return err
	}
	for part := range slices.Chunk(v.Provider.hosts, stackPage/2) {
		var sightings []windsock.Sighting
		for _, h := range part {
			if err != nil {
				h.State, h.Forced = "", false
			}
			d, i := v.host(h)
			sightings = append(sightings, d, i)
		}
		if err := page(sightings); err != nil {
			return err
		}
	}
	return nil
}

// host is what is seen of a host.
func (v *view) host(h service) (deployment, instance windsock.Sighting) {
	raw, pool, why := h.State, "", ""
	if h.Forced {
		raw, why = hostForced, "it is forced down in Nova"
	}
	state, known := hostWords[raw]
	switch {
	case !known:
		state, why = windsock.Unknown, "Nova does not say how it is"
	case raw == hostDown:
		why = "its nova-compute is not heard of, which says nothing of the host"
	}
	if v.config.Pool == "zone" {
		pool = h.Zone
	}
	return windsock.Node(h.Host, pool, state, raw, why)
}

func (p *Provider) checkHost(ctx context.Context, s *session, host string) (windsock.Sighting, error) {
	list, err := s.askHosts(ctx, host)
	if err != nil {
		return windsock.Sighting{}, err
	}
	if len(list) == 0 {
		return windsock.Sighting{}, fmt.Errorf("host %q: %w", host, windsock.ErrNotFound)
	}
	_, instance := p.newView(s).host(list[0])
	return instance, nil
}

// mixed is the host of servers that are on several, or on none that is known.
const mixed = ""

// kept is a deployment as it was shown, if it may have to be shown again, on another host.
func (v *view) kept(s *windsock.Sighting) *windsock.Sighting {
	if v.hosts == nil {
		return nil
	}
	return s
}

// seePlace notes on which host a deployment has a server.
func (v *view) seePlace(deployment, host string) {
	if v.hosts == nil {
		return
	}
	if first, ok := v.places[deployment]; ok && first != host {
		host = mixed
	}
	v.places[deployment] = host
}

// runsOn is on what a deployment was seen to run; nil when it was not.
func (v *view) runsOn(deployment string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.Provider.runsOn[deployment]
}

// moved are the deployments that turned out to run on another host than they were shown on, as
// all of their servers are there. It takes all servers to see that; one elsewhere is enough
// to see that it is so no more.
func (v *view) moved(full bool) (list []windsock.Sighting) {
	if v.hosts == nil || v.blind {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	runsOn := map[string][]string{}
	if !full {
		runsOn = v.Provider.runsOn
	}
	for _, id := range slices.Sorted(maps.Keys(v.shown)) {
		s, host := v.shown[id], v.places[id]
		on := []string{}
		if v.hosts[host] {
			on = append(on, windsock.NodeID(host))
		}
		if !full && s.RunsOn == nil {
			continue
		}
		if !full && !slices.Equal(on, s.RunsOn) {
			on = []string{}
		}
		runsOn[id] = on
		if s.RunsOn == nil || !slices.Equal(on, s.RunsOn) {
			s.RunsOn = on
			list = append(list, *s)
		}
	}
	v.Provider.runsOn = runsOn
	return list
}
