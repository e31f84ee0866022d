package components

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"windsock/document"
)

func parsed(t testing.TB, source string) *Template {
	t.Helper()
	template, err := Parse(source, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return template
}

var plainly = cmp.Options{
	cmpopts.IgnoreUnexported(Template{}, Output{}), cmpopts.IgnoreFields(Resource{}, "LineOf"), cmpopts.EquateEmpty(),
}

func TestTemplateIsRead(t *testing.T) {
	got := parsed(t, `
heat_template_version: 2016-10-14
description: a shop
parameter_groups:
- {label: sizes, parameters: [count]}
parameters:
  count:
    type: number
    label: how many
    default: 2
    constraints:
    - range: {min: 1, max: 9}
      description: a few
  secret: {type: string, hidden: true, description: "the password"}
conditions:
  many: {not: {equals: [{get_param: count}, 1]}}
resources:
  web:
    type: OS::Nova::Server
    condition: many
    depends_on: [db, net]
    properties: &p
      image: debian
      enabled: yes
    metadata: {since: 2013-05-23}
    update_policy: {}
    deletion_policy: Retain
    external_id: x
    description: serves
  db:
    type: OS::Nova::Server
    depends_on: net
    properties:
      <<: *p
      image: fedora
  net: {type: OS::Neutron::Net}
outputs:
  ip:
    description: where
    value: {get_attr: [web, first_address]}
    condition: many
`)
	want := &Template{
		Format: "hot", Version: "2016-10-14", Description: "a shop",
		Parameters: []Parameter{
			{Name: "count", Type: "number", Default: int64(2), HasDefault: true, Line: 7,
				Constraints: []map[string]any{{"range": map[string]any{"min": int64(1), "max": int64(9)}, "description": "a few"}}},
			{Name: "secret", Type: "string", Hidden: true, Description: "the password", Line: 14},
		},
		Conditions: map[string]any{"many": map[string]any{"not": map[string]any{"equals": []any{map[string]any{"get_param": "count"}, int64(1)}}}},
		Resources: []Resource{
			{Name: "web", Type: "OS::Nova::Server", Condition: "many", DependsOn: []string{"db", "net"}, Line: 18,
				Properties: map[string]any{"image": "debian", "enabled": true}, Metadata: map[string]any{"since": "2013-05-23"}},
			{Name: "db", Type: "OS::Nova::Server", DependsOn: []string{"net"}, Line: 30, Properties: map[string]any{"image": "fedora", "enabled": true}},
			{Name: "net", Type: "OS::Neutron::Net", Line: 36},
		},
		Outputs: []Output{{Name: "ip", Description: "where", Value: map[string]any{"get_attr": []any{"web", "first_address"}}, Condition: "many", Line: 38}},
	}
	if diff := cmp.Diff(want, got, plainly); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	for line, path := range map[int][]string{24: {"properties", "enabled"}, 21: {"depends_on"}} {
		if got := got.Resources[0].LineOf(path...); got != line {
			t.Errorf("%v is on line %d, want %d", path, got, line)
		}
	}
}

// TestWhatIsNoTemplate has for each text the line and the reason why it is none.
func TestWhatIsNoTemplate(t *testing.T) {
	bomb := "heat_template_version: pike\na0: &a0 [x]\n"
	for i := range 30 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9))
	}
	for name, c := range map[string]struct {
		text string
		line int
		want string
	}{
		"nothing":            {"", 1, "want a template with heat_template_version, or with components"},
		"a list":             {"- a\n", 1, "want a mapping with heat_template_version or components"},
		"no version":         {"resources: {}\n", 1, "want a template with heat_template_version, or with components"},
		"an unknown version": {"\nheat_template_version: 2012-12-12\n", 2, `heat_template_version: want one of 2013-05-23, 2014-10-16, `},
		"a number":           {"heat_template_version: 1\n", 1, `got "1"`},
		"CloudFormation":     {"AWSTemplateFormatVersion: 2010-09-09\n", 1, "a template of CloudFormation is not read"},
		"broken YAML":        {"heat_template_version: pike\nresources: {a: [}\n", 2, "did not find expected node content"},
		"a custom tag":       {"heat_template_version: pike\nresources:\n  a: !Sub b\n", 3, "the tag !Sub means nothing here"},
		"a bomb of aliases":  {bomb, 2, "too large, with all aliases followed"},
		"not UTF-8":          {"heat_template_version: pike\n# \xff\n", 2, "not UTF-8 text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.text, nil)
			var at *document.Error
			if !errors.As(err, &at) || at.Line != c.line || !strings.Contains(at.Detail, c.want) {
				t.Errorf("%v; want line %d: %s", err, c.line, c.want)
			}
		})
	}
	if _, err := Parse("#"+strings.Repeat(" ", MaxSource), nil); err == nil || err.Error() != "larger than 4 MiB" {
		t.Errorf("a template of more than 4 MiB: %v", err)
	}
}

