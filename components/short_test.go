package components

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// short is a deployable in the shorter form, with all that it has.
const short = `description: a shop
parameters:
  port: {type: number, default: 5432}
components:
  db:
    config: |
      #!/bin/sh
      echo 10.0.0.1:$port > $heat_outputs_path.address
    inputs: {port: {get_param: port}}
    outputs: [address]
    timeout: 10m
    retries: 2
  web:
    group: ansible
    config: {CREATE: {get_file: web.yaml}, DELETE: stop}
    inputs: [db, {name: size, type: Number, default: 1}]
    depends_on: db
  agent:
    config:
      interval: {get_input: interval}
    inputs: [interval]
    options: {quiet: true}
instances:
  serverA:
    components:
    - db
    - {component: agent, inputs: {interval: 5}, timeout: 90}
  serverB:
    depends_on: serverA
    metadata: {rack: 7}
    components:
    - component: web
      name: front
      inputs: {db: {get_attr: [db, address]}}
      depends_on: [agent]
    - component: agent
      inputs:
        interval: 9
outputs:
  address: {value: {get_attr: [db, address]}}
`

func TestShorterFormIsRead(t *testing.T) {
	got := parsed(t, short)
	get := func(fn string, args ...any) map[string]any {
		if len(args) == 1 {
			return map[string]any{fn: args[0]}
		}
		return map[string]any{fn: args}
	}
	object := func(pairs ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	}
	deployment := func(name, typ, config, server string, inputs map[string]any, line int, more Resource) Resource {
		more.Name, more.Type, more.Line = name, typ, line
		more.Properties = object("config", get("get_resource", config), "server", get("get_resource", server), "input_values", inputs)
		return more
	}
	want := &Template{
		Format: "components", Description: "a shop",
		Parameters: []Parameter{{Name: "port", Type: "number", Default: int64(5432), HasDefault: true, Line: 3}},
		Resources: []Resource{
			{Name: "db.config", Type: "OS::Heat::SoftwareConfig", Line: 5, Properties: object("group", "script", "inputs", []any{object("name", "port")},
				"outputs", []any{object("name", "address")}, "config", "#!/bin/sh\necho 10.0.0.1:$port > $heat_outputs_path.address\n")},
			{Name: "web.config", Type: "OS::Heat::SoftwareComponent", Line: 13, Properties: object(
				"configs", []any{
					object("actions", []any{"CREATE"}, "config", get("get_file", "web.yaml"), "tool", "ansible"),
					object("actions", []any{"DELETE"}, "config", "stop", "tool", "ansible"),
				}, "inputs", []any{object("name", "db"), object("name", "size", "type", "Number", "default", int64(1))})},
			{Name: "agent.config", Type: "OS::Heat::StructuredConfig", Line: 18, Properties: object("group", "script",
				"config", object("interval", get("get_input", "interval")), "inputs", []any{object("name", "interval")}, "options", object("quiet", true))},
			{Name: "serverA", Type: "OS::Nova::Server", Line: 24},
			{Name: "serverB", Type: "OS::Nova::Server", Line: 28, DependsOn: []string{"serverA"}, Metadata: object("rack", int64(7))},
			deployment("db", "OS::Heat::SoftwareDeployment", "db.config", "serverA", object("port", get("get_param", "port")), 26,
				Resource{Metadata: object("windsock", object("timeout", int64(600), "retries", int64(2)))}),
			deployment("serverA.agent", "OS::Heat::StructuredDeployment", "agent.config", "serverA", object("interval", int64(5)), 27,
				Resource{Metadata: object("windsock", object("timeout", int64(90)))}),
			deployment("front", "OS::Heat::SoftwareDeployment", "web.config", "serverB", object("db", get("get_attr", "db", "address")), 32,
				Resource{DependsOn: []string{"db", "serverA.agent", "serverB.agent"}}),
			deployment("serverB.agent", "OS::Heat::StructuredDeployment", "agent.config", "serverB", object("interval", int64(9)), 36, Resource{}),
		},
		Outputs: []Output{{Name: "address", Value: get("get_attr", "db", "address"), Line: 40}},
	}
	if diff := cmp.Diff(want, got, plainly); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	var lines []string
	for _, r := range got.Resources {
		lines = append(lines, fmt.Sprint(r.Name, " ", r.LineOf("properties", "config"), " ", r.LineOf("properties", "input_values", "port"), " ",
			r.LineOf("properties", "input_values", "interval"), " ", r.LineOf("depends_on")))
	}
	if diff := cmp.Diff([]string{
		"db.config 6 5 5 5", "web.config 15 13 13 13", "agent.config 19 18 18 18", "serverA 24 24 24 24", "serverB 28 28 28 29",
		"db 26 9 9 5", "serverA.agent 27 21 27 18", "front 32 16 16 35", "serverB.agent 36 21 38 18",
	}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	s := got.Check()
	if diff := cmp.Diff([]string{"db", "serverA.agent", "front", "serverB.agent"}, s.Components); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	for _, f := range s.Findings {
		if f.Text != "get_file: web.yaml was not sent along: it cannot be deployed without" {
			t.Errorf("found line %d: %s", f.Line, f.Text)
		}
	}
}

func TestShorterFormOfTheGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(guide), "```yaml\n# shop.yaml\ncomponents:\n")
	block, _, ends := strings.Cut(block, "```\n")
	if !ok || !ends {
		t.Fatal("docs/templates.md shows no components")
	}
	template, err := Parse("components:\n"+block, map[string]string{"web.sh": "true"})
	if err != nil {
		t.Fatal(err)
	}
	if s := template.Check(); len(s.Components) != 2 || len(s.Findings) != 0 {
		t.Errorf("components %v, findings %v", s.Components, s.Findings)
	}
}

