package openstack

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"windsock"
)

const (
	stackPage   = 500
	maxNesting  = 10
	stackReads  = 4  // stacks whose resources are read at a time
	endedLimit  = 32 // stacks that are looked for in one look, as they are listed no more
	heatFreshly = 2 * time.Second
)

// stack is what we read of a stack.
type stack struct {
	ID      string `json:"id"`
	Name    string `json:"stack_name"`
	Status  string `json:"stack_status"`
	Reason  string `json:"stack_status_reason"`
	Updated string `json:"updated_time"`
	Parent  string `json:"parent"` // it is nested in
	Project string `json:"project"`
}

// resource is what we read of a resource of a stack.
type resource struct {
	Name  string `json:"resource_name"`
	ID    string `json:"physical_resource_id"`
	Type  string `json:"resource_type"`
	Links []struct {
		Href string `json:"href"`
		Rel  string `json:"rel"`
	} `json:"links"`
}

// stack is the id of the stack that the resource is directly in.
func (r *resource) stack() string {
	for _, l := range r.Links {
		if l.Rel == "stack" {
			return path.Base(l.Href)
		}
	}
	return ""
}

// place is where a server belongs: the outermost stack, and the resource of that by which
// it is there, which is a group's if it is one of several.
type place struct{ stack, assembly string }

// heat is what is known of stacks and the servers in them. The resources of a stack are
// read again only when it, or one nested in it, changed or is about to.
type heat struct {
	mu     sync.Mutex // held while it is read
	readAt time.Time  // zero: it never was
	seed   maphash.Seed
	trees  map[string]*tree // by the id of the outermost stack

	places sync.Map // from server to place
}

// tree is a stack with all that is nested in it.
type tree struct {
	stack
	listed  bool     // the last time
	sum     uint64   // of the states and times of all its stacks; 0: its resources are to be read
	servers []string // in it
}

func newHeat() heat { return heat{seed: maphash.MakeSeed(), trees: map[string]*tree{}} }

// place returns where a server belongs, if that is in a stack.
func (h *heat) place(server string) (place, bool) {
	at, ok := h.places.Load(server)
	if !ok {
		return place{}, false
	}
	return at.(place), true
}

