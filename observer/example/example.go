// Package example is a provider to copy: of an inventory of machines that is asked over
// HTTP. It is not built into windsock; docs/provider.md goes through it.
package example

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"windsock"
)

// Config is what the configuration file says of a provider of this kind.
type Config struct {
	URL string `json:"url"` // of the inventory
}

// Provider is one inventory.
type Provider struct{ url string }

// New returns the provider of an inventory. Nothing is asked of it yet.
func New(c Config, _ *slog.Logger) (*Provider, error) {
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, windsock.Invalid("url", "want a URL such as https://inventory.example")
	}
	return &Provider{url: strings.TrimSuffix(c.URL, "/")}, nil
}

// Words implements observer.Provider.
func (p *Provider) Words() map[string]windsock.State {
	return map[string]windsock.State{
		"booting": windsock.Starting,
		"up":      windsock.Running,
		"off":     windsock.Stopped,
		"dead":    windsock.Failed,
	}
}

// A machine is one as the inventory shows it.
type machine struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Group string `json:"group"`
	Power string `json:"power"`
	Fault string `json:"fault"`
	By    string `json:"by"` // who switched it off, if somebody did
}

func (p *Provider) sighting(m machine) windsock.Sighting {
	s := windsock.Sighting{
		Subject: windsock.Subject{Kind: windsock.KindInstance, ID: m.ID},
		State:   cmp.Or(p.Words()[m.Power], windsock.Unknown),
		Raw:     m.Power, Reason: m.Fault, Requested: m.By != "",
	}
	s.Name, s.Deployment = m.Name, m.Group
	return s
}

// Observe implements observer.Provider.
func (p *Provider) Observe(ctx context.Context, page func([]windsock.Sighting) error) error {
	shown := map[windsock.Subject]bool{}
	for after := ""; ; {
		var list struct {
			Machines []machine `json:"machines"`
			Next     string    `json:"next"` // the id to go on after; none: that was all
		}
		if err := p.get(ctx, "/machines?after="+url.QueryEscape(after), &list); err != nil {
			return err
		}
		if list.Machines == nil {
			return errors.New("the answer is no list of machines")
		}
		var sightings []windsock.Sighting
		show := func(s windsock.Sighting) {
			if !shown[s.Subject] {
				shown[s.Subject] = true
				sightings = append(sightings, s)
			}
		}
		for _, m := range list.Machines {
			if m.ID == "" || m.Group == "" {
				return errors.New("the list has a machine without id or group")
			}
			show(windsock.Sighting{Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: m.Group}})
			show(p.sighting(m))
		}
		if err := page(sightings); err != nil {
			return err
		}
		switch {
		case list.Next == "":
			return nil
		case list.Next <= after:
			return errors.New("the list goes back")
		}
		after = list.Next
	}
}

// Check implements observer.Provider.
func (p *Provider) Check(ctx context.Context, s windsock.Subject) (windsock.Sighting, error) {
	if s.Kind != windsock.KindInstance {
		return windsock.Sighting{}, fmt.Errorf("group %q is shown by a listing only", s.ID)
	}
	var m machine
	if err := p.get(ctx, "/machines/"+url.PathEscape(s.ID), &m); err != nil {
		return windsock.Sighting{}, err
	}
	if m.ID != s.ID || m.Group == "" {
		return windsock.Sighting{}, errors.New("the answer is of no such machine")
	}
	return p.sighting(m), nil
}

// most is how large an answer may be.
const most = 16 << 20

// get asks the inventory. That a machine is not there is certain only if the inventory
// itself says so; a proxy's 404 has another body.
func (p *Provider) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, most))
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound && strings.TrimSpace(string(body)) == `{"error":"no such machine"}`:
		return fmt.Errorf("%s: %w", path, windsock.ErrNotFound)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.Unmarshal(body, into)
}