// TestBothFormsMayBeMixed puts components on a server of a HOT template.
func TestBothFormsMayBeMixed(t *testing.T) {
	got := parsed(t, `heat_template_version: rocky
conditions: {small: true}
components:
  a: {config: x}
resources:
  web:
    type: OS::Nova::Server
    condition: small
    properties: {image: debian}
    components: [a, {component: a, name: b, condition: {not: small}}]
  wait: {type: OS::Heat::SwiftSignal, depends_on: [web.a, b], properties: {handle: {get_resource: handle}, timeout: 1}}
  handle: {type: OS::Heat::SwiftSignalHandle}
`)
	var list []string
	for _, r := range got.Resources {
		list = append(list, fmt.Sprint(r.Name, " ", r.Type, " ", r.Condition))
	}
	if diff := cmp.Diff([]string{
		"wait OS::Heat::SwiftSignal <nil>", "handle OS::Heat::SwiftSignalHandle <nil>", "a.config OS::Heat::SoftwareConfig <nil>",
		"web OS::Nova::Server small", "web.a OS::Heat::SoftwareDeployment small", "b OS::Heat::SoftwareDeployment map[not:small]",
	}, list); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if s := got.Check(); got.Format != "components" || len(s.Findings) != 0 {
		t.Errorf("format %s, findings %v", got.Format, s.Findings)
	}
}

func TestFindingsInTheShorterForm(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"no such component":         {"components: {}\ninstances:\n  s:\n    components:\n    - a\n", []string{"5 error : resource s: there is no component a"}},
		"a component of text":       {"components:\n  a: x\ninstances: {s: {components: []}}\n", []string{"2 error : component a: want a mapping with a config"}},
		"an unknown key":            {"components:\n  a:\n    config: x\n    inptus: [a]\ninstances: {s: {components: [a]}}\n", []string{"4 error : component a: inptus means nothing there"}},
		"an unknown key of a use":   {"components: {a: {config: x}}\ninstances:\n  s:\n    components:\n    - component: a\n      input: {}\n", []string{"6 error : a component on s: input means nothing there"}},
		"nameless":                  {"components: {a: {config: x}}\ninstances:\n  s:\n    components:\n    - a\n    - {name: b}\n", []string{"6 error : resource s: want the name of a component, or a mapping with component"}},
		"twice on one server":       {"components: {a: {config: x}}\ninstances:\n  s:\n    components:\n    - a\n    - a\n", []string{"6 error : s.a stands on line 5 already: give the component on s another name"}},
		"named as a resource":       {"components: {s: {config: x}}\ninstances:\n  s:\n    components: [s]\n", []string{"4 error : s stands on line 3 already: give the component on s another name"}},
		"a server twice":            {"components: {a: {config: x}}\nresources:\n  s: {components: [a]}\ninstances:\n  s:\n", []string{"5 error : s stands on line 3 already"}},
		"on two servers":            {"components: {a: {config: x, outputs: [o]}}\ninstances: {s: {components: [a]}, t: {components: [a]}}\noutputs:\n  o: {value: {get_attr: [a, o]}}\n", []string{"4 error : get_attr: there is no resource a; there is s.a and t.a"}},
		"on none":                   {"components:\n  a: {config: x}\ninstances: {s: }\n", []string{"2 warning : component a stands on no server"}},
		"on what is no server":      {"components: {a: {config: x}}\nresources:\n  v:\n    type: OS::Heat::Value\n    components: [a]\n    properties: {value: 1}\n", []string{"1 warning : component a stands on no server", "5 error : resource v: components stand on servers, and OS::Heat::Value is none"}},
		"no list of components":     {"components: {}\ninstances:\n  s:\n    components: a\n", []string{"4 error : resource s: want a list of components, got text"}},
		"no list of outputs":        {"components:\n  a:\n    config: x\n    outputs: {b: 1}\ninstances: {s: {components: [a]}}\n", []string{"4 error : component a: want a list of outputs"}},
		"text for inputs":           {"components:\n  a:\n    config: x\n    inputs: b\ninstances: {s: {components: [a]}}\n", []string{"4 error : component a: want inputs as a list, got text"}},
		"a list of values":          {"components: {a: {config: x}}\ninstances: {s: {components: [{component: a, inputs: [b]}]}}\n", []string{"2 error : component a: want a mapping as inputs"}},
		"a timeout of none":         {"components: {a: {config: x, timeout: soon}}\ninstances: {s: {components: [a]}}\n", []string{"1 error : component a: want as timeout seconds, or a duration such as 90s or 5m"}},
		"too many retries":          {"components: {a: {config: x, retries: 1001}}\ninstances: {s: {components: [a]}}\n", []string{"1 error : component a: want as retries a number up to 1000"}},
		"a missing input":           {"components:\n  a:\n    config: x\n    inputs: [b]\ninstances:\n  s: {components: [a]}\n", []string{"6 warning a: input_values: the input b of a.config is not given, and has no default"}},
		"a server after components": {"components: {a: {config: x}, b: {config: x}}\ninstances:\n  s: {components: [a]}\n  t: {components: [a]}\n  u: {components: [b], depends_on: [a, b]}\n", []string{"5 error u: a cycle, in which each needs the next: u, b, u"}},
		"no config":                 {"components: {a: {}}\ninstances: {s: {components: [a]}}\n", []string{"1 error : component a: want a config"}},
		"a cycle":                   {"components: {a: {config: x, depends_on: b}, b: {config: x, depends_on: [a]}}\ninstances:\n  s:\n    components:\n    - a\n    - b\n", []string{"5 error a: a cycle, in which each needs the next: a, b, a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, findings(t, c.text, nil)); diff != "" {
				t.Errorf("%s\nfound (-want +got):\n%s", c.text, diff)
			}
		})
	}
}

