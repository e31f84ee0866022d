package main

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"windsock/document"
)

// ReportPacemakerCmd is "windsock report pacemaker".
type ReportPacemakerCmd struct {
	sending
	CrmMon bool   `name:"crm-mon" help:"Report what crm_mon shows of all resources and nodes, which makes up for alerts that were lost."`
	File   string `arg:"" optional:"" help:"Of crm_mon --output-as=xml; - is standard input (default: what crm_mon prints now)."`
}

// programTime is how long a program of the cluster may take.
const programTime = 10 * time.Second

// Run reports the alert for which Pacemaker called it, or all that crm_mon shows.
func (c *ReportPacemakerCmd) Run(ctx context.Context, io stdio) error {
	if c.CrmMon {
		shown, err := c.shown(ctx)
		if err != nil {
			return err
		}
		body, err := parseCrmMon(shown)
		if err != nil {
			return err
		}
		body["at"] = now()
		return c.report(ctx, io, "crm_mon", reportPath("pacemaker"), body, true)
	}
	alert := alertOf(os.Environ())
	if alert["CRM_alert_kind"] == "" {
		return errors.New("this is no alert: Pacemaker sets CRM_alert_kind for its agents")
	}
	if alert["CRM_alert_kind"] == "node" {
		if quorum := c.quorum(ctx); quorum != "" {
			alert["CRM_alert_quorum"] = quorum
		}
	}
	subject := alert["CRM_alert_kind"] + " " + cmp.Or(alert["CRM_alert_rsc"], alert["CRM_alert_node"])
	return c.report(ctx, io, subject, reportPath("pacemaker"), alert, false)
}

// alertOf is what the environment says of an alert, but for to whom it goes.
func alertOf(environ []string) map[string]string {
	alert := map[string]string{}
	for _, set := range environ {
		if name, value, _ := strings.Cut(set, "="); strings.HasPrefix(name, "CRM_alert_") && name != "CRM_alert_recipient" && value != "" {
			alert[name] = value
		}
	}
	return alert
}

// quorum is "1" or "0", or "" when that cannot be told.
func (c *ReportPacemakerCmd) quorum(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, max(c.Timeout/2, time.Second))
	defer cancel()
	out, err := exec.CommandContext(ctx, "crm_node", "--quorum").Output()
	if said := strings.TrimSpace(string(out)); err == nil && (said == "0" || said == "1") {
		return said
	}
	return ""
}

func (c *ReportPacemakerCmd) shown(ctx context.Context) ([]byte, error) {
	switch c.File {
	case "":
		ctx, cancel := context.WithTimeout(ctx, programTime)
		defer cancel()
		out, err := exec.CommandContext(ctx, "crm_mon", "--one-shot", "--output-as=xml", "--inactive").Output()
		if err != nil {
			return nil, fmt.Errorf("crm_mon: %w", err)
		}
		return out, nil
	case "-":
		return document.ReadFile(os.Stdin.Name(), spoolBytes)
	}
	return document.ReadFile(c.File, spoolBytes)
}

// shownAttributes are those of crm_mon that the rule knows; they change between releases.
var shownAttributes = []string{
	"role", "target_role", "active", "orphaned", "removed", "blocked", "managed", "failed", "pending",
	"online", "standby", "maintenance", "unclean", "shutdown",
}

// parseCrmMon reads the XML of crm_mon: resources first, as what is said of one counts more
// than what its node is. The instances of a clone are one resource: one that failed has the
// word, then one that runs.
func parseCrmMon(text []byte) (map[string]any, error) {
	resources, nodes := map[string]map[string]string{}, map[string]map[string]string{}
	body := map[string]any{}
	var path []string
	known := false
	in := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		token, err := in.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("what crm_mon prints is no XML: %w", err)
		}
		switch t := token.(type) {
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.StartElement:
			attr := map[string]string{}
			for _, a := range t.Attr {
				attr[a.Name.Local] = a.Value
			}
			path = append(path, t.Name.Local)
			switch {
			case t.Name.Local == "current_dc" && attr["with_quorum"] != "":
				body["with_quorum"] = attr["with_quorum"]
			case t.Name.Local == "resource" && slices.Contains(path, "resources") && attr["id"] != "":
				if it := only(attr, "resource", attr["id"]); says(it) > says(resources[attr["id"]]) {
					resources[attr["id"]] = it
				}
			case t.Name.Local == "node" && len(path) == 3 && path[1] == "nodes":
				nodes[attr["name"]] = only(attr, "node", attr["name"])
			case t.Name.Local == "status" && len(path) == 2:
				if known = attr["code"] == "0"; !known {
					return nil, fmt.Errorf("crm_mon: %s", attr["message"])
				}
			}
		}
	}
	if !known {
		return nil, errors.New("this is not what crm_mon --output-as=xml prints")
	}
	items := []map[string]string{}
	for _, of := range []map[string]map[string]string{resources, nodes} {
		for _, id := range slices.Sorted(maps.Keys(of)) {
			items = append(items, of[id])
		}
	}
	body["items"] = items
	return body, nil
}

func only(attr map[string]string, kind, id string) map[string]string {
	it := map[string]string{kind: id}
	for _, name := range shownAttributes {
		if attr[name] != "" {
			it[name] = attr[name]
		}
	}
	return it
}

// says orders what is shown of the instances of a clone.
func says(it map[string]string) int {
	switch {
	case it == nil:
		return 0
	case it["failed"] == "true":
		return 3
	case it["role"] != "Stopped":
		return 2
	}
	return 1
}