// TestBadSectionsAreFound has what Heat refuses, too, and that the rest is read.
func TestBadSectionsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		text string // from line 2 on
		want string
	}{
		"a section twice":               {"resources: {}\noutputs: {}\nresources: {}\n", "4: resources stands on line 2 already; the last counts"},
		"a resource twice":              {"resources:\n  a: {type: OS::Heat::None}\n  b: {type: OS::Heat::None}\n  a: {type: OS::Heat::None}\n", "5: a stands on line 3 already; the last counts"},
		"an unknown section":            {"resource: {}\n", "2: resource: there is no such section"},
		"a list of resources":           {"resources: [a]\n", "2: resources: want a mapping, got a list"},
		"text for parameters":           {"parameters: a\n", "2: parameters: want a mapping, got text"},
		"a parameter that is text":      {"parameters:\n  a: string\n", "3: parameter a: want a mapping with a type"},
		"a parameter of no type":        {"parameters:\n  a: {default: 1}\n", "3: parameter a: want as type one of string, number, json, comma_delimited_list, boolean"},
		"a parameter of old type":       {"parameters:\n  a:\n    type: String\n", "4: parameter a: want as type one of"},
		"an unknown key of a parameter": {"parameters:\n  a:\n    type: string\n    NoEcho: true\n", "5: parameter a: NoEcho means nothing there"},
		"a constraint of none":          {"parameters:\n  a: {type: string, constraints: [{description: x}]}\n", "3: parameter a: want as constraint one of"},
		"a constraint of two":           {"parameters:\n  a: {type: string, constraints: [{range: {min: 1}, length: {min: 1}}]}\n", "3: parameter a: want as constraint one of"},
		"an unknown constraint":         {"parameters:\n  a: {type: string, constraints: [{range: {min: 1}, size: 1}]}\n", "3: parameter a: want as constraint one of"},
		"no list of constraints":        {"parameters:\n  a: {type: string, constraints: {range: {min: 1}}}\n", "3: parameter a: want a list of constraints"},
		"a group of nothing":            {"parameter_groups:\n- label: a\n", "3: parameter_groups: want in each group a list of parameters"},
		"a group of nobody":             {"parameter_groups:\n- parameters: [a]\n", "3: parameter_groups: there is no parameter a"},
		"two groups of one":             {"parameters: {a: {type: string}}\nparameter_groups:\n- parameters: [a]\n- parameters:\n  - a\n", "6: parameter_groups: a stands in a group already"},
		"no list of groups":             {"parameter_groups: {a: b}\n", "2: parameter_groups: want a list, got a mapping"},
		"a condition of text":           {"conditions:\n  a: b\n", "3: condition a: want a function, true or false"},
		"a resource of nothing":         {"resources:\n  a:\n", "3: resource a: want a mapping with a type"},
		"a resource of no type":         {"resources:\n  a:\n    properties: {}\n", "3: resource a: want a type"},
		"a resource of a number":        {"resources:\n  a:\n    type: 5\n", "4: resource a: want a type"},
		"an unknown key":                {"resources:\n  a:\n    type: OS::Heat::None\n    Properties: {}\n", "5: resource a: Properties means nothing there"},
		"a list of properties":          {"resources:\n  a:\n    type: OS::Heat::None\n    properties: [b]\n", "5: resource a: want a mapping as properties, got a list"},
		"nothing as metadata":           {"resources:\n  a:\n    type: OS::Heat::None\n    metadata:\n", "5: resource a: want a mapping as metadata, got nothing"},
		"a number to depend on":         {"resources:\n  a:\n    type: OS::Heat::None\n    depends_on: [1]\n", "5: resource a: want as depends_on a name, or a list of names"},
		"a list as condition":           {"resources:\n  a:\n    type: OS::Heat::None\n    condition: [b]\n", "5: resource a: want as condition a name, a function, true or false; got a list"},
		"an unknown policy":             {"resources:\n  a:\n    type: OS::Heat::None\n    deletion_policy: burn\n", `5: resource a: want delete, retain or snapshot as deletion_policy, got "burn"`},
		"an output of nothing":          {"outputs:\n  a: {description: b}\n", "3: output a: want a mapping with a value"},
		"an unknown key of an output":   {"outputs:\n  a:\n    value: 1\n    type: string\n", "5: output a: type means nothing there"},
		"a number as condition":         {"outputs:\n  a:\n    value: 1\n    condition: 5\n", "5: output a: want as condition a name, a function, true or false; got the number 5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := parsed(t, "heat_template_version: 2018-08-31\n"+c.text).Check()
			for _, f := range s.Findings {
				if got := fmt.Sprintf("%d: %s", f.Line, f.Text); f.Severity == "error" && strings.HasPrefix(got, c.want) {
					return
				}
			}
			t.Errorf("%s\nfound %+v, want %s", c.text, s.Findings, c.want)
		})
	}
}

