// Package libvirt is the provider of hosts that run libvirt: domains are instances. It
// only reads, so that the socket everybody may use is enough.
package libvirt

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"

	"windsock"
)

// Namespace is that of the element in a domain's metadata that says where it belongs.
const Namespace = "urn:windsock"

// Config says which host it is, and how its domains are cut into deployments.
type Config struct {
	URI         string `json:"uri"`          // as virsh has it: qemu:///system (default), …?socket=/path, qemu+tcp://host/system, qemu+tls://host/system?pkipath=/path
	NamePattern string `json:"name_pattern"` // a regular expression whose groups "deployment" and "assembly" are taken from the names of domains without metadata
	GroupBy     string `json:"group_by"`     // what makes the deployment of all others: host (default); none: they are not observed
}

// Provider is one host.
type Provider struct {
	uri     *url.URL
	pattern *regexp.Regexp
	groupBy string
	page    int // domains on a page of a listing
}

const pageSize = 100

// New returns the provider of a host. Nothing is asked of that before it is observed.
func New(c Config, _ *slog.Logger) (*Provider, error) {
	p := &Provider{groupBy: cmp.Or(c.GroupBy, "host"), page: pageSize}
	if p.groupBy != "host" && p.groupBy != "none" {
		return nil, windsock.Invalid("group_by", "want host or none, got %q", windsock.Clip(c.GroupBy))
	}
	var err error
	if p.uri, err = parseURI(cmp.Or(c.URI, "qemu:///system")); err != nil {
		return nil, windsock.Invalid("uri", "%v", err)
	}
	if p.pattern, err = regexp.Compile(c.NamePattern); err != nil {
		return nil, windsock.Invalid("name_pattern", "%v", err)
	}
	if c.NamePattern != "" && p.pattern.SubexpIndex("deployment") < 0 {
		return nil, windsock.Invalid("name_pattern", "want a group (?P<deployment>…)")
	}
	return p, nil
}

// A look is what is asked of a host at one time, over a connection of its own.
type look struct {
	*Provider
	*libvirt.Libvirt
	host string // as it calls itself
}

// begin connects to the host. The connection ends with ctx.
func (p *Provider) begin(ctx context.Context) (*look, error) {
	l := &look{Provider: p, Libvirt: libvirt.NewWithDialer(dialer{ctx, p.uri})}
	if err := l.ConnectToURI(libvirt.RemoteURI(p.uri)); err != nil {
		return nil, because(ctx, err)
	}
	var err error
	if l.host, err = l.ConnectGetHostname(); err != nil {
		return nil, because(ctx, err)
	}
	if l.host == "" {
		return nil, errors.New("the host does not say what it is called")
	}
	return l, nil
}

// because is why something went wrong: that ctx ended if it did, as that cuts the connection.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Observe implements observer.Provider.
func (p *Provider) Observe(ctx context.Context, page func([]windsock.Sighting) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := p.begin(ctx)
	if err != nil {
		return err
	}
	domains, n, err := l.ConnectListAllDomains(1, 0)
	if err != nil {
		return because(ctx, err)
	}
	if int(n) != len(domains) {
		return fmt.Errorf("the host has %d domains and shows %d", n, len(domains))
	}
	node, machine := l.node()
	if err := page([]windsock.Sighting{node, machine}); err != nil {
		return err
	}
	seen, shown := map[libvirt.UUID]bool{}, map[string]bool{}
	domains = slices.DeleteFunc(domains, func(d libvirt.Domain) bool {
		again := seen[d.UUID]
		seen[d.UUID] = true
		return again
	})
	for part := range slices.Chunk(domains, p.page) {
		var deployments, sightings []windsock.Sighting
		for _, d := range part {
			s, err := l.see(d)
			if libvirt.IsNotFound(err) { // it went since
				continue
			}
			if err != nil {
				return because(ctx, err)
			}
			if id := s.Deployment; id != "" && !shown[id] {
				shown[id] = true
				deployments = append(deployments, l.deployment(id))
			}
			sightings = append(sightings, s)
		}
		if err := page(append(deployments, sightings...)); err != nil {
			return err
		}
	}
	return nil
}

