package components

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

// findings returns what is found in a template, a line each: line of the template,
// severity, resource, text.
func findings(t *testing.T, source string, files map[string]string) (list []string) {
	t.Helper()
	template, err := Parse(source, files)
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	for _, f := range template.Check().Findings {
		where := fmt.Sprint(f.Line)
		if f.File != "" {
			where = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		list = append(list, fmt.Sprintf("%s %s %s: %s", where, f.Severity, f.Resource, f.Text))
	}
	return list
}

// base is a template in which nothing is wrong; what is added to it begins on line 24,
// below resources.
const base = `heat_template_version: 2018-08-31
parameters:
  image: {type: string, default: debian}
  count: {type: number}
conditions:
  small: {equals: [{get_param: count}, 1]}
resources:
  server:
    type: OS::Nova::Server
    properties: {image: {get_param: image}}
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: port, default: 1}, {name: peer}]
      outputs: [{name: address}]
      config: "#!/bin/sh"
  first:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      input_values: {peer: x}
`

func TestNothingIsFoundWhereNothingIsWrong(t *testing.T) {
	for name, more := range map[string]string{
		"nothing more": "",
		"all references": `
  second:
    type: OS::Heat::SoftwareDeployment
    depends_on: first
    condition: {or: [small, {not: small}, {get_param: count}]}
    metadata: {windsock: {timeout: 60, retries: 2}}
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      name: second
      input_values:
        peer: {get_attr: [first, address]}
        port:
          repeat:
            for_each: {"<%i%>": {get_param: [image]}}
            template: {get_file: <%i%>.txt}
outputs:
  stdout: {value: {get_attr: [second, deploy_stdout]}, condition: small}
  id: {value: {if: [small, {get_param: "OS::stack_id"}, {list_concat: [[1], {get_attr: [server, networks, {get_param: image}, 0]}]}]}}
`,
		"a group": `
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_param: count}
      resource_def:
        type: OS::Heat::SoftwareDeployment
        properties:
          config: {get_resource: config}
          server: {get_resource: server}
          input_values: {peer: "%index%"}
outputs:
  all: {value: {get_attr: [group, address]}}
`,
		"conditions": `
  handle: {type: OS::Heat::WaitConditionHandle}
  wait:
    type: OS::Heat::WaitCondition
    properties: {handle: {get_resource: handle}, timeout: "600", count: {get_param: count}}
  cfnhandle: {type: "AWS::CloudFormation::WaitConditionHandle"}
  cfn: {type: "AWS::CloudFormation::WaitCondition", properties: {Handle: {get_resource: cfnhandle}, Timeout: 1}}
outputs:
  data: {value: {get_attr: [wait, data]}}
  curl: {value: {get_attr: [handle, curl_cli]}}
`,
		"a structured config": `
  structured:
    type: OS::Heat::StructuredConfig
    properties: {group: puppet, config: {a: [{get_input: x}], b: {get_input: y}}, inputs: [{name: y, default: 2}]}
  deployed:
    type: OS::Heat::StructuredDeployment
    properties: {config: {get_resource: structured}, server: {get_resource: server}, input_values: {x: 1}, input_values_validate: STRICT}
`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := findings(t, base+more, nil); got != nil {
				t.Errorf("found in\n%s%s", more, strings.Join(got, "\n"))
			}
		})
	}
}