// roots are the outermost stacks, as they were last listed.
func (h *heat) roots() (list []stack) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.trees {
		if t.listed {
			list = append(list, t.stack)
		}
	}
	slices.SortFunc(list, func(a, b stack) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// readHeat brings what is known of stacks up to date. Without any of that nothing can be
// said of servers, which is an error; with some the servers stay where they were, and
// what is missing is incomplete.
func (p *Provider) readHeat(ctx context.Context, s *session) (incomplete, err error) {
	h := &p.heat
	h.mu.Lock()
	defer h.mu.Unlock()
	switch err := p.readStacks(ctx, s); {
	case err == nil:
		h.readAt = time.Now()
		return nil, nil
	case len(h.trees) == 0 && (errors.Is(err, errNoHeat) || status(err) == http.StatusForbidden):
		p.sayOnce("stacks are not observed", err)
		h.readAt = time.Now()
		return nil, nil
	case h.readAt.IsZero() || ctx.Err() != nil:
		return nil, err
	default:
		return err, nil
	}
}

// readHeatSoon is readHeat, unless that was done just now.
func (p *Provider) readHeatSoon(ctx context.Context, s *session) error {
	p.heat.mu.Lock()
	fresh := time.Since(p.heat.readAt) < heatFreshly
	p.heat.mu.Unlock()
	if fresh {
		return nil
	}
	incomplete, err := p.readHeat(ctx, s)
	return errors.Join(incomplete, err)
}

// readStacks lists all stacks, and the resources of those that changed. p.heat.mu is
// held.
func (p *Provider) readStacks(ctx context.Context, s *session) error {
	h := &p.heat
	if s.heat == nil {
		return errNoHeat
	}
	stacks, err := s.stacks(ctx)
	if err != nil {
		return err
	}
	sums, moving := map[string]uint64{}, map[string]bool{}
	for _, st := range stacks {
		root := st
		for range maxNesting {
			outer, ok := stacks[root.Parent]
			if !ok {
				break
			}
			root = outer
		}
		if root.Parent != "" { // what it is nested in came or went while they were listed
			continue
		}
		sums[root.ID] ^= maphash.Comparable(h.seed, [...]string{st.ID, st.Status, st.Updated})
		moving[root.ID] = moving[root.ID] || strings.HasSuffix(st.Status, "_IN_PROGRESS")
	}
	for _, t := range h.trees {
		t.listed = false
	}
	reads, readCtx := errgroup.WithContext(ctx)
	reads.SetLimit(stackReads)
	for id, sum := range sums {
		t := h.trees[id]
		if t == nil {
			t = &tree{}
			h.trees[id] = t
		}
		t.stack, t.listed = stacks[id], true
		if t.sum == sum && !moving[id] {
			continue
		}
		reads.Go(func() error {
			t.sum = 0
			servers, err := s.servers(readCtx, t.stack)
			switch status(err) {
			case http.StatusNotFound: // deleted since it was listed
				return nil
			case http.StatusInternalServerError: // Heat has trouble with this one; that must not hide the others
				p.sayOnce("a stack's resources cannot be read: "+t.ID, err)
				return nil
			}
			if err != nil {
				return err
			}
			h.put(t, servers)
			t.sum = sum
			return nil
		})
	}
	return reads.Wait()
}

// put notes which servers are in a tree.
func (h *heat) put(t *tree, servers map[string]place) {
	for _, id := range t.servers {
		if _, still := servers[id]; !still {
			h.places.Delete(id)
		}
	}
	t.servers = t.servers[:0]
	for id, at := range servers {
		h.places.Store(id, at)
		t.servers = append(t.servers, id)
	}
}

// endedStacks looks for the stacks that are listed no more, and returns those that were
// deleted. The others stay what they were.
func (p *Provider) endedStacks(ctx context.Context, s *session) (ended []stack) {
	h := &p.heat
	h.mu.Lock()
	defer h.mu.Unlock()
	looks := 0
	for id, t := range h.trees {
		if t.listed {
			continue
		}
		if looks++; looks > endedLimit {
			break
		}
		if st, err := s.stack(ctx, id); err == nil && stackWords[st.Status] == windsock.Gone {
			h.put(t, nil)
			delete(h.trees, id)
			ended = append(ended, st)
		}
	}
	return ended
}

// stacks lists all stacks with those nested in them, by id.
func (s *session) stacks(ctx context.Context) (map[string]stack, error) {
	stacks := map[string]stack{}
	query := url.Values{"limit": {fmt.Sprint(stackPage)}, "show_nested": {"true"}}
	for {
		page, err := s.stackPage(ctx, query)
		if err != nil {
			return nil, err
		}
		before := len(stacks)
		for _, st := range page {
			if st.ID == "" {
				return nil, errors.New("stacks: a stack has no id")
			}
			stacks[st.ID] = st
		}
		if len(page) == 0 {
			return stacks, nil
		}
		if len(stacks) == before {
			return nil, errors.New("stacks: the pages repeat themselves")
		}
		if len(page) < stackPage {
			return stacks, nil
		}
		query.Set("marker", page[len(page)-1].ID)
	}
}

// stack asks for one stack, deleted or not.
func (s *session) stack(ctx context.Context, id string) (stack, error) {
	page, err := s.stackPage(ctx, url.Values{"id": {id}, "show_deleted": {"true"}})
	if err != nil {
		return stack{}, err
	}
	for _, st := range page {
		if st.ID == id {
			return st, nil
		}
	}
	return stack{}, fmt.Errorf("stack %q: %w", id, windsock.ErrNotFound)
}

// stackPage asks for stacks of all projects, as long as that is allowed.
func (s *session) stackPage(ctx context.Context, query url.Values) ([]stack, error) {
	var body struct {
		Stacks []stack `json:"stacks"`
	}
	global := s.global.Load()
	if global {
		query.Set("global_tenant", "true")
	}
	err := s.read(ctx, s.heat, "stacks", query, &body)
	query.Del("global_tenant")
	if global && status(err) == http.StatusForbidden {
		s.global.Store(false)
		return s.stackPage(ctx, query)
	}
	if err == nil && body.Stacks == nil {
		err = errors.New("stacks: the answer has no stacks")
	}
	return body.Stacks, err
}

// servers asks for the servers of a stack and of all that is nested in it.
func (s *session) servers(ctx context.Context, root stack) (map[string]place, error) {
	var body struct {
		Resources []resource `json:"resources"`
	}
	at := "stacks/" + url.PathEscape(root.Name) + "/" + root.ID + "/resources"
	service := *s.heat
	if root.Project != "" && root.Project != s.project.ID {
		service.Endpoint = strings.Replace(service.Endpoint, s.project.ID, root.Project, 1)
	}
	if err := s.read(ctx, &service, at, url.Values{"nested_depth": {fmt.Sprint(maxNesting)}}, &body); err != nil {
		return nil, err
	}
	if body.Resources == nil {
		return nil, errors.New(at + ": the answer has no resources")
	}
	owner := map[string]*resource{} // by nested stack
	for i := range body.Resources {
		if r := &body.Resources[i]; r.ID != "" {
			owner[r.ID] = r
		}
	}
	servers := map[string]place{}
	for i := range body.Resources {
		r := &body.Resources[i]
		if r.Type != "OS::Nova::Server" || r.ID == "" {
			continue
		}
		outer := r
		for range maxNesting {
			up := owner[outer.stack()]
			if up == nil {
				break
			}
			outer = up
		}
		servers[r.ID] = place{root.ID, outer.Name}
	}
	return servers, nil
}
