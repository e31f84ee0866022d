// Package docker is the provider of machines that run a Docker engine: containers are
// instances, Compose projects deployments. It only reads.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"windsock"
)

// Config says which engine it is, and how its containers are cut into deployments.
type Config struct {
	Host    string `json:"host"`     // unix:///path or tcp://name:port; "": what DOCKER_HOST says, or the socket of this machine
	Certs   string `json:"certs"`    // folder with ca.pem, cert.pem and key.pem, for TLS
	GroupBy string `json:"group_by"` // what makes the deployment of a container whose labels name none: host (default); none: it is not observed
}

func (c *Config) complete() error {
	c.GroupBy = cmp.Or(c.GroupBy, "host")
	if c.GroupBy != "host" && c.GroupBy != "none" {
		return windsock.Invalid("group_by", "want host or none, got %q", windsock.Clip(c.GroupBy))
	}
	scheme, _, ok := strings.Cut(c.Host, "://")
	if c.Host != "" && (!ok || scheme != "unix" && scheme != "tcp") {
		return windsock.Invalid("host", "want unix:///path or tcp://name:port, got %q", windsock.Clip(c.Host))
	}
	if c.Certs != "" && scheme != "tcp" {
		return windsock.Invalid("certs", "only a tcp:// host has any")
	}
	_, err := c.connect()
	return err
}

// connect returns a client for one look: an engine that was started anew may speak another
// version, with other certificates. Nothing is asked of it yet.
func (c *Config) connect() (*client.Client, error) {
	if c.Host == "" {
		return client.New(client.FromEnv)
	}
	options := []client.Opt{client.WithHost(c.Host)}
	if c.Certs != "" {
		file := func(name string) string { return filepath.Join(c.Certs, name) }
		options = append(options, client.WithTLSClientConfig(file("ca.pem"), file("cert.pem"), file("key.pem")))
	}
	return client.New(options...)
}

// The bounds of a listing.
const (
	pageSize = 100
	inspects = 4 // at a time
)

// Provider is one engine.
type Provider struct {
	config Config
	page   int // containers on a page of a listing

	mu    sync.Mutex
	stops map[string]stop // by container that has exited
}

// New returns the provider of an engine. Nothing is asked of that before it is observed.
func New(c Config, _ *slog.Logger) (*Provider, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	return &Provider{config: c, page: pageSize, stops: map[string]stop{}}, nil
}

// A look is what is asked of an engine at one time.
type look struct {
	*Provider
	engine *client.Client
	host   string // as it calls itself
	now    string // by its clock
}

func (p *Provider) begin(ctx context.Context) (*look, error) {
	engine, err := p.config.connect()
	if err != nil {
		return nil, err
	}
	l := &look{Provider: p, engine: engine}
	if err := l.introduce(ctx); err != nil {
		engine.Close()
		return nil, err
	}
	return l, nil
}

// introduce asks the engine who it is, and what time it has.
func (l *look) introduce(ctx context.Context) error {
	answer, err := l.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return err
	}
	if answer.Info.Name == "" || answer.Info.SystemTime == "" {
		return errors.New("the engine does not say who it is")
	}
	l.host, l.now = answer.Info.Name, answer.Info.SystemTime
	return nil
}

// Observe implements observer.Provider. The list is only asked for who there is; it is
// made for people to read, and older engines tell little else by it.
func (p *Provider) Observe(ctx context.Context, page func([]windsock.Sighting) error) error {
	l, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer l.engine.Close()
	list, err := l.engine.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return err
	}
	if list.Items == nil {
		return errors.New("the answer has no containers")
	}
	ids := make([]string, len(list.Items))
	for i := range list.Items {
		ids[i] = list.Items[i].ID
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	p.forget(ids)
	node, machine := l.node()
	if err := page([]windsock.Sighting{node, machine}); err != nil {
		return err
	}
	shown := map[string]bool{}
	for part := range slices.Chunk(ids, p.page) {
		sightings, err := l.seeAll(ctx, part)
		if err != nil {
			return err
		}
		if err := page(append(l.deployments(sightings, shown), sightings...)); err != nil {
			return err
		}
	}
	return nil
}

