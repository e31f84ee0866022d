package components_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"windsock"
	"windsock/components"

	"github.com/google/go-cmp/cmp"
)

const base = `
heat_template_version: 2018-08-31
parameters:
  n: {type: number, default: 2}
  to: {type: string, default: world}
  password: {type: string, default: swordfish, hidden: true}
resources:
  a: {type: OS::Nova::Server}
  b: {type: OS::Nova::Server}
  hello:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: to, default: nobody}]
      outputs: [{name: said}, {name: error, error_output: true}]
      config: echo hello
`

var nested = map[string]string{
	"web.yaml": `
heat_template_version: 2018-08-31
parameters:
  config: {type: string}
  to: {type: string, default: inside}
resources:
  server: {type: OS::Nova::Server}
  deploy:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_param: config}, server: {get_resource: server}, input_values: {to: {get_param: to}}}
outputs:
  OS::stack_id: {value: {get_resource: server}}
  said: {value: {get_attr: [deploy, said]}}
  name: {value: {get_param: "OS::stack_name"}}
`,
	"deep.yaml": "heat_template_version: 2018-08-31\nresources: {deep: {type: deep.yaml}}\n",
}

func newPlan(source string, parameters map[string]any) (windsock.Plan, error) {
	return components.Planner{}.Plan(windsock.Deployable{Source: source, Files: nested},
		windsock.DeploymentSpec{ID: "d", Parameters: parameters})
}

// draw writes a plan's graph: NAME[@INSTANCE][ > what it waits for][ + servers beside its own].
func draw(p windsock.Plan) []string {
	lines := []string{}
	for _, c := range p.Components {
		line := c.Name
		if c.Instance != "" {
			line += "@" + c.Instance
		}
		if len(c.After) > 0 {
			line += " > " + strings.Join(c.After, " ")
		}
		for _, n := range c.Needs {
			if n != c.Instance {
				line += " + " + n
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func TestPlanGraph(t *testing.T) {
	for name, c := range map[string]struct {
		resources string
		want      []string
	}{
		"data makes one wait for another": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  two: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: b}, input_values: {to: {get_attr: [one, said]}}}}
`, []string{"one@a", "two@b > one"}},
		"so does the id of another": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  two: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: b}, input_values: {to: {get_resource: one}}}}
`, []string{"one@a", "two@b > one"}},
		"so does data by way of a config and a Value": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  said: {type: OS::Heat::Value, properties: {value: {get_attr: [one, said]}}}
  other: {type: OS::Heat::SoftwareConfig, properties: {config: {str_replace: {template: x, params: {x: {get_attr: [said, value]}}}}}}
  two: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: other}, server: {get_resource: b}}}
`, []string{"one@a", "two@b > one"}},
		"a server's address needs the server alone": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  two: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: b}, input_values: {to: {get_attr: [a, first_address]}}}}
`, []string{"one@a", "two@b + a"}},
		"depends_on of a component, a server and a condition": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  handle: {type: OS::Heat::WaitConditionHandle}
  wait: {type: OS::Heat::WaitCondition, depends_on: a, properties: {handle: {get_resource: handle}, timeout: 60}}
  two: {type: OS::Heat::SoftwareDeployment, depends_on: [one, a, wait], properties: {config: {get_resource: hello}, server: {get_resource: b}}}
`, []string{"one@a", "wait + a", "two@b > one wait + a"}},
		"a handle makes nobody wait": {`
  handle: {type: OS::Heat::WaitConditionHandle}
  wait: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: handle}, timeout: 60}}
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}, input_values: {to: {get_attr: [handle, curl_cli]}}}}
`, []string{"wait", "one@a"}},
		"order goes by way of what is left to the cloud": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  volume: {type: OS::Cinder::Volume, depends_on: one}
  attachment: {type: OS::Cinder::VolumeAttachment, properties: {volume_id: {get_resource: volume}, instance_uuid: {get_resource: a}}}
  two: {type: OS::Heat::SoftwareDeployment, depends_on: attachment, properties: {config: {get_resource: hello}, server: {get_resource: b}}}
`, []string{"one@a", "two@b > one + a"}},
		"order goes by way of a config": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  other: {type: OS::Heat::SoftwareConfig, depends_on: one}
  two: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: other}, server: {get_resource: b}}}