// FuzzTemplate checks that whatever is sent is read or refused, and that what is read can
// be checked and drawn.
func FuzzTemplate(f *testing.F) {
	f.Add(base)
	f.Add(short)
	f.Add("heat_template_version: pike\nresources: {a: {type: a.yaml, depends_on: [b, a]}, b: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: a.yaml}}}}\n")
	f.Add(`{"heat_template_version": "rocky", "conditions": {"a": {"or": ["a", {"not": "b"}]}}, "outputs": {"x": {"value": {"repeat": {"for_each": {"%": [1]}, "template": {"get_attr": ["%"]}}}}}}`)
	f.Add("components: {a: {config: {CREATE: x}, inputs: {b: {get_attr: [a, b]}}}}\ninstances: {s: {components: [a, {component: a}]}, t: {components: a}}\n")
	f.Fuzz(func(t *testing.T, source string) {
		template, err := Parse(source, map[string]string{"a.yaml": source, "b.sh": "x"})
		if err != nil {
			return
		}
		s := template.Check()
		for _, finding := range s.Findings {
			if finding.Text == "" || finding.Severity == "" || finding.Line < 1 {
				t.Errorf("%q: a finding without text, severity or line: %+v", source, finding)
			}
		}
		template.Mermaid()
		template.DOT()
	})
}

// chain is a template of n components, each of which takes what the one before gives;
// they stand on ten servers.
func chain(n int) string {
	var b strings.Builder
	b.WriteString("heat_template_version: rocky\nresources:\n  config:\n    type: OS::Heat::SoftwareConfig\n    properties: {group: script, config: x, inputs: [{name: i}], outputs: [{name: o}]}\n")
	for i := range 10 {
		fmt.Fprintf(&b, "  s%d: {type: OS::Nova::Server}\n", i)
	}
	for i := range n {
		fmt.Fprintf(&b, "  c%d:\n    type: OS::Heat::SoftwareDeployment\n    properties:\n      config: {get_resource: config}\n      server: {get_resource: s%d}\n      input_values: {i: {get_attr: [c%d, o]}}\n", i, i%10, max(i-1, 0))
	}
	return strings.Replace(b.String(), "{i: {get_attr: [c0, o]}}", "{i: first}", 1)
}

func TestLongChainIsChecked(t *testing.T) {
	s := parsed(t, chain(9_000)).Check()
	if len(s.Findings) != 0 || len(s.Components) != 9_000 || s.Depth != 9_001 || s.Edges != 3*9_000-1 {
		t.Errorf("%d components, depth %d, %d edges, findings %v", len(s.Components), s.Depth, s.Edges, s.Findings)
	}
}

func BenchmarkCheck10000(b *testing.B) {
	source := chain(10_000)
	doc, err := document.Parse("", []byte(source))
	if err != nil {
		b.Fatal(err)
	}
	line, err := doc.JSON()
	if err != nil {
		b.Fatal(err)
	}
	for name, source := range map[string]string{"yaml": source, "json": string(line)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(source)))
			b.ReportAllocs()
			for b.Loop() {
				template, err := Parse(source, nil)
				if err != nil {
					b.Fatal(err)
				}
				if s := template.Check(); len(s.Components) != 10_000 {
					b.Fatal(len(s.Components))
				}
			}
		})
	}
}