// seeAll looks at containers, and leaves out those that are gone by now.
func (l *look) seeAll(ctx context.Context, ids []string) ([]windsock.Sighting, error) {
	seen := make([]windsock.Sighting, len(ids))
	looks, ctx := errgroup.WithContext(ctx)
	looks.SetLimit(inspects)
	for i, id := range ids {
		looks.Go(func() (err error) {
			if seen[i], err = l.see(ctx, id); errors.Is(err, windsock.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	err := looks.Wait()
	return slices.DeleteFunc(seen, func(s windsock.Sighting) bool { return s.ID == "" }), err
}

// Check implements observer.Provider.
func (p *Provider) Check(ctx context.Context, subject windsock.Subject) (windsock.Sighting, error) {
	if subject.Kind == windsock.KindDeployment {
		return windsock.Sighting{}, fmt.Errorf("deployment %q is shown by a listing only", subject.ID)
	}
	l, err := p.begin(ctx)
	if err != nil {
		return windsock.Sighting{}, err
	}
	defer l.engine.Close()
	if host, isNode := windsock.NodeHost(subject.ID); isNode {
		if host != l.host {
			return windsock.Sighting{}, fmt.Errorf("machine %q: %w", host, windsock.ErrNotFound)
		}
		_, machine := l.node()
		return machine, nil
	}
	return l.see(ctx, subject.ID)
}

// see looks at one container.
func (l *look) see(ctx context.Context, id string) (windsock.Sighting, error) {
	answer, err := l.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return windsock.Sighting{}, fmt.Errorf("container %q: %w", id, windsock.ErrNotFound)
	}
	if err != nil {
		return windsock.Sighting{}, err
	}
	c := &answer.Container
	if c.ID != id || c.State == nil || c.Config == nil || c.HostConfig == nil {
		return windsock.Sighting{}, fmt.Errorf("container %q: the answer is of no container", id)
	}
	v := judge(c)
	if v.ask {
		if v, err = l.whoStopped(ctx, c); err != nil {
			return windsock.Sighting{}, err
		}
	}
	s := windsock.Sighting{
		Subject: windsock.Subject{Kind: windsock.KindInstance, ID: c.ID},
		State:   v.state, Raw: raw(c), Reason: v.reason, Requested: v.requested,
	}
	s.Deployment, s.Assembly = l.belongs(c.Config.Labels)
	s.Name, s.Address = strings.TrimPrefix(c.Name, "/"), address(c)
	s.Metadata = map[string]string{windsock.HostKey: l.host, "image": c.Config.Image}
	return s, nil
}

// The labels that say where a container belongs, the first that there is: our own, that of
// Compose, and that of Swarm.
var labels = [...]struct{ deployment, assembly string }{
	{"windsock.deployment", "windsock.assembly"},
	{"com.docker.compose.project", "com.docker.compose.service"},
	{"com.docker.stack.namespace", "com.docker.swarm.service.name"},
}

// oneOff labels what `docker compose run` runs beside the containers of a service.
const oneOff = "com.docker.compose.oneoff"

func (l *look) belongs(has map[string]string) (deployment, assembly string) {
	for _, label := range labels {
		name := has[label.deployment]
		if windsock.ValidID("", name) != nil || strings.Contains(name, ":") {
			continue
		}
		if strings.EqualFold(has[oneOff], "true") && label.deployment != labels[0].deployment {
			return "", ""
		}
		return name, has[label.assembly]
	}
	if l.config.GroupBy == "none" {
		return "", ""
	}
	return "host:" + l.host, ""
}

// deployments are those of containers that were not shown yet.
func (l *look) deployments(of []windsock.Sighting, shown map[string]bool) (list []windsock.Sighting) {
	for _, s := range of {
		if id := s.Deployment; id != "" && !shown[id] {
			shown[id] = true
			d := windsock.Sighting{Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: id}}
			d.Name, d.Pool, d.RunsOn = strings.TrimPrefix(id, "host:"), l.host, []string{windsock.NodeID(l.host)}
			list = append(list, d)
		}
	}
	return list
}

// node shows the machine itself. That it answers is all that its engine says of it.
func (l *look) node() (deployment, machine windsock.Sighting) {
	return windsock.Node(l.host, l.host, windsock.Running, windsock.NodeAnswers, "")
}

// address is the one that a container has in the first of its networks.
func address(c *container.InspectResponse) string {
	if c.NetworkSettings == nil {
		return ""
	}
	first, found := "", ""
	for name, n := range c.NetworkSettings.Networks {
		if n == nil || found != "" && name > first {
			continue
		}
		switch {
		case n.IPAddress.IsValid():
			first, found = name, n.IPAddress.String()
		case n.GlobalIPv6Address.IsValid():
			first, found = name, n.GlobalIPv6Address.String()
		}
	}
	return found
}