func TestTooManyComponentsAreRefused(t *testing.T) {
	many := "components: {a: {config: x}}\ninstances:\n" + strings.Repeat("  s%d: {components: [a]}\n", maxNames+1)
	lines := make([]any, maxNames+1)
	for i := range lines {
		lines[i] = i
	}
	want := []string{"1 error : more than 10000 components or servers, with all that is nested", "10003 error : more than 10000 components on servers"}
	got := findings(t, fmt.Sprintf(many, lines...), nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	some := fmt.Sprintf(many, lines...)
	some = strings.Replace(some, fmt.Sprintf("  s%d: {components: [a]}", maxNames), "  last: {depends_on: ["+strings.Repeat("a, ", 101)+"]}", 1)
	got = findings(t, some, nil)
	if want := "10003 error : depends_on stands for too many components from here on"; !slices.Contains(got, want) {
		t.Errorf("found %v, want %s", got, want)
	}
}

func TestDrawings(t *testing.T) {
	template := parsed(t, strings.Replace(short, "instances:\n", `resources:
  'a "b"#<i>\':
    type: OS::Heat::WaitCondition
    depends_on: front
    properties: {handle: {get_resource: h}, timeout: 1}
  h: {type: OS::Heat::WaitConditionHandle}
instances:
`, 1))
	for got, want := range map[string]string{
		template.Mermaid(): `flowchart TD
  subgraph s0["serverA"]
    n7["db"]
    n8["serverA.agent"]
  end
  subgraph s1["serverB"]
    n9["front"]
    n10["serverB.agent"]
  end
  n0{{"a #34;b#34;#35;#60;i#62;#92;"}}
  n9 --> n0
  n7 --> n9
  n8 --> n9
  n10 --> n9
`,
		template.DOT(): `digraph components {
  node [shape=box];
  subgraph cluster_0 {
    label="serverA";
    n7 [label="db"];
    n8 [label="serverA.agent"];
  }
  subgraph cluster_1 {
    label="serverB";
    n9 [label="front"];
    n10 [label="serverB.agent"];
  }
  n0 [label="a \"b\"#<i>\\", shape=hexagon];
  n9 -> n0;
  n7 -> n9;
  n8 -> n9;
  n10 -> n9;
}
`} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("drawn (-want +got):\n%s", diff)
		}
	}
}

// TestWhatStandsBetweenComponentsIsNotDrawn has one wait for another by way of resources
// that are no components.
func TestWhatStandsBetweenComponentsIsNotDrawn(t *testing.T) {
	got := parsed(t, base+`
  value: {type: OS::Heat::Value, properties: {value: {get_attr: [first, address]}}}
  other: {type: OS::Heat::SoftwareConfig, properties: {config: {get_attr: [value, value]}}}
  later: {type: OS::Nova::Server, depends_on: value}
  second: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: other}, server: {get_resource: server}}}
  third: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: config}, server: {get_resource: later}}}
  group: {type: OS::Heat::SoftwareDeploymentGroup, properties: {config: {get_resource: config}, servers: {a: {get_resource: later}}}, depends_on: third}
`).Mermaid()
	want := `flowchart TD
  subgraph s0["server"]
    n2["first"]
    n6["second"]
  end
  subgraph s1["later"]
    n7["third"]
  end
  n8[["group"]]
  n2 --> n6
  n2 --> n7
  n2 --> n8
  n7 --> n8
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drawn (-want +got):\n%s", diff)
	}
}