// TestFindings has for each fault what is added to the base, and all that is found.
func TestFindings(t *testing.T) {
	deployment := func(properties string) string {
		return "  x:\n    type: OS::Heat::SoftwareDeployment\n    properties: {config: {get_resource: config}, server: {get_resource: server}, " + properties + "}\n"
	}
	resource := func(typ, properties string) string {
		return "  x:\n    type: " + typ + "\n    properties:\n      " + properties + "\n"
	}
	config := func(properties string) string {
		return resource("OS::Heat::SoftwareConfig", properties)
	}
	for name, c := range map[string]struct {
		more string
		want []string
	}{
		// References.
		"a cycle": {"  a: {type: OS::Heat::Value, properties: {value: {get_attr: [c, value]}}}\n  b: {type: OS::Heat::Value, properties: {value: 1}, depends_on: [a]}\n  c: {type: OS::Heat::Value, properties: {value: {get_resource: b}}}\n",
			[]string{"24 error a: a cycle, in which each needs the next: a, c, b, a"}},
		"two cycles": {"  a: {type: OS::Heat::None, depends_on: a}\n  b: {type: OS::Heat::None, depends_on: c}\n  c: {type: OS::Heat::None, depends_on: b}\n",
			[]string{"24 error a: a cycle, in which each needs the next: a, a", "25 error b: a cycle, in which each needs the next: b, c, b"}},
		"no such resource":               {"  a:\n    type: OS::Heat::Value\n    properties:\n      value: [1, {get_resource: b}]\n", []string{"27 error a: get_resource: there is no resource b"}},
		"no such resource to depend on":  {"  a:\n    type: OS::Heat::None\n    depends_on:\n    - b\n", []string{"26 error a: depends_on: there is no resource b"}},
		"no resource of an attribute":    {"  a:\n    type: OS::Heat::Value\n    properties:\n      value: {get_attr: [b, x]}\n", []string{"27 error a: get_attr: there is no resource b"}},
		"an attribute of nothing":        {"  a:\n    type: OS::Heat::Value\n    properties:\n      value: {get_attr: first}\n", []string{"27 error a: get_attr: want a list of a resource and its attribute"}},
		"an output that is not declared": {"outputs:\n  x:\n    value: {get_attr: [first, port]}\n", []string{"26 warning : get_attr: first has no attribute port"}},
		"an output that is needed":       {"  x: {type: OS::Heat::Value, properties: {value: {get_attr: [first, port]}}}\n", []string{"24 error x: get_attr: first has no attribute port"}},
		"an attribute that it has not":   {"outputs:\n  x:\n    value: {get_attr: [server, ip]}\n", []string{"26 warning : get_attr: server has no attribute ip"}},
		"no such parameter":              {"  a:\n    type: OS::Heat::Value\n    properties:\n      value:\n        get_param: [nobody, 1]\n", []string{"27 error a: get_param: there is no parameter nobody"}},
		"no such condition":              {"  a:\n    type: OS::Heat::None\n    condition: {not: large}\n", []string{"26 error a: there is no condition large"}},
		"no such condition in if":        {"outputs:\n  a: {value: {if: [large, 1, 2]}}\n", []string{"25 error : there is no condition large"}},
		"no condition at all":            {"  a:\n    type: OS::Heat::None\n    condition: {if: [small, small, small]}\n", []string{"26 error a: want a condition: a name, or one of equals, get_param, contains, and, or, not"}},
		"no such file":                   {config("config: {get_file: a.sh}"), []string{"27 warning x: get_file: a.sh was not sent along: it cannot be deployed without"}},
		"a file elsewhere":               {config("config: {get_file: ../a.sh}"), []string{"27 warning x: get_file: ../a.sh is outside of the template's folder: it is not read"}},
		"a file anywhere":                {config("config: {get_file: /etc/passwd}"), []string{"27 warning x: get_file: /etc/passwd is an absolute path: it is not read"}},
		"a URL":                          {config(`config: {get_file: "http://example.com/a.sh"}`), []string{"27 warning x: get_file: http://example.com/a.sh is a URL: it is not read"}},

		// Functions.
		"a facade":                  {config("config: {resource_facade: metadata}"), []string{"27 error x: resource_facade is refused: " + refused["resource_facade"]}},
		"YAQL":                      {config("config: {yaql: {expression: $.x, data: 1}}"), []string{"27 error x: yaql is refused: " + refused["yaql"]}},
		"YAQL for the cloud":        {resource("OS::Nova::Server", "image: {yaql: {expression: $.x, data: 1}}"), nil},
		"a function that was":       {config("config: {'Fn::Join': ['', [a]]}"), []string{"27 error x: Fn::Join is no function any more, since 2014-10-16", "27 error x: config: want text, got a mapping"}},
		"a function that never was": {"outputs:\n  x: {value: {get_atr: [first, address]}}\n", []string{"25 warning : get_atr is data here: there is no such function"}},

		// Types and properties.
		"a type of the cloud":          {"  x:\n    type: OS::Neutron::Net\n", []string{"25 note x: OS::Neutron::Net is left to the cloud, with all that is in it"}},
		"an unknown property":          {config("config: a\n      tool: b"), []string{"28 warning x: OS::Heat::SoftwareConfig has no property tool"}},
		"a missing property":           {resource("OS::Heat::SoftwareDeployment", "config: {get_resource: config}\n      input_values: {peer: 1}"), []string{"26 error x: OS::Heat::SoftwareDeployment wants the property server"}},
		"a list for text":              {config("config: [a]"), []string{"27 error x: config: want text, got a list"}},
		"text for a list":              {config("inputs: a"), []string{"27 error x: inputs: want a list, got text"}},
		"text for a mapping":           {config("options: a"), []string{"27 error x: options: want a mapping, got text"}},
		"text for a list of the cloud": {resource("OS::Nova::Server", "networks: a"), []string{"27 warning x: networks: want a list, got text"}},
		"text for a number":            {resource("OS::Heat::RandomString", "length: many"), []string{`27 error x: length: want a whole number, got "many"`}},
		"no configs":                   {resource("OS::Heat::SoftwareComponent", "configs: []"), []string{"27 error x: configs: want at least 1"}},
		"an unknown transport":         {deployment("signal_transport: PIGEON, input_values: {peer: 1}"), []string{`26 error x: signal_transport: want one of CFN_SIGNAL, TEMP_URL_SIGNAL, HEAT_SIGNAL, NO_SIGNAL, ZAQAR_SIGNAL; got "PIGEON"`}},
		"an unknown action":            {deployment("actions: [CREATE, REPAIR], input_values: {peer: 1}"), []string{`26 error x: actions: want one of CREATE, UPDATE, DELETE, SUSPEND, RESUME; got "REPAIR"`}},
		"a policy that is none": {deployment("input_values: {peer: 1}") + "    metadata: {windsock: {timeout: soon, retries: -1, speed: 9}}\n",
			[]string{`27 error x: metadata: windsock.retries: want 0 to 1000, got -1`, "27 warning x: metadata: windsock.speed means nothing", `27 error x: metadata: windsock.timeout: want a whole number, got "soon"`}},

		"an output twice":  {"outputs:\n  a: {value: 1}\n  a: {value: 2}\n", []string{"26 warning : a stands on line 25 already; the last counts"}},
		"a property twice": {config("config: a\n      options: {}\n      config: b"), []string{"29 warning : config stands on line 27 already; the last counts"}},

		// Configs.
		"an input without a name":  {config("inputs: [{type: String}]"), []string{"27 error x: inputs: want mappings with a name"}},
		"an input twice":           {config("inputs:\n      - {name: a}\n      - {name: a}"), []string{"29 error x: inputs: a stands there already"}},
		"an unknown type of input": {config("inputs: [{name: a, type: Float}]"), []string{`27 error x: inputs: want as type one of String, Number, CommaDelimitedList, Json, Boolean; got "Float"`}},
		"an unknown key":           {config("outputs: [{name: a, default: 1}]"), []string{"27 warning x: outputs: default means nothing there"}},
		"a config without a tool":  {resource("OS::Heat::SoftwareComponent", "configs: [{config: a}]"), []string{"27 error x: configs: want mappings with a config and its tool"}},
		"two configs for an action": {resource("OS::Heat::SoftwareComponent", "configs:\n      - {config: a, tool: script}\n      - {config: b, tool: script, actions: [DELETE, UPDATE], wait: 1}"),
			[]string{"29 error x: configs: there are two for UPDATE", "29 warning x: configs: wait means nothing there"}},

		// Deployments.
		"a config that is none":         {"  x:\n    type: OS::Heat::SoftwareDeployment\n    properties:\n      config: {get_resource: server}\n      server: {get_resource: server}\n", []string{"27 error x: config: server is a OS::Nova::Server, which is no config to run"}},
		"a config by its name":          {"  x:\n    type: OS::Heat::SoftwareDeployment\n    properties:\n      config: config\n      server: {get_resource: server}\n", []string{"27 error x: config: config is text here; for the resource write {get_resource: config}"}},
		"a config that is elsewhere":    {"  x:\n    type: OS::Heat::SoftwareDeployment\n    properties:\n      config: 0c3e1e5a\n      server: {get_resource: server}\n", []string{"27 error x: config: want {get_resource: …} of a config that stands here"}},
		"no config":                     {"  x:\n    type: OS::Heat::SoftwareDeployment\n    properties:\n      server: {get_resource: server}\n", []string{"26 warning x: it has no config: there is nothing to run"}},
		"a server that is none":         {"  x:\n    type: OS::Heat::SoftwareDeploymentGroup\n    properties:\n      config: {get_resource: config}\n      servers:\n        a: {get_resource: config}\n      input_values: {peer: 1}\n", []string{"29 error x: server: config is a OS::Heat::SoftwareConfig, which is no server"}},
		"a server that may be one":      {"  net: {type: My::Net}\n  x:\n    type: OS::Heat::SoftwareDeployment\n    properties:\n      config: {get_resource: config}\n      server: {get_resource: net}\n      input_values: {peer: 1}\n", []string{"24 note net: My::Net is left to the cloud, with all that is in it", "29 warning x: server: net is a My::Net, which may be no server"}},
		"a server by its name":          {"  x:\n    type: OS::Heat::SoftwareDeployment\n    properties:\n      config: {get_resource: config}\n      server: server\n      input_values: {peer: 1}\n", []string{"28 warning x: server: server is text here; for the resource write {get_resource: server}"}},
		"an input that all are given":   {"  own: {type: OS::Heat::StructuredConfig, properties: {config: {done: {get_input: deploy_signal_id}}}}\n  x: {type: OS::Heat::StructuredDeployment, properties: {config: {get_resource: own}, server: {get_resource: server}, input_values_validate: STRICT}}\n", nil},
		"an input that is not given":    {deployment("input_values: {port: 1}"), []string{"26 warning x: input_values: the input peer of config is not given, and has no default"}},
		"an input that is not declared": {deployment("input_values: {peer: 1, pear: 2}"), []string{"26 warning x: input_values: config has no input pear"}},
		"an input that has to be given": {"  structured: {type: OS::Heat::StructuredConfig, properties: {config: {a: {get_input: b}}}}\n  x:\n    type: OS::Heat::StructuredDeployment\n    properties:\n      config: {get_resource: structured}\n      server: {get_resource: server}\n      input_values_validate: STRICT\n",
			[]string{"27 error x: input_values: the input b of structured is not given, and has no default"}},
		"two of one name on one server": {deployment("input_values: {peer: 1}, name: a") + strings.Replace(deployment("input_values: {peer: 1}, name: a"), "x:", "y:", 1),
			[]string{"29 warning y: x is on server under the name a, too"}},

		// Conditions and groups.
		"a handle for nothing":     {"  x:\n    type: OS::Heat::WaitConditionHandle\n", []string{"24 warning x: no condition waits for what is signalled to it"}},
		"a handle that is none":    {resource("OS::Heat::WaitCondition", "handle: {get_resource: server}\n      timeout: 1"), []string{"27 error x: handle: server is a OS::Nova::Server, which is no handle"}},
		"a handle elsewhere":       {"  x:\n    type: OS::Heat::WaitCondition\n    properties: {handle: {get_resource: cloud}, timeout: 1}\n  cloud: {type: OS::Neutron::Net}\n", []string{"26 error x: handle: cloud is a OS::Neutron::Net, which is no handle", "27 note cloud: OS::Neutron::Net is left to the cloud, with all that is in it"}},
		"a handle for updates":     {"  x:\n    type: OS::Heat::WaitCondition\n    properties: {handle: {get_resource: cfn}, timeout: 1}\n  cfn: {type: OS::Heat::UpdateWaitConditionHandle}\n", nil},
		"a handle by its name":     {resource("OS::Heat::WaitCondition", "handle: server\n      timeout: 1"), []string{"27 error x: handle: want {get_resource: …} of a handle"}},
		"a timeout out of range":   {resource("OS::Heat::SwiftSignal", "handle: {get_param: image}\n      timeout: 43201"), []string{"28 error x: timeout: want 1 to 43200, got 43201"}},
		"a count out of range":     {resource("OS::Heat::SwiftSignal", "handle: {get_param: image}\n      timeout: 1\n      count: 0"), []string{"29 error x: count: want 1 to 1000, got 0"}},
		"a count below one":        {resource("OS::Heat::WaitCondition", "handle: {get_param: image}\n      timeout: 1\n      count: -1"), []string{"29 error x: count: want at least 1, got -1"}},
		"a group of nothing":       {resource("OS::Heat::ResourceGroup", "resource_def: {properties: {}, kind: a}\n      count: -1"), []string{"27 warning x: resource_def: kind means nothing there", "27 error x: resource_def: want a type", "28 error x: count: want at least 0, got -1"}},
		"a group of bad resources": {resource("OS::Heat::ResourceGroup", "resource_def:\n        type: OS::Heat::WaitCondition\n        properties:\n          count: 0\n          handle: a"), []string{"29 error x: OS::Heat::WaitCondition wants the property timeout", "30 error x: count: want at least 1, got 0", "31 error x: handle: want {get_resource: …} of a handle"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, findings(t, base+c.more, nil)); diff != "" {
				t.Errorf("%s\nfound (-want +got):\n%s", c.more, diff)
			}
		})
	}
}

