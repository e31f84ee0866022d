package openstack

import (
	"maps"
	"slices"
	"strings"

	"windsock"
)

// view makes sightings of what one look finds. It shows each deployment before the first
// of its servers.
type view struct {
	*Provider
	session *session
	roots   []stack // to be shown
	ended   []stack // that were deleted
	stacks  map[string]*stack
	shown   map[string]*windsock.Sighting // deployments that were; nil: on which host they are is not known
	hosts   map[string]bool               // that there are; nil: that is not known
	places  map[string]string             // the host of the servers of a deployment
	blind   bool                          // there are servers of which it cannot be told where they are
}

func (p *Provider) newView(s *session) *view {
	return &view{Provider: p, session: s, shown: map[string]*windsock.Sighting{}, places: map[string]string{}}
}

// show returns a function that shows servers, or only those of them that were deleted.
func (v *view) show(page func([]windsock.Sighting) error, deleted bool) func([]server) error {
	if v.stacks == nil {
		v.stacks = make(map[string]*stack, len(v.roots))
		for i := range v.roots {
			v.stacks[v.roots[i].ID] = &v.roots[i]
		}
	}
	return func(rows []server) error {
		var deployments []windsock.Sighting
		sightings := make([]windsock.Sighting, 0, len(rows))
		for i := range rows {
			r := &rows[i]
			if deleted && r.Status != "DELETED" {
				continue
			}
			s := v.sighting(r)
			if s.Deployment != "" {
				another := v.seeZone(s.Deployment, r.Zone)
				v.seePlace(s.Deployment, r.machine())
				if _, before := v.shown[s.Deployment]; !before || another {
					if d, ok := v.deployment(r, s.Deployment); ok {
						v.shown[s.Deployment] = v.kept(&d)
						deployments = append(deployments, d)
					}
				}
			}
			v.blind = v.blind || r.fewKeys()
			sightings = append(sightings, s)
		}
		if len(deployments)+len(sightings) == 0 {
			return nil
		}
		return page(append(deployments, sightings...))
	}
}

// rest shows the stacks that have no servers, those that were deleted, and then again what
// runs elsewhere than it seemed to.
func (v *view) rest(page func([]windsock.Sighting) error, full bool) error {
	var sightings []windsock.Sighting
	for i := range v.roots {
		id := v.roots[i].ID
		if _, ok := v.shown[id]; ok {
			continue
		}
		s := v.stack(&v.roots[i])
		sightings = append(sightings, s)
		if full {
			v.shown[id] = v.kept(&s)
		}
	}
	for i := range v.ended {
		sightings = append(sightings, v.stack(&v.ended[i]))
	}
	sightings = append(sightings, v.moved(full)...)
	for part := range slices.Chunk(sightings, stackPage) {
		if err := page(part); err != nil {
			return err
		}
	}
	return nil
}

// sighting is what is seen of a server.
func (v *view) sighting(r *server) windsock.Sighting {
	s := windsock.Sighting{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: r.ID}, Raw: raw(r)}
	s.State, s.Reason = judge(r)
	s.Requested = (s.State == windsock.Gone || s.State == windsock.Suspended || s.State == windsock.Stopped || s.State == windsock.Stopping) &&
		(requested[r.Status] || requested[r.Task]) || s.State == windsock.Stopped && v.asked(r.ID)
	if s.State == windsock.Gone || r.fewKeys() {
		return s
	}
	if why := v.brokenVolume(r.ID); why != "" { // it is a word of its own, or nothing would seem to have changed
		s.Raw += " volume=error"
		s.Reason = strings.TrimPrefix(s.Reason+"; "+why, "; ")
	}
	s.Deployment, s.Assembly = v.belongs(r)
	s.Name, s.Address, s.Metadata = r.Name, v.address(r), r.Metadata
	if host := r.machine(); host != "" {
		s.Metadata = maps.Clone(r.Metadata)
		if s.Metadata == nil {
			s.Metadata = map[string]string{}
		}
		s.Metadata[windsock.HostKey] = host
	}
	return s
}

// belongs returns the deployment of a server: a stack, or what its metadata name, or its
// server group, or else its project. One that nobody groups has none: it is not declared,
// and one that was grouped stays where it was, as its stack may only be unreadable now.
func (v *view) belongs(r *server) (deployment, assembly string) {
	if at, ok := v.heat.place(r.ID); ok {
		return at.stack, at.assembly
	}
	if name := r.Metadata[v.config.MetadataKey]; isName(name) {
		if r.Project != v.session.project.ID {
			name = r.Project + ":" + name // two projects do not share one
		}
		return name, ""
	}
	if g := v.group(r); g.id != "" {
		return "group:" + g.id, ""
	}
	if v.config.GroupBy == "none" {
		return "", ""
	}
	return "project:" + r.Project, ""
}

// isName reports whether a name can be the id of a deployment, and is not mistaken for
// one of another sort.
func isName(name string) bool {
	return windsock.ValidID("", name) == nil && !strings.Contains(name, ":") && !isUUID(name)
}

func (v *view) group(r *server) group {
	if v.config.GroupBy != "server_group" {
		return group{}
	}
	if len(r.Groups) > 0 {
		return group{id: r.Groups[0]}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.groups[r.ID]
}

// deployment describes the one that a server belongs to, unless it is a stack that this
// look knows nothing of. What is no stack has no state but that of its servers.
func (v *view) deployment(r *server, id string) (windsock.Sighting, bool) {
	if st := v.stacks[id]; st != nil {
		return v.stack(st), true
	}
	if isUUID(id) {
		return windsock.Sighting{}, false
	}
	s := windsock.Sighting{Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: id}}
	s.Pool, s.RunsOn = v.pool(id, r.Project), v.runsOn(id)
	switch {
	case strings.HasPrefix(id, "group:"):
		s.Name = v.group(r).name
	case strings.HasPrefix(id, "project:"):
		s.Name = r.Project
		if r.Project == v.session.project.ID {
			s.Name = v.session.project.Name
		}
	default:
		s.Name = r.Metadata[v.config.MetadataKey]
	}
	return s, true
}

// stack is what is seen of a stack.
func (v *view) stack(st *stack) windsock.Sighting {
	s := windsock.Sighting{Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: st.ID}, Raw: st.Status}
	var known bool
	if s.State, known = stackWords[st.Status]; !known {
		s.State, s.Reason = windsock.Unknown, "an unknown word"
	} else if s.State != windsock.Running {
		s.Reason = st.Reason
	}
	s.Requested = s.State == windsock.Stopping || s.State == windsock.Stopped || s.State == windsock.Gone
	s.Name, s.RunsOn = st.Name, v.runsOn(st.ID)
	s.Pool = v.pool(st.ID, st.Project)
	if s.Pool == "" && v.config.Pool == "project" {
		s.Pool = v.session.project.ID
	}
	return s
}

// pool is the pool of a deployment.
func (v *view) pool(deployment, project string) string {
	if v.config.Pool == "project" {
		return project
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.zones[deployment]
}

// seeZone notes that a deployment has a server in a zone, and reports whether it is in
// another pool for that: of several zones, the one whose name comes first counts.
func (v *view) seeZone(deployment, zone string) bool {
	if v.config.Pool != "zone" || zone == "" {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if first, ok := v.zones[deployment]; ok && first <= zone {
		return false
	}
	v.zones[deployment] = zone
	return true
}
