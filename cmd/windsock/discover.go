package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"windsock"
	"windsock/observer"
)

// DiscoverCmd is "windsock discover".
type DiscoverCmd struct {
	Provider string            `help:"The kind of it or, with --config, its id there." required:"" placeholder:"KIND"`
	Set      map[string]string `help:"A setting of it, as in the file." xor:"settings" placeholder:"NAME=VALUE" mapsep:"none"`
	Config   string            `help:"YAML file that has the provider." xor:"settings" placeholder:"FILE"`
	JSON     bool              `name:"json" help:"Print it as GET /api/providers/{id}?dry_run=true answers it."`
}

// Help is shown by windsock discover --help.
func (*DiscoverCmd) Help() string {
	return `It is listed once, without a service or a database: what is printed is what observing it would declare.
Ends with 1 when the listing did not come to its end; what came until then is printed.`
}

// Run lists a provider and prints what it shows.
func (c *DiscoverCmd) Run(ctx context.Context, io stdio) error {
	source, err := c.source(slog.New(slog.NewTextHandler(io.err, nil)))
	if err != nil {
		return err
	}
	l := observer.List(ctx, source)
	if c.JSON {
		data, err := json.Marshal(l)
		if err != nil {
			return err
		}
		fmt.Fprintf(io.out, "%s\n", data)
	} else {
		printListing(io, &l)
	}
	if l.Error != "" {
		return fmt.Errorf("the listing did not come to its end: %s", l.Error)
	}
	return nil
}

// source returns the provider of the file, or makes one of the flags.
func (c *DiscoverCmd) source(log *slog.Logger) (observer.Source, error) {
	if c.Config != "" {
		config, err := LoadConfig(c.Config)
		if err != nil {
			return observer.Source{}, err
		}
		for i := range config.Providers {
			if p := &config.Providers[i]; p.ID == c.Provider && p.make != nil {
				return p.source(log), nil
			}
		}
		return observer.Source{}, fmt.Errorf("%s has no provider %q that can be listed", c.Config, c.Provider)
	}
	read := kinds[c.Provider]
	if read == nil {
		return observer.Source{}, fmt.Errorf("want one of %s, got %q", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), c.Provider)
	}
	if c.Set == nil {
		c.Set = map[string]string{} // no null
	}
	settings, err := json.Marshal(c.Set)
	if err != nil {
		return observer.Source{}, err
	}
	make, err := read(settings)
	if err != nil {
		return observer.Source{}, err
	}
	return observer.Source{ID: c.Provider, Kind: c.Provider, Provider: make(log)}, nil
}

// printListing prints a line for each thing of a listing.
func printListing(io stdio, l *windsock.Listing) {
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	for i := range l.Things {
		t := &l.Things[i]
		where := t.Pool
		if t.Kind == windsock.KindInstance {
			where = strings.TrimSuffix(t.Deployment+"/"+t.Assembly, "/")
		}
		state := cmp.Or(string(t.State), "-") // its instances make it
		if t.Reason != "" {
			state += ": " + t.Reason
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", t.Kind, t.ID, cmp.Or(t.Name, "-"), where, state)
	}
	table.Flush()
	fmt.Fprintf(io.out, "%d deployments and %d instances", l.Deployments, l.Instances)
	if more := l.Deployments + l.Instances - len(l.Things); more > 0 {
		fmt.Fprintf(io.out, ", %d of which are not printed", more)
	}
	fmt.Fprintln(io.out)
}