`, []string{"one@a", "two@b > one"}},
		"what a condition drops, nobody waits for": {`
  one: {type: OS::Heat::SoftwareDeployment, condition: false, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  two: {type: OS::Heat::SoftwareDeployment, depends_on: one, properties: {config: {get_resource: hello}, server: {get_resource: b}}}
`, []string{"two@b"}},
		"a group of deployments": {`
  all: {type: OS::Heat::SoftwareDeploymentGroup, properties: {config: {get_resource: hello}, servers: {x: {get_resource: a}, "y": {get_resource: b}}}}
  one: {type: OS::Heat::SoftwareDeployment, depends_on: all, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  two: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}, input_values: {to: {get_attr: [all, deploy_stdouts, x]}}}}
`, []string{"all.x@a", "all.y@b", "one@a > all.x all.y", "two@a > all.x"}},
		"a group of servers, and software on each": {`
  servers: {type: OS::Heat::ResourceGroup, properties: {count: {get_param: n}, resource_def: {type: OS::Nova::Server}}}
  all: {type: OS::Heat::SoftwareDeployments, properties: {config: {get_resource: hello}, servers: {get_attr: [servers, refs_map]}}}
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_attr: [servers, refs, -1]}}}
  two: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_attr: [servers, resource.0]}, input_values: {to: {get_attr: [servers, first_address]}}}}
`, []string{"all.0@servers.0", "all.1@servers.1", "one@servers.1", "two@servers.0 + servers.1"}},
		"a group of deployments by number": {`
  group: {type: OS::Heat::ResourceGroup, depends_on: b, properties: {count: 2, index_var: "#", resource_def: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}, input_values: {to: "number #"}}}}}
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}, input_values: {to: {get_attr: [group, attributes, said]}}}}
`, []string{"group.0@a + b", "group.1@a + b", "one@a > group.0 group.1"}},
		"templates within groups": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  web: {type: OS::Heat::ResourceGroup, depends_on: one, properties: {count: 2, resource_def: {type: web.yaml, properties: {config: {get_resource: hello}, to: {get_attr: [one, said]}}}}}
  two: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_attr: [web, resource.1]}, input_values: {to: {get_attr: [web, resource.0.said]}}}}
`, []string{"one@a", "web.0.deploy@web.0.server > one", "web.1.deploy@web.1.server > one", "two@web.1.server > web.0.deploy"}},
		"a template waits only where its data does": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  web: {type: web.yaml, properties: {config: {get_resource: hello}, to: {get_attr: [one, said]}}}
  two: {type: OS::Heat::SoftwareDeployment, depends_on: web, properties: {config: {get_resource: hello}, server: {get_resource: b}}}
  three: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: web}}}
`, []string{"one@a", "web.deploy@web.server > one", "two@b > web.deploy + web.server", "three@web.server"}},
		"a server that is given by name": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_param: to}}}
`, []string{"one@world"}},
		"a server of a type that nobody knows": {`
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}, input_values: {to: [{get_resource: bare}, {get_attr: [bare, first_address]}]}}}
  two: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: bare}}}
  bare: {type: OS::TripleO::Server}
`, []string{"one@a + bare", "two@bare"}},
		"software in user data is not ours": {`
  c: {type: OS::Nova::Server, properties: {user_data: {get_resource: hello}}}
`, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := newPlan(base+c.resources, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, draw(plan)); diff != "" {
				t.Errorf("%s\nwant -, got +:\n%s", c.resources, diff)
			}
		})
	}
}