// Check implements observer.Provider.
func (p *Provider) Check(ctx context.Context, subject windsock.Subject) (windsock.Sighting, error) {
	if subject.Kind == windsock.KindDeployment {
		return windsock.Sighting{}, fmt.Errorf("deployment %q is shown by a listing only", subject.ID)
	}
	missing := fmt.Errorf("domain %q: %w", subject.ID, windsock.ErrNotFound)
	uuid, ok := parseUUID(subject.ID)
	host, isNode := windsock.NodeHost(subject.ID)
	if !ok && !isNode {
		return windsock.Sighting{}, missing
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := p.begin(ctx)
	if err != nil {
		return windsock.Sighting{}, err
	}
	if isNode {
		if host != l.host {
			return windsock.Sighting{}, missing
		}
		_, machine := l.node()
		return machine, nil
	}
	d, err := l.DomainLookupByUUID(uuid)
	var s windsock.Sighting
	if err == nil {
		if d.UUID != uuid {
			return s, errors.New("the answer is of another domain")
		}
		s, err = l.see(d)
	}
	if libvirt.IsNotFound(err) {
		return s, missing
	}
	return s, because(ctx, err)
}

// see looks at one domain.
func (l *look) see(d libvirt.Domain) (windsock.Sighting, error) {
	state, reason, err := l.DomainGetState(d, 0)
	if err != nil {
		return windsock.Sighting{}, err
	}
	s := windsock.Sighting{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: formatUUID(d.UUID)}}
	judge(state, reason, &s)
	s.Name, s.Metadata = d.Name, map[string]string{windsock.HostKey: l.host}
	s.Deployment, s.Assembly, err = l.belongs(d)
	return s, err
}

// belongs returns where a domain belongs, by its metadata or by its name.
func (l *look) belongs(d libvirt.Domain) (deployment, assembly string, err error) {
	text, err := l.DomainGetMetadata(d, int32(libvirt.DomainMetadataElement), libvirt.OptString{Namespace}, 0)
	var refused libvirt.Error
	if errors.As(err, &refused) && refused.Code == uint32(libvirt.ErrNoDomainMetadata) {
		text, err = "", nil
	}
	if err != nil {
		return "", "", err
	}
	var element struct {
		Deployment string `xml:"deployment,attr"`
		Assembly   string `xml:"assembly,attr"`
	}
	if xml.Unmarshal([]byte(text), &element) == nil && isName(element.Deployment) {
		return element.Deployment, element.Assembly, nil
	}
	if m := l.pattern.FindStringSubmatch(d.Name); m != nil {
		group := func(name string) string {
			if i := l.pattern.SubexpIndex(name); i >= 0 {
				return m[i]
			}
			return ""
		}
		if name := group("deployment"); isName(name) {
			return name, group("assembly"), nil
		}
	}
	if l.groupBy == "none" {
		return "", "", nil
	}
	return "host:" + l.host, "", nil
}

// isName reports whether a name can be the id of a deployment, and is not that of a host.
func isName(name string) bool {
	return windsock.ValidID("", name) == nil && !strings.Contains(name, ":")
}

// deployment describes one. It has no state but that of its domains.
func (l *look) deployment(id string) windsock.Sighting {
	s := windsock.Sighting{Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: id}}
	s.Name, s.Pool, s.RunsOn = strings.TrimPrefix(id, "host:"), l.host, []string{windsock.NodeID(l.host)}
	return s
}

// node shows the host itself. That it answers is all that libvirt says of it.
func (l *look) node() (deployment, machine windsock.Sighting) {
	return windsock.Node(l.host, l.host, windsock.Running, windsock.NodeAnswers, "")
}

// Watch implements observer.Watcher.
func (p *Provider) Watch(ctx context.Context, listening func(), hint func(windsock.Subject)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := p.begin(ctx)
	if err != nil {
		return err
	}
	events, err := l.LifecycleEvents(ctx)
	if err != nil {
		return because(ctx, err)
	}
	listening()
	for e := range events {
		hint(windsock.Subject{Kind: windsock.KindInstance, ID: formatUUID(e.Dom.UUID)})
	}
	return because(ctx, errors.New("the connection to the host is lost"))
}

func formatUUID(u libvirt.UUID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func parseUUID(s string) (u libvirt.UUID, ok bool) {
	n, err := hex.Decode(u[:], []byte(strings.ReplaceAll(s, "-", "")))
	return u, err == nil && n == len(u)
}