func TestFindingsByVersion(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"a function of later": {"heat_template_version: 2014-10-16\nresources: {x: {type: OS::Heat::Value, properties: {value: {digest: [md5, a]}}}}\n",
			[]string{"2 warning x: digest is data here: it is a function only since 2015-04-30"}},
		"a function of then": {"heat_template_version: 2013-05-23\nparameters: {p: {type: string}}\nresources: {x: {type: OS::Heat::Value, properties: {value: {'Fn::Join': [a, [{Ref: p}, {Ref: x2}]]}}}}\n",
			[]string{"3 error x: Ref: there is no resource x2"}},
		"an attribute that is all": {"heat_template_version: 2015-04-30\nresources: {a: {type: OS::Heat::None}}\noutputs: {x: {value: {get_attr: [a]}}}\n",
			[]string{"3 error : get_attr: want a list of a resource and its attribute"}},
		"conditions of later": {"heat_template_version: 2016-04-08\nconditions: {a: true}\nresources:\n  a: {type: OS::Heat::None, condition: a}\n",
			[]string{"2 error : conditions: there are none before 2016-10-14", "4 error : resource a: condition means nothing there", "4 error a: there is no condition a"}},
		"defaults that cannot be": {"heat_template_version: rocky\nparameters:\n  a:\n    type: number\n    default: many\n  b:\n    type: string\n    constraints: [{allowed_values: [x, z], description: as it is}]\n    default: y\n  c: {type: string, default: }\nresources: {}\n",
			[]string{
				"5 warning : parameter a: its default cannot be taken, so that it has to be given: want a number",
				`9 warning : parameter b: its default cannot be taken, so that it has to be given: want one of ["x","z"] (as it is)`,
			}},
		"a condition that stands for itself": {"heat_template_version: pike\nconditions:\n  a: {not: b}\n  b: {and: [a, true]}\nresources: {}\n",
			[]string{"3 error : condition a stands for itself"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, findings(t, c.source, nil)); diff != "" {
				t.Errorf("%s\nfound (-want +got):\n%s", c.source, diff)
			}
		})
	}
}

