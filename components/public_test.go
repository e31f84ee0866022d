package components

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"windsock"
)

// public returns the folder of public templates, which are read where they are: it is
// named by WINDSOCK_TEST_HOT, or stands beside the project.
func public(t *testing.T) string {
	dir := cmp.Or(os.Getenv("WINDSOCK_TEST_HOT"), filepath.FromSlash("../../shared/fixtures/hot"))
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("there are no public templates; name their folder in WINDSOCK_TEST_HOT: %v", err)
	}
	return dir
}

// counts are what is in a template; each mention of a resource is counted.
type counts struct{ resources, deployments, conditions, attributes, refers, depends, depth int }

func TestTemplatesAreReadWithoutLoss(t *testing.T) {
	compare(t, "testdata", map[string]counts{
		"cluster.yaml":      {11, 3, 2, 3, 7, 2, 5},
		"key-exchange.yaml": {8, 4, 0, 2, 8, 0, 3},
		"shop.yaml":         {8, 3, 0, 2, 6, 0, 3},
	})
}

// TestPublicTemplatesAreReadWithoutLoss compares with what SOURCES.md beside them counted
// by other means.
func TestPublicTemplatesAreReadWithoutLoss(t *testing.T) {
	compare(t, public(t), map[string]counts{
		"heat-server-signal.yaml":                   {10, 0, 2, 2, 8, 0, 4}, // one stands within a get_attr, where SOURCES.md did not look
		"heat-server-software-config.yaml":          {11, 4, 0, 1, 9, 0, 3},
		"hk-kubecluster.yaml":                       {30, 0, 2, 4, 28, 4, 8},
		"ht-ansible.yaml":                           {5, 2, 0, 0, 5, 0, 3},
		"ht-deploy-sequence.yaml":                   {6, 3, 0, 1, 6, 1, 4},
		"ht-deployment-group.yaml":                  {4, 1, 0, 0, 3, 0, 2},
		"ht-native-waitcondition.yaml":              {3, 0, 2, 1, 1, 0, 2},
		"ht-resource-group-index-lookup.yaml":       {1, 0, 0, 0, 0, 0, 1},
		"ht-salt.yaml":                              {7, 3, 0, 0, 7, 0, 3},
		"ht-script.yaml":                            {5, 2, 0, 0, 5, 0, 3},
		"ht-server-with-volumes-group.yaml":         {2, 0, 0, 0, 1, 0, 2},
		"ht-ssh-copy-id.yaml":                       {9, 3, 0, 2, 8, 0, 5},
		"ht-structured.yaml":                        {5, 2, 0, 0, 5, 0, 3},
		"ht-sw-component.yaml":                      {3, 1, 0, 0, 2, 0, 2},
		"hx-exchange-public-ssh-key.yaml":           {6, 2, 0, 1, 4, 1, 3},
		"hx-nodejs-mongodb-two-instances.yaml":      {16, 7, 0, 2, 14, 6, 7},
		"hx-script-types.yaml":                      {13, 6, 0, 0, 12, 4, 4},
		"hx-software-component-multiple-hosts.yaml": {6, 2, 0, 0, 6, 1, 3},
		"tht-per-node.yaml":                         {2, 1, 0, 0, 1, 0, 2},
	})
}

// compare reads the templates of a folder, and says what is in each.
func compare(t *testing.T, dir string, want map[string]counts) {
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "file\tresources\tcomponents\tedges\tdepth\tnot understood")
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) != len(want) {
		t.Errorf("%d templates, want %d: %v", len(files), len(want), err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		template, err := Parse(string(source), nil)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		s, g := template.Check(), template.graph()
		got := counts{resources: s.Resources, attributes: g.named.attribute, refers: g.named.resource, depends: g.named.depends, depth: s.Depth}
		for _, r := range template.Resources {
			switch TypeOf(r.Type).Class {
			case Deployment, DeploymentGroup:
				got.deployments++
			case Condition, Handle:
				got.conditions++
			}
		}
		if got != want[filepath.Base(file)] {
			t.Errorf("%s: %+v, want %+v", filepath.Base(file), got, want[filepath.Base(file)])
		}
		var others []string
		for _, f := range s.Findings {
			switch f.Severity {
			case windsock.SeverityError:
				t.Errorf("%s:%d: %s: %s", filepath.Base(file), f.Line, f.Resource, f.Text)
			case windsock.SeverityWarning:
				t.Logf("%s:%d: %s: %s", filepath.Base(file), f.Line, f.Resource, f.Text)
			case windsock.SeverityNote:
				others = append(others, strings.TrimSuffix(f.Text, " is left to the cloud, with all that is in it"))
			}
		}
		slices.Sort(others)
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%s\n", filepath.Base(file), s.Resources, len(s.Components), s.Edges, s.Depth, strings.Join(slices.Compact(others), ", "))
	}
	out.Flush()
	t.Logf("\n%s", &table)
}