// TestPlanComponent shows what else a component is: its fields that are not as in the
// plainest one.
func TestPlanComponent(t *testing.T) {
	plain := windsock.PlannedComponent{
		Name: "x", Kind: windsock.KindSoftware, Instance: "a", Group: "script", Needs: []string{"a"},
		Actions: []windsock.Action{"CREATE", "UPDATE"}, Signals: 1, Deadline: time.Hour,
		Outputs: []windsock.Output{{Name: "said"}, {Name: "error", Error: true}},
	}
	for name, c := range map[string]struct {
		resources string
		want      func(c *windsock.PlannedComponent)
	}{
		"the plainest": {`x: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}`,
			func(*windsock.PlannedComponent) {}},
		"no signal, other actions, limits": {`x: {type: OS::Heat::SoftwareDeployment, metadata: {windsock: {retries: 3, timeout: {get_param: n}}}, properties: {config: {get_resource: hello}, server: {get_resource: a}, signal_transport: NO_SIGNAL, actions: [DELETE, SUSPEND]}}`,
			func(c *windsock.PlannedComponent) {
				c.Silent, c.Retries, c.Deadline, c.Actions = true, 3, 2*time.Second, []windsock.Action{"DELETE"}
			}},
		"without a config": {`x: {type: OS::Heat::SoftwareDeployment, properties: {server: {get_resource: a}}}`,
			func(c *windsock.PlannedComponent) { c.Group, c.Outputs = "Heat::Ungrouped", nil }},
		"a config for each action": {`
  each: {type: OS::Heat::SoftwareComponent, properties: {configs: [{actions: [CREATE], config: c, tool: ansible}, {actions: [DELETE, RESUME], config: d, tool: script}]}}
  x: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: each}, server: {get_resource: a}, actions: [CREATE]}}`,
			func(c *windsock.PlannedComponent) {
				c.Group, c.Actions, c.Outputs = "ansible", []windsock.Action{"CREATE", "DELETE"}, []windsock.Output{}
			}},
		"a condition": {`
  h: {type: OS::Heat::SwiftSignalHandle}
  x: {type: OS::Heat::SwiftSignal, properties: {handle: {get_resource: h}, count: {get_param: n}, timeout: "90.5"}}`,
			func(c *windsock.PlannedComponent) {
				*c = windsock.PlannedComponent{Name: "x", Kind: windsock.KindCondition, Handle: "h", Refers: []string{"h"},
					Actions: []windsock.Action{"CREATE"}, Signals: 2, Deadline: 90500 * time.Millisecond}
			}},
		"a condition of CloudFormation": {`
  h: {type: AWS::CloudFormation::WaitConditionHandle}
  x: {type: AWS::CloudFormation::WaitCondition, properties: {Handle: {get_resource: h}, Count: 5, Timeout: "60"}}`,
			func(c *windsock.PlannedComponent) {
				*c = windsock.PlannedComponent{Name: "x", Kind: windsock.KindCondition, Handle: "h", Refers: []string{"h"},
					Actions: []windsock.Action{"CREATE"}, Signals: 5, Deadline: time.Minute}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := newPlan(base+"\n  "+strings.TrimSpace(c.resources)+"\n", nil)
			if err != nil {
				t.Fatal(err)
			}
			want, got := plain, plan.Components[0]
			c.want(&want)
			got.Spec = nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\nwant -, got +:\n%s", c.resources, diff)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	deploy := func(more string) string {
		return "  x: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}" + more + "}}\n"
	}
	for name, c := range map[string]struct {
		resources  string
		parameters map[string]any
		field      string
		detail     string
	}{
		"two that wait for each other": {`
  x: {type: OS::Heat::SoftwareDeployment, depends_on: y_, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  y_: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}, input_values: {to: {get_attr: [x, said]}}}}
`, nil, "deployable", `components wait for each other: ["x" "y_"]`},
		"what nobody tells, all at once": {deploy(", input_values: {to: [{get_attr: [port, fixed_ips]}, {get_resource: port}]}") + "  port: {type: OS::Neutron::Port}\n",
			nil, "parameters/attributes", `["port.fixed_ips" "port.id"]`},
		"attributes of nobody":         {"", map[string]any{"attributes": map[string]any{"q": map[string]any{}}}, "parameters/attributes", "there is no resource q"},
		"attributes that are none":     {"", map[string]any{"attributes": map[string]any{"a": 1.0}}, "parameters/attributes", "want a map of attributes for a"},
		"an unknown parameter":         {"", map[string]any{"q": 1.0}, "parameters/q", "no such parameter"},
		"a server that is none":        {strings.ReplaceAll(deploy(""), "resource: a", "resource: hello"), nil, "deployable", "resource x: server: want"},
		"a config that is none":        {strings.ReplaceAll(deploy(""), "resource: hello", "resource: a"), nil, "deployable", "resource x: config: want"},
		"an attribute nobody declared": {deploy(", input_values: {to: {get_attr: [x, nobody]}}"), nil, "deployable", "resource x: input_values: get_attr: resource x has no such attribute"},
		"a handle that is none":        {"  x: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: a}, timeout: 1}}\n", nil, "deployable", "want get_resource of a handle"},
		"too many signals":             {"  h: {type: OS::Heat::WaitConditionHandle}\n  x: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, count: 10001, timeout: 1}}\n", nil, "deployable", "count: want 1 to 10000"},
		"too long a wait":              {"  h: {type: OS::Heat::WaitConditionHandle}\n  x: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, timeout: 43201}}\n", nil, "deployable", "timeout: want 1 to 43200 seconds"},
		"a count known too late":       {deploy("") + "  g: {type: OS::Heat::ResourceGroup, properties: {count: {get_attr: [x, said]}, resource_def: {type: OS::Nova::Server}}}\n", nil, "deployable", "resource g: count: it has to be known"},
		"a count of less than none":    {"  g: {type: OS::Heat::ResourceGroup, properties: {count: -1, resource_def: {type: OS::Nova::Server}}}\n", nil, "deployable", "resource g: count: want a whole number"},
		"too many components":          {"  g: {type: OS::Heat::ResourceGroup, properties: {count: 10001, resource_def: {type: OS::Heat::SoftwareDeployment, properties: {server: {get_resource: a}}}}}\n", nil, "deployable", "more than 10000 components"},
		"too many resources":           {"  g: {type: OS::Heat::ResourceGroup, properties: {count: 1000000000, resource_def: {type: OS::Nova::Server}}}\n", nil, "deployable", "more than 50000 resources"},
		"groups in groups":             {"  g: {type: OS::Heat::ResourceGroup, properties: {count: 40000, resource_def: {type: OS::Heat::ResourceGroup, properties: {count: 40000, resource_def: {type: OS::Nova::Server}}}}}\n", nil, "deployable", "more than 50000 resources"},
		"a template in itself":         {"  g: {type: deep.yaml}\n", nil, "deployable", "templates are nested more than 5 deep"},
		"a property of no parameter":   {"  g: {type: web.yaml, properties: {config: {get_resource: hello}, q: 1}}\n", nil, "deployable", "resource g: property q: there is no such parameter"},
		"a property that is missing":   {"  g: {type: web.yaml}\n", nil, "deployable", "resource g: property config: it has no default"},
		"an output of no template":     {"  g: {type: web.yaml, properties: {config: {get_resource: hello}}}\noutputs: {o: {value: {get_attr: [g, q]}}}\n", nil, "deployable", "output o: get_attr: output of g: its template has no such output"},
		"a file that was not sent":     {"  g: {type: other.yaml}\n", nil, "deployable", "other.yaml was not sent along"},
		"a name with a slash":          {"  g: {type: OS::Heat::SoftwareDeploymentGroup, properties: {config: {get_resource: hello}, servers: {a/b: {get_resource: a}}}}\n", nil, "deployable", "without a slash"},
		"a server's name with a slash": {strings.ReplaceAll(deploy(""), "get_resource: a", "get_param: to"), map[string]any{"to": "a/b"}, "deployable", "without a slash"},
		"two of one name": {"  g: {type: OS::Heat::ResourceGroup, properties: {count: 1, resource_def: {type: OS::Nova::Server}}}\n  g.0: {type: OS::Nova::Server}\n",
			nil, "deployable", "two resources named g.0"},
		"an input that has to be there": {`
  s: {type: OS::Heat::StructuredConfig, properties: {config: {k: {get_input: q}}}}
  x: {type: OS::Heat::StructuredDeployment, properties: {config: {get_resource: s}, server: {get_resource: a}, input_values_validate: STRICT}}
`, nil, "deployable", "resource x: config: input q is not given"},
		"a secret in the wrong place": {deploy(", input_values: {to: {str_split: [{get_param: password}, {get_param: password}, 9]}}"), nil, "deployable", "want an index of 0 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newPlan(base+c.resources, c.parameters)
			var field *windsock.FieldError
			if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(field.Detail, c.detail) {
				t.Fatalf("%s\ngot %v, want %s: …%s…", c.resources, err, c.field, c.detail)
			}
			if strings.Contains(err.Error(), "swordfish") {
				t.Errorf("%v shows a secret", err)
			}
		})
	}
}

func TestParameters(t *testing.T) {
	for name, c := range map[string]struct {
		parameter string
		given     any
		want      string // JSON, or ! and an error
	}{
		"a default":                  {`{type: string, default: x}`, nil, `"x"`},
		"none":                       {`{type: string}`, nil, `!it has no default`},
		"text of a number":           {`{type: string}`, 5.0, `"5"`},
		"no text":                    {`{type: string}`, []any{"swordfish"}, `!want text, got a list`},
		"a default that is none":     {`{type: string, default: null}`, nil, `!it has no default`},
		"a number":                   {`{type: number}`, 8080.0, `8080`},
		"a number as text":           {`{type: number}`, "1.5", `1.5`},
		"no number":                  {`{type: number}`, "swordfish", `!want a number`},
		"a boolean":                  {`{type: boolean}`, "Off", `false`},
		"no boolean":                 {`{type: boolean}`, "swordfish", `!want true or false`},
		"a list as text":             {`{type: comma_delimited_list}`, "a, b", `["a","b"]`},
		"a list of numbers":          {`{type: comma_delimited_list}`, []any{1.0, "b"}, `["1","b"]`},
		"an empty list":              {`{type: comma_delimited_list}`, "", `[]`},
		"no list":                    {`{type: comma_delimited_list}`, 1.0, `!want a list`},
		"JSON as text":               {`{type: json}`, `{"a": [1]}`, `{"a":[1]}`},
		"no JSON":                    {`{type: json}`, "swordfish", `!want a map or a list`},
		"short enough":               {`{type: string, constraints: [{length: {max: 3}}]}`, "äöü", `"äöü"`},
		"too long":                   {`{type: string, constraints: [{length: {max: 3}}]}`, "swordfish", `!want a length of at most 3`},
		"too short a list":           {`{type: comma_delimited_list, constraints: [{length: {min: 2}}]}`, "a", `!want a length of at least 2`},
		"in the range":               {`{type: number, constraints: [{range: {min: 1, max: 10}}]}`, 10.0, `10`},
		"out of the range":           {`{type: number, constraints: [{range: {min: 1, max: 10}}]}`, 10.5, `!want a number of at most 10`},
		"in step":                    {`{type: number, constraints: [{modulo: {step: 5, offset: 2}}]}`, 12.0, `12`},
		"out of step":                {`{type: number, constraints: [{modulo: {step: 5, offset: 2}}]}`, 10.0, `!steps of 5`},
		"allowed":                    {`{type: number, constraints: [{allowed_values: [1, 2]}]}`, "2", `2`},
		"not allowed":                {`{type: string, constraints: [{allowed_values: [a, b], description: a letter}]}`, "swordfish", `!want one of ["a","b"] (a letter)`},
		"not allowed and hidden":     {`{type: string, hidden: true, constraints: [{allowed_values: [a, b]}]}`, "swordfish", `!want one of the values`},
		"one of a list not allowed":  {`{type: comma_delimited_list, constraints: [{allowed_values: [a, b]}]}`, "a,swordfish", `!want one of`},
		"matches":                    {`{type: string, constraints: [{allowed_pattern: "[a-z]+"}]}`, "abc", `"abc"`},
		"matches only in part":       {`{type: string, constraints: [{allowed_pattern: "[a-z]+"}]}`, "swordfish1", `!want what matches [a-z]+`},
		"a pattern that is not ours": {`{type: string, constraints: [{allowed_pattern: "(?=x)y"}]}`, "abc", `"abc"`},
		"what a cloud would judge":   {`{type: string, constraints: [{custom_constraint: nova.flavor}]}`, "abc", `"abc"`},
		"a default that cannot be":   {`{type: number, default: 3, constraints: [{range: {max: 2}}]}`, nil, `!want a number of at most 2`},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]any{}
			if c.given != nil {
				given["p"] = c.given
			}
			plan, err := newPlan("heat_template_version: 2018-08-31\nparameters: {p: "+c.parameter+"}\noutputs: {v: {value: {get_param: p}}}\n", given)
			if want, ok := strings.CutPrefix(c.want, "!"); ok {
				if err == nil || !strings.HasPrefix(err.Error(), "parameters/p: ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "swordfish") {
					t.Fatalf("got %v, want parameters/p: …%s…", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			v, err := components.ValueOf(plan.Outputs[0].Spec, nil)
			if text, _ := json.Marshal(v); err != nil || string(text) != c.want {
				t.Fatalf("got %s and error %v, want %s", text, err, c.want)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	known := windsock.Known{
		"a": {ID: "i-1", Attributes: map[string]any{
			"name": "a-1", "address": "10.0.0.1", "addresses": []any{"10.0.0.1", "fd00::1"}, "metadata": map[string]any{"role": "db"}}},
		"one":  {ID: "c-1", Attributes: map[string]any{"said": map[string]any{"n": 5.0, "list": []any{"x"}}, "deploy_status_code": 0.0, "deploy_stdout": "x, y"}},
		"bare": {ID: "i-2", Attributes: map[string]any{"address": "10.0.0.2"}},
		"wait": {ID: "w-1", Attributes: map[string]any{"data": `{"1":"ok"}`}},
		"handle": {Attributes: map[string]any{
			"endpoint": "http://w/api/signal/t", "token": "t", "curl_cli": "curl -X POST http://w/api/signal/t", "signal": "{}"}},
		"old": {Attributes: map[string]any{"endpoint": "http://w/api/signal/o"}},
		"":    {Attributes: map[string]any{"deploy_signal_id": "http://w/api/signal/x"}},
	}
	with := func(more string) string {
		return base + `
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}}}
  handle: {type: OS::Heat::WaitConditionHandle}
  wait: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: handle}, timeout: 60}}
  old: {type: AWS::CloudFormation::WaitConditionHandle}
  structured: {type: OS::Heat::StructuredConfig, properties: {group: os-apply, inputs: [{name: d, type: Number, default: 4}], config: {a: {get_input: to}, b: [{get_input: nobody}], c: {get_input: d}, e: {get_input: to, more: 1}}}}
  each: {type: OS::Heat::SoftwareComponent, properties: {configs: [{actions: [CREATE], config: made, tool: ansible}, {actions: [DELETE], config: {get_attr: [one, said, nobody]}, tool: script}], inputs: [{name: to}]}}
  split: {type: OS::Heat::Value, properties: {type: comma_delimited_list, value: {get_attr: [one, deploy_stdout]}}}
  bare: {type: OS::TripleO::Server}
  x: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: bare}}}
` + more
	}
	software := func(inputs string) string {
		return with("  last: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}, input_values: " + inputs + "}}\n")
	}
	input := func(name string, value any) windsock.Input {
		return windsock.Input{Name: name, Type: "String", Value: value}
	}
	for name, c := range map[string]struct {
		source string
		action windsock.Action
		want   windsock.Job // zero fields: as hello has them
		err    string
	}{
		"the default": {software("{}"), "CREATE", windsock.Job{Inputs: []windsock.Input{input("to", "nobody")}}, ""},
		"a secret":    {software("{to: {get_param: password}}"), "CREATE", windsock.Job{Inputs: []windsock.Input{input("to", "swordfish")}}, ""},
		"more than declared": {software("{z: 1, to: x, a: true}"), "UPDATE", windsock.Job{Inputs: []windsock.Input{
			input("to", "x"), input("a", true), input("z", int64(1))}}, ""},
		"outputs of another": {software("{to: {get_attr: [one, said]}, n: {get_attr: [one, said, n]}, code: {get_attr: [one, deploy_status_code]}, id: {get_resource: one}}"), "CREATE",
			windsock.Job{Inputs: []windsock.Input{input("to", map[string]any{"n": int64(5), "list": []any{"x"}}), input("code", int64(0)), input("id", "c-1"), input("n", int64(5))}}, ""},
		"an output that never came":   {software("{to: {get_attr: [one, error]}, text: {list_join: [x, [a, {get_attr: [one, error]}]]}}"), "CREATE", windsock.Job{Inputs: []windsock.Input{input("to", nil), input("text", "ax")}}, ""},
		"a map that comes as a whole": {software("{get_attr: [one, said]}"), "CREATE", windsock.Job{Inputs: []windsock.Input{input("to", "nobody"), input("list", []any{"x"}), input("n", int64(5))}}, ""},
		"maps put together":           {software("{map_merge: [{to: x}, {n: {get_attr: [one, said, n]}}]}"), "CREATE", windsock.Job{Inputs: []windsock.Input{input("to", "x"), input("n", int64(5))}}, ""},
		"a condition and its handle": {software("{to: {get_attr: [wait, data]}, a: {get_attr: [handle, curl_cli]}, b: {get_resource: old}}"), "CREATE", windsock.Job{Inputs: []windsock.Input{
			input("to", `{"1":"ok"}`), input("a", "curl -X POST http://w/api/signal/t"), input("b", "http://w/api/signal/o")}}, ""},
		"a server": {software("{to: {get_resource: a}, a: {get_attr: [a, first_address]}, b: {get_attr: [a, networks, anything, 1]}, c: {get_attr: [a, addresses, net, 0, addr]}, d: {get_attr: [a, accessIPv6]}, e: {get_attr: [a, metadata, role]}, f: {get_attr: [a, show, id]}, g: {get_attr: [a, console_urls]}}"), "CREATE",
			windsock.Job{Inputs: []windsock.Input{input("to", "i-1"), input("a", "10.0.0.1"), input("b", "fd00::1"), input("c", "10.0.0.1"), input("d", "fd00::1"), input("e", "db"), input("f", "i-1"), input("g", nil)}}, ""},
		"a server that is not there":           {software("{to: {get_attr: [b, first_address]}, id: {get_resource: b}}"), "CREATE", windsock.Job{Inputs: []windsock.Input{input("to", nil), input("id", nil)}}, ""},
		"a server of a type that nobody knows": {software("{to: {get_resource: bare}, a: {get_attr: [bare, first_address]}}"), "CREATE", windsock.Job{Inputs: []windsock.Input{input("to", "i-2"), input("a", "10.0.0.2")}}, ""},
		"a type that comes late":               {software("{to: {get_attr: [split, value]}, a: {get_attr: [split, value, 1]}}"), "CREATE", windsock.Job{Inputs: []windsock.Input{input("to", []any{"x", "y"}), input("a", "y")}}, ""},
		"a structure": {with("  last: {type: OS::Heat::StructuredDeployment, properties: {config: {get_resource: structured}, server: {get_resource: a}, input_values: {to: {get_attr: [one, said, list]}}}}\n"), "CREATE",
			windsock.Job{Group: "os-apply", Outputs: []windsock.Output{}, Config: map[string]any{"a": []any{"x"}, "b": []any{nil}, "c": int64(4), "e": map[string]any{"get_input": "to", "more": int64(1)}},
				Inputs: []windsock.Input{{Name: "d", Type: "Number", Value: int64(4)}, input("to", []any{"x"})}}, ""},
		"a structure that says where to signal": {with("  own: {type: OS::Heat::StructuredConfig, properties: {config: {done: {get_input: deploy_signal_id}}}}\n" +
			"  last: {type: OS::Heat::StructuredDeployment, properties: {config: {get_resource: own}, server: {get_resource: a}, input_values_validate: STRICT}}\n"), "CREATE",
			windsock.Job{Group: "Heat::Ungrouped", Outputs: []windsock.Output{}, Config: map[string]any{"done": "http://w/api/signal/x"}, Inputs: []windsock.Input{}}, ""},
		"a structure that is deployed as it is": {with("  last: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: structured}, server: {get_resource: a}}}\n"), "CREATE",
			windsock.Job{Group: "os-apply", Outputs: []windsock.Output{}, Config: map[string]any{"a": map[string]any{"get_input": "to"}, "b": []any{map[string]any{"get_input": "nobody"}}, "c": map[string]any{"get_input": "d"}, "e": map[string]any{"get_input": "to", "more": int64(1)}},
				Inputs: []windsock.Input{{Name: "d", Type: "Number", Value: int64(4)}}}, ""},
		"an action": {with("  last: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: each}, server: {get_resource: a}, input_values: {to: x}}}\n"), "CREATE",
			windsock.Job{Group: "ansible", Config: "made", Inputs: []windsock.Input{input("to", "x")}, Outputs: []windsock.Output{}}, ""},
		"another action": {with("  last: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: each}, server: {get_resource: a}, input_values: {to: x}}}\n"), "DELETE",
			windsock.Job{Group: "script", Config: "", Inputs: []windsock.Input{input("to", "x")}, Outputs: []windsock.Output{}}, ""},
		"no such action": {with("  last: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: each}, server: {get_resource: a}}}\n"), "UPDATE",
			windsock.Job{}, "there is nothing to run for UPDATE"},
		"a value that cannot be used": {software("{to: {str_split: [x, {get_attr: [one, said]}]}}"), "CREATE", windsock.Job{}, "str_split: want what is to be split as text, got a map"},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := newPlan(c.source, nil)
			if err != nil {
				t.Fatal(err)
			}
			spec := plan.Components[len(plan.Components)-1].Spec
			got, err := components.Resolve(spec, c.action, known)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v and error %v, want %q", got, err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := windsock.Job{Group: "script", Config: "echo hello", Outputs: []windsock.Output{{Name: "said"}, {Name: "error", Error: true}}}
			for i, v := 0, reflect.ValueOf(c.want); i < v.NumField(); i++ {
				if !v.Field(i).IsZero() {
					reflect.ValueOf(&want).Elem().Field(i).Set(v.Field(i))
				}
			}
			want.Options = map[string]any{}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("spec %s\nwant -, got +:\n%s", spec, diff)
			}
		})
	}
}

// TestOutputsOfGroups shows what get_attr gives of groups and templates.
func TestOutputsOfGroups(t *testing.T) {
	source := base + `
  all: {type: OS::Heat::SoftwareDeploymentGroup, properties: {config: {get_resource: hello}, servers: {x: {get_resource: a}, "y": {get_resource: b}}}}
  web: {type: OS::Heat::ResourceGroup, properties: {count: {get_param: n}, resource_def: {type: web.yaml, properties: {config: {get_resource: hello}, to: "%index%"}}}}
outputs:
`
	known := windsock.Known{"web.0.server": {ID: "i-0"}, "web.1.server": {ID: "i-1"}}
	for i, name := range []string{"all.x", "all.y", "web.0.deploy", "web.1.deploy"} {
		known[name] = windsock.Produced{ID: "c", Attributes: map[string]any{"said": fmt.Sprint("said ", i), "deploy_stdout": fmt.Sprint("out ", i)}}
	}
	for expr, want := range map[string]string{
		`[all, said]`:                     `{"x":"said 0","y":"said 1"}`,
		`[all, deploy_stdouts]`:           `{"x":"out 0","y":"out 1"}`,
		`[all, deploy_stdout, y]`:         `"out 1"`,
		`[all, resource.x.said]`:          `"said 0"`,
		`[web, said]`:                     `["said 2","said 3"]`,
		`[web, said, 0]`:                  `[null,null]`,
		`[web, attributes, said]`:         `{"0":"said 2","1":"said 3"}`,
		`[web, resource.1.said]`:          `"said 3"`,
		`[web, resource.1, said]`:         `"said 3"`,
		`[web, refs]`:                     `["i-0","i-1"]`,
		`[web, refs, 1]`:                  `"i-1"`,
		`[web, refs_map]`:                 `{"0":"i-0","1":"i-1"}`,
		`[web, resource.0]`:               `"i-0"`,
		`[web, removed_rsrc_list]`:        `[]`,
		`[web, name]`:                     `["d-web-0","d-web-1"]`,
		`[web, resource.0.outputs, said]`: `"said 2"`,
	} {
		plan, err := newPlan(source+"  v: {value: {get_attr: "+expr+"}}\n", nil)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		v, err := components.ValueOf(plan.Outputs[0].Spec, known)
		if text, _ := json.Marshal(v); err != nil || string(text) != want {
			t.Errorf("%s: got %s and error %v, want %s", expr, text, err, want)
		}
	}
	plan, err := newPlan(source+"  v: {value: {get_attr: [all, said]}}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	delete(known, "all.y")
	if v, err := components.ValueOf(plan.Outputs[0].Spec, known); err != nil || fmt.Sprint(v) != "map[x:said 0 y:<nil>]" {
		t.Errorf("when all.y has not run: got %v and error %v", v, err)
	}
}