func TestNestedTemplatesAreLookedAt(t *testing.T) {
	outer := "heat_template_version: rocky\nresources:\n  a:\n    type: inner/a.yaml\n    properties: {size: 1}\n"
	nested := "heat_template_version: rocky\nparameters: {size: {type: number}}\nresources:\n  wait: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, timeout: 1}}\n  h: {type: OS::Heat::WaitConditionHandle}\n  s: {type: OS::Nova::Server, properties: {user_data: {get_file: a.sh}}}\noutputs: {o: {value: 1}}\n"
	for name, c := range map[string]struct {
		source string
		files  map[string]string
		want   []string
	}{
		"good": {outer + "outputs: {x: {value: {get_attr: [a, o]}}, y: {value: {get_attr: [a, resource.s, name]}}}\n",
			map[string]string{"inner/a.yaml": nested, "inner/a.sh": "x"}, nil},
		"not there":      {outer, nil, []string{"4 warning a: the template inner/a.yaml was not sent along: it cannot be deployed without"}},
		"elsewhere":      {strings.Replace(outer, "inner/", "../", 1), nil, []string{"4 warning a: the template ../a.yaml is outside of the template's folder: it is not read"}},
		"no template":    {outer, map[string]string{"inner/a.yaml": "a:\n- b"}, []string{"inner/a.yaml:1 error : want a template with heat_template_version, or with components"}},
		"a missing file": {outer, map[string]string{"inner/a.yaml": nested}, []string{"inner/a.yaml:6 note s: get_file: a.sh was not sent along"}},
		"a missing parameter": {strings.Replace(outer, "size", "seize", 1), map[string]string{"inner/a.yaml": nested, "inner/a.sh": ""},
			[]string{"5 error a: inner/a.yaml has no parameter seize", "5 error a: inner/a.yaml wants the parameter size"}},
		"no such output": {outer + "outputs: {x: {value: {get_attr: [a, p]}}}\n", map[string]string{"inner/a.yaml": nested, "inner/a.sh": "x"},
			[]string{"6 warning : get_attr: a has no attribute p"}},
		"within itself": {"heat_template_version: rocky\nresources: {a: {type: a.yaml}}\n", map[string]string{"a.yaml": "heat_template_version: rocky\nresources:\n  b: {type: b.yaml}\n", "b.yaml": "heat_template_version: rocky\nresources:\n\n  a: {type: a.yaml}\n"},
			[]string{"b.yaml:4 error a: the template a.yaml is nested within itself"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, findings(t, c.source, c.files)); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
	template, err := Parse(outer, map[string]string{"inner/a.yaml": nested})
	if err != nil {
		t.Fatal(err)
	}
	s := template.Check()
	if diff := cmp.Diff([][]string{{"a.wait"}, {"a.s"}}, [][]string{s.Components, s.Instances}); diff != "" {
		t.Errorf("components and instances (-want +got):\n%s", diff)
	}
}

func TestTooManyNestedComponentsAreRefused(t *testing.T) {
	files := map[string]string{}
	for level := range 4 {
		typ := fmt.Sprintf("%d.yaml", level+1)
		if level == 3 {
			typ = "OS::Heat::SoftwareDeployment"
		}
		text := "heat_template_version: rocky\nresources:\n"
		for i := range 20 {
			text += fmt.Sprintf("  r%d: {type: %s}\n", i, typ)
		}
		files[fmt.Sprintf("%d.yaml", level)] = text
	}
	template, err := Parse(files["0.yaml"], files)
	if err != nil {
		t.Fatal(err)
	}
	s := template.Check()
	want := windsock.Finding{Line: 1, Severity: windsock.SeverityError, Text: "more than 10000 components or servers, with all that is nested"}
	if len(s.Findings) == 0 || s.Findings[0] != want || len(s.Components) > maxNames+1 {
		t.Errorf("of 160,000: %d names, first finding %+v", len(s.Components), s.Findings[0])
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	files := map[string]string{}
	for i := range 10 {
		files[fmt.Sprintf("%d.yaml", i)] = fmt.Sprintf("heat_template_version: rocky\nresources: {a: {type: %d.yaml}}\n", i+1)
	}
	want := []string{"5.yaml:2 error a: the template 6.yaml is nested deeper than 5"}
	if diff := cmp.Diff(want, findings(t, files["0.yaml"], files)[:1]); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestFindingsAreNotWithoutEnd(t *testing.T) {
	source := "heat_template_version: rocky\noutputs:\n"
	for i := range 3 * maxFindings {
		source += fmt.Sprintf("  o%d: {value: {get_attr: [nobody, x]}}\n", i)
	}
	s := parsed(t, source).Check()
	want := windsock.Finding{Line: 1, Severity: windsock.SeverityError, Text: "more than 1000 findings; these are the first"}
	if got := s.Findings[len(s.Findings)-1]; got != want || len(s.Findings) != maxFindings+1 || s.Findings[0].Line != 3 {
		t.Errorf("%d findings from line %d on, the last %+v", len(s.Findings), s.Findings[0].Line, got)
	}
}
