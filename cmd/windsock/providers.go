package main

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"windsock"
	"windsock/document"
	"windsock/observer"
	"windsock/observer/docker"
	"windsock/observer/libvirt"
	"windsock/observer/openstack"
)

// kinds are the providers there are. To add one takes a line.
var kinds = map[string]kind{
	"docker":    kindOf(docker.New),
	"libvirt":   kindOf(libvirt.New),
	"openstack": kindOf(openstack.New),
}

// A kind reads what the file says of a provider, beside what it says of any, and returns
// what makes it.
type kind func(settings jsontext.Value) (maker, error)

type maker func(*slog.Logger) observer.Provider

// kindOf is the kind of the providers that are made so. Nothing is asked of them yet.
func kindOf[C any, P observer.Provider](make func(C, *slog.Logger) (P, error)) kind {
	return func(settings jsontext.Value) (maker, error) {
		var c C
		if err := json.Unmarshal(settings, &c, json.RejectUnknownMembers(true)); err != nil {
			return nil, err
		}
		if _, err := make(c, slog.New(slog.DiscardHandler)); err != nil {
			return nil, err
		}
		return func(log *slog.Logger) observer.Provider {
			p, _ := make(c, log) // just now it could be
			return p
		}, nil
	}
}

// ProviderConfig is a provider that the file names.
type ProviderConfig struct {
	ID    string
	Kind  string
	Every time.Duration
	Full  time.Duration
	make  maker // nil: of the static one, which is always there

	SelfCheck *windsock.Probe
}

// observed has the observer observe the providers of the file.
func observed(o *observer.Observer, providers []ProviderConfig, log *slog.Logger) {
	o.SelfChecks = map[string]windsock.Probe{}
	for i := range providers {
		c := &providers[i]
		if c.make != nil {
			o.Providers = append(o.Providers, c.source(log))
		}
		if c.SelfCheck != nil {
			o.SelfChecks[c.ID] = *c.SelfCheck
		}
	}
}

// source makes the provider.
func (c *ProviderConfig) source(log *slog.Logger) observer.Source {
	return observer.Source{ID: c.ID, Kind: c.Kind, Every: c.Every, Full: c.Full, Provider: c.make(log.With("provider", c.ID))}
}

// fileProvider is a provider as it stands in the file.
type fileProvider struct {
	ID       string            `json:"id"`
	Kind     string            `json:"kind"`
	Interval windsock.Duration `json:"interval"`
	Full     windsock.Duration `json:"full"`

	SelfCheck *windsock.Probe `json:"self_check"` // while it fails, probes that fail say nothing

	Settings jsontext.Value `json:",embed"` // of its kind
}

// providers checks what the file says of providers.
func (f *fileConfig) providers(doc *document.Document) (list []ProviderConfig, err error) {
	for i := range f.Providers {
		p := &f.Providers[i]
		at := jsontext.Pointer("/providers").AppendToken(strconv.Itoa(i))
		if err := p.check(); err != nil {
			return nil, locate(doc, at, err)
		}
		if (p.ID == static) != (p.Kind == static) || slices.ContainsFunc(list, func(other ProviderConfig) bool { return other.ID == p.ID }) {
			return nil, locate(doc, at, windsock.Invalid("id", "%q is taken", p.ID))
		}
		if p.Kind == static {
			if p.Interval != 0 || p.Full != 0 || len(p.Settings) > 0 {
				return nil, locate(doc, at, windsock.Invalid("kind", "of static only a self_check can be set"))
			}
			list = append(list, ProviderConfig{ID: p.ID, Kind: p.Kind, SelfCheck: p.SelfCheck})
			continue
		}
		make, err := kinds[p.Kind](jsontext.Value(cmp.Or(string(p.Settings), "{}")))
		var wrong *json.SemanticError
		if errors.As(err, &wrong) {
			return nil, explain(doc, at, err)
		}
		if err != nil {
			return nil, locate(doc, at, err)
		}
		list = append(list, ProviderConfig{ID: p.ID, Kind: p.Kind, Every: time.Duration(p.Interval), Full: time.Duration(p.Full), make: make, SelfCheck: p.SelfCheck})
	}
	return list, nil
}

// static is the provider of what is declared without one. It is always there.
const static = "static"

func (p *fileProvider) check() error {
	if p.SelfCheck != nil {
		err := p.SelfCheck.Complete()
		var field *windsock.FieldError
		if errors.As(err, &field) {
			field.Field = strings.Replace(field.Field, "probe", "self_check", 1)
		}
		if err != nil {
			return err
		}
	}
	if err := windsock.ValidID("id", p.ID); err != nil {
		return err
	}
	if kinds[p.Kind] == nil && p.Kind != static {
		return windsock.Invalid("kind", "want one of %s; got %q", strings.Join(append(slices.Sorted(maps.Keys(kinds)), static), ", "), windsock.Clip(p.Kind))
	}
	if p.Interval != 0 && p.Interval < windsock.Duration(time.Second) {
		return windsock.Invalid("interval", "want at least a second, got %s", time.Duration(p.Interval))
	}
	if p.Full != 0 && p.Full < p.Interval {
		return windsock.Invalid("full", "want at least the interval, got %s", time.Duration(p.Full))
	}
	return nil
}
