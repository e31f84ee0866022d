package components_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"windsock"
	"windsock/components"
)

// functionCases have YAML; P is a value that is known when the plan is made in one run of
// a case, and in the other only at run time. A want that begins with ! is an error.
var functionCases = map[string]struct {
	p, expr, want string
}{
	"get_param follows a path":               {`{"a": [{"b": 7}]}`, `{get_param: [p, v, a, 0, b]}`, `7`},
	"get_param of what is not there":         {`{"a": 1}`, `{get_param: [p, v, b]}`, `""`},
	"get_param with an index as text":        {`["x", "y"]`, `{get_param: [p, v, "1"]}`, `"y"`},
	"get_param with a computed path":         {`{"a": 1, "b": 2}`, `{get_param: [p, v, {list_join: ["", [b]]}]}`, `2`},
	"an unknown parameter":                   {`1`, `{get_param: nobody}`, `!get_param: there is no parameter nobody`},
	"get_file":                               {`1`, `{get_file: some.txt}`, `"text of it"`},
	"a file that was not sent":               {`1`, `{get_file: other.txt}`, `!get_file: file other.txt was not sent along`},
	"str_replace":                            {`"x"`, `{str_replace: {template: "a $v b $v", params: {$v: P}}}`, `"a x b x"`},
	"str_replace takes the longest first":    {`"1"`, `{str_replace: {template: "ab abc", params: {ab: P, abc: "2"}}}`, `"1 2"`},
	"str_replace leaves what it put in":      {`"b"`, `{str_replace: {template: "a", params: {a: P, b: c}}}`, `"b"`},
	"str_replace writes maps as JSON":        {`{"k": [1, true]}`, `{str_replace: {template: v, params: {v: P}}}`, `"{\"k\":[1,true]}"`},
	"str_replace writes scalars as Python":   {`[1.5, true]`, `{str_replace: {template: "a b c", params: {a: {get_param: [p, v, 0]}, b: true, c: null}}}`, `"1.5 True "`},
	"str_replace wants text":                 {`["secret"]`, `{str_replace: {template: P, params: {}}}`, `!want the template as text, got a list`},
	"str_replace_strict":                     {`"x"`, `{str_replace_strict: {template: a, params: {a: P}}}`, `"x"`},
	"str_replace_strict finds all":           {`"x"`, `{str_replace_strict: {template: a, params: {a: P, b: P}}}`, `!do not stand in the template`},
	"str_replace_vstrict":                    {`""`, `{str_replace_vstrict: {template: a, params: {a: P}}}`, `!some of params are empty`},
	"str_split":                              {`"a,b,,c"`, `{str_split: [",", P]}`, `["a", "b", "", "c"]`},
	"str_split with an index":                {`"a,b"`, `{str_split: [",", P, 1]}`, `"b"`},
	"str_split beyond the end":               {`"a,b"`, `{str_split: [",", P, 2]}`, `!want an index of 0 to 1`},
	"str_split of nothing":                   {`{}`, `{str_split: [",", {get_attr: [c, none]}]}`, `null`},
	"list_join":                              {`["a", "b"]`, `{list_join: [", ", P, [c], [{k: 1}, null]]}`, `"a, b, c, {\"k\":1}, "`},
	"list_join of no list":                   {`"secret"`, `{list_join: [",", P]}`, `!want what is to be joined as a list, got text`},
	"list_concat":                            {`["a"]`, `{list_concat: [P, null, P, [b]]}`, `["a", "a", "b"]`},
	"list_concat_unique":                     {`["a", 1]`, `{list_concat_unique: [P, [b, 1, a]]}`, `["a", 1, "b"]`},
	"repeat":                                 {`["a", "b"]`, `{repeat: {template: {"<%v%>": "x <%v%>"}, for_each: {"<%v%>": P}}}`, `[{"a": "x a"}, {"b": "x b"}]`},
	"repeat takes all permutations":          {`["a", "b"]`, `{repeat: {template: "V W", for_each: {V: P, W: ["1", "2"]}}}`, `["a 1", "a 2", "b 1", "b 2"]`},
	"repeat without permutations":            {`["a", "b"]`, `{repeat: {template: "V W", for_each: {V: P, W: ["1", "2"]}, permutations: false}}`, `["a 1", "b 2"]`},
	"repeat of unequal lists":                {`["a"]`, `{repeat: {template: "V W", for_each: {V: P, W: ["1", "2"]}, permutations: false}}`, `!equally long`},
	"repeat over the keys of a map":          {`{"k": 1, "l": 2}`, `{repeat: {template: V, for_each: {V: P}}}`, `["k", "l"]`},
	"repeat over nothing":                    {`[]`, `{repeat: {template: V, for_each: {V: P}}}`, `[]`},
	"map_merge":                              {`{"a": 1, "b": 1}`, `{map_merge: [P, null, {b: 2}]}`, `{"a": 1, "b": 2}`},
	"map_merge of no map":                    {`"secret"`, `{map_merge: [P]}`, `!want each item as a map, got text`},
	"map_replace":                            {`{"k1": "v1", "k2": "v2"}`, `{map_replace: [P, {keys: {k1: K1}, values: {v2: V2}}]}`, `{"K1": "v1", "k2": "V2"}`},
	"map_replace collides":                   {`{"k1": "v1", "k2": "v2"}`, `{map_replace: [P, {keys: {k1: k2}}]}`, `!is there already`},
	"digest":                                 {`"x"`, `{digest: [sha256, P]}`, `"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"`},
	"digest md5":                             {`"x"`, `{digest: [MD5, P]}`, `"9dd4e461268c8034f5c8564e155c67a6"`},
	"digest of another kind":                 {`"x"`, `{digest: [crc, P]}`, `!want md5, sha1`},
	"filter":                                 {`["1", "2", "3"]`, `{filter: [["3"], P]}`, `["1", "2"]`},
	"contains":                               {`["a", "b"]`, `{contains: [b, P]}`, `true`},
	"contains, not":                          {`["a", "b"]`, `{contains: [c, P]}`, `false`},
	"make_url":                               {`"::1"`, `{make_url: {scheme: http, username: u, password: "p/", host: P, port: 80, path: /a b, query: {q: a/b c}, fragment: f}}`, `"http://u:p%2F@[::1]:80/a%20b?q=a/b+c#f"`},
	"make_url of a host alone":               {`"h"`, `{make_url: {host: P}}`, `"//h"`},
	"make_url with a bad port":               {`70000`, `{make_url: {host: h, port: P}}`, `!want a port of 1 to 65535`},
	"if takes a branch":                      {`1`, `{if: [yes_, P, {get_param: nobody}]}`, `1`},
	"if takes the other":                     {`1`, `{if: [{not: yes_}, {get_param: nobody}, P]}`, `1`},
	"if without else leaves an item out":     {`1`, `[{if: [{not: yes_}, x]}, P]`, `[1]`},
	"if without else leaves a key out":       {`1`, `{k: {if: [{not: yes_}, x]}, l: P}`, `{"l": 1}`},
	"if of no condition":                     {`1`, `{if: [nobody, 1, 2]}`, `!there is no condition nobody`},
	"and":                                    {`1`, `{if: [{and: [yes_, {equals: [1, 1]}, true]}, a, b]}`, `"a"`},
	"or":                                     {`1`, `{if: [{or: [{not: yes_}, {equals: [a, b]}]}, a, b]}`, `"b"`},
	"equals compares numbers":                {`1`, `{if: [{equals: [1, 1.0]}, a, b]}`, `"a"`},
	"equals of text and number":              {`1`, `{if: [{equals: ["1", 1]}, a, b]}`, `"b"`},
	"contains as a condition":                {`1`, `{if: [{contains: [x, [x]]}, a, b]}`, `"a"`},
	"conditions are data elsewhere":          {`1`, `[{equals: [1, 1]}, {not: P}]`, `[{"equals": [1, 1]}, {"not": 1}]`},
	"yaql is refused":                        {`1`, `{yaql: {expression: $.data, data: P}}`, `!yaql: windsock has no YAQL`},
	"resource_facade is refused":             {`1`, `{resource_facade: metadata}`, `!resource_facade: there is no resource`},
	"calls within calls":                     {`"b,a"`, `{list_join: ["-", {list_concat_unique: [{str_split: [",", P]}, [a, c]]}]}`, `"b-a-c"`},
	"a map that looks like a call":           {`{"get_param": "p"}`, `{v: P}`, `{"v": {"get_param": "p"}}`},
	"what the plan is written in":            {`{"$call": "attr", "$args": ["c"]}`, `{v: P, w: {$literal: {x: 1}}}`, `{"v": {"$call": "attr", "$args": ["c"]}, "w": {"$literal": {"x": 1}}}`},
	"the name of the deployment":             {`1`, `[{get_param: "OS::stack_name"}, {get_param: "OS::stack_id"}, {get_param: "OS::region"}]`, `["d", "d", ""]`},
	"get_attr with a path":                   {`1`, `[{get_attr: [c, deploy_stdout, 0]}, {get_attr: [c, {get_attr: [c, p]}]}]`, `!want an attribute's name`},
	"get_attr of what nobody declared":       {`1`, `[{get_attr: [c, nobody]}]`, `null`},
	"get_attr of nobody":                     {`1`, `{get_attr: [nobody, x]}`, `!there is no resource nobody`},
	"get_attr without an attribute":          {`1`, `{get_attr: [wait]}`, `{"data": null}`},
	"get_resource of a component":            {`1`, `{get_resource: c}`, `"id of c"`},
	"get_resource of a config":               {`1`, `{get_resource: config}`, `"config"`},
	"an output that is not there yet":        {`1`, `{a: {get_attr: [c, none]}, b: P, c: {str_replace: {template: x, params: {x: {get_attr: [c, none]}}}}}`, `{"a": null, "b": 1, "c": null}`},
	"what refers to itself":                  {`1`, `{get_attr: [loop, value]}`, `!it refers to itself`},
	"a Value":                                {`"1,2"`, `{get_attr: [list, value, 1]}`, `"2"`},
	"an exponential bomb":                    {`["0123456789", "0123456789"]`, `{repeat: {template: x, for_each: {` + bomb() + `}}}`, `!it grows too large`},
	"a bomb of references":                   {`1`, `{get_attr: [b9, value]}`, `!it grows too large`},
	"what is left out by its condition":      {`1`, `{get_attr: [dropped, value]}`, `!resource dropped is left out by its condition`},
	"a computed name is not shown":           {`"secret"`, `{get_attr: [P, value]}`, `!`},
	"a foreign resource":                     {`1`, `{get_attr: [port, fixed_ips, 0]}`, `null`},
	"an attribute that was given":            {`1`, `{get_attr: [given, fixed_ips, 0]}`, `"10.0.0.9"`},
	"the id that was given":                  {`1`, `{get_resource: given}`, `"id of given"`},
	"None has all attributes":                {`1`, `{get_attr: [none, whatever]}`, `null`},
	"digest of pending lists is an error":    {`["secret"]`, `{digest: [md5, P]}`, `!want the value as text, got a list`},
	"a list of what is not there is shorter": {`[]`, `{list_join: [",", P]}`, `""`},
}

// bomb is a for_each of 10^20 permutations.
func bomb() string {
	var s strings.Builder
	for c := 'a'; c < 'u'; c++ {
		s.WriteString(string(c) + `: ["0","1","2","3","4","5","6","7","8","9"], `)
	}
	return s.String() + "y: P"
}

const functionTemplate = `
heat_template_version: 2021-04-16
parameters:
  p: {type: json}
  hidden: {type: string, default: secret, hidden: true}
conditions:
  yes_: {equals: [{get_param: hidden}, secret]}
resources:
  server: {type: OS::Nova::Server}
  config: {type: OS::Heat::SoftwareConfig, properties: {outputs: [{name: p}, {name: none}]}}
  c: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: config}, server: {get_resource: server}}}
  handle: {type: OS::Heat::WaitConditionHandle}
  wait: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: handle}, timeout: 60}}
  loop: {type: OS::Heat::Value, properties: {value: [{get_attr: [loop, value]}]}}
  list: {type: OS::Heat::Value, properties: {type: comma_delimited_list, value: "1,2"}}
  dropped: {type: OS::Heat::Value, condition: {not: yes_}, properties: {value: 1}}
  none: {type: OS::Heat::None}
  port: {type: OS::Neutron::Port}
  given: {type: OS::Neutron::Port}
`

func TestFunctions(t *testing.T) {
	source := functionTemplate
	for i := range 10 {
		source += "  b" + string('0'+rune(i)) + ": {type: OS::Heat::Value, properties: {value: ["
		for range 20 {
			source += "{get_attr: [b" + string('0'+rune(i-1)) + ", value]}, "
		}
		source += "]}}\n"
	}
	source = strings.ReplaceAll(source, "{get_attr: [b/, value]}", "x")
	for name, c := range functionCases {
		for _, p := range []string{"{get_param: [p, v]}", "{get_attr: [c, p]}"} {
			if p != "{get_param: [p, v]}" && !strings.Contains(c.expr, "P") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				expr := strings.NewReplacer("P}", p+"}", "P,", p+",", "P]", p+"]").Replace(c.expr)
				got, err := evaluate(t, source+"outputs: {v: {value: "+expr+"}}\n", c.p)
				if want, isError := strings.CutPrefix(c.want, "!"); isError {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Fatalf("%s: got %s and error %v, want %q", expr, got, err, want)
					}
					if strings.Contains(err.Error(), "secret") {
						t.Fatalf("%s: %v shows a secret", expr, err)
					}
					return
				}
				var want any
				if err := json.Unmarshal([]byte(c.want), &want); err != nil {
					t.Fatal(err)
				}
				if text, _ := json.Marshal(want); err != nil || got != string(text) {
					t.Fatalf("%s: got %s and error %v, want %s", expr, got, err, text)
				}
			})
		}
	}
}

// evaluate plans a template and returns its output v as JSON, when c has produced p.
func evaluate(t *testing.T, source, p string) (string, error) {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(p), &value); err != nil {
		t.Fatal(err)
	}
	template, err := components.Parse(source, map[string]string{"some.txt": "text of it"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := template.Plan(windsock.DeploymentSpec{ID: "d", Parameters: map[string]any{
		"p":          map[string]any{"v": value},
		"attributes": map[string]any{"given": map[string]any{"fixed_ips": []any{"10.0.0.9"}, "id": "id of given"}},
	}})
	if err != nil {
		var field *windsock.FieldError
		if !errors.As(err, &field) {
			t.Errorf("%v is no FieldError", err)
		}
		return "", err
	}
	v, err := components.ValueOf(plan.Outputs[0].Spec, windsock.Known{
		"c": {ID: "id of c", Attributes: map[string]any{"p": value}},
	})
	text, _ := json.Marshal(v)
	return string(text), err
}

// TestOldFunctions shows what the first version had, and that a version's functions are
// its own: what is none yet, or no more, is data.
func TestOldFunctions(t *testing.T) {
	for expr, want := range map[string]string{
		`{"Fn::Join": [",", [a, {Ref: p}]]}`:      `"a,x"`,
		`{"Fn::Split": [",", "a,b"]}`:             `["a","b"]`,
		`{"Fn::Select": [1, [a, b]]}`:             `"b"`,
		`{"Fn::Select": [k, {k: v}]}`:             `"v"`,
		`{"Fn::Replace": [{v: {Ref: p}}, "a v"]}`: `"a x"`,
		`{"Fn::Base64": {Ref: p}}`:                `"x"`,
		`{Ref: config}`:                           `"config"`,
		`{Ref: "OS::stack_id"}`:                   `"d"`,
		`{map_merge: [{a: 1}, {b: 2}]}`:           `{"map_merge":[{"a":1},{"b":2}]}`,
		`{if: [a, b, c]}`:                         `{"if":["a","b","c"]}`,
	} {
		plan, err := newPlan(`
heat_template_version: 2013-05-23
parameters: {p: {type: string, default: x}}
resources: {config: {type: OS::Heat::SoftwareConfig}}
outputs: {v: {value: `+expr+"}}\n", nil)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		v, err := components.ValueOf(plan.Outputs[0].Spec, nil)
		if text, _ := json.Marshal(v); err != nil || string(text) != want {
			t.Errorf("%s: got %s and error %v, want %s", expr, text, err, want)
		}
	}
	for _, expr := range []string{`{"Fn::GetAZs": ""}`, `{"Fn::MemberListToMap": []}`, `{"Fn::ResourceFacade": x}`} {
		if _, err := newPlan("heat_template_version: 2013-05-23\noutputs: {v: {value: "+expr+"}}\n", nil); err == nil || !strings.Contains(err.Error(), expr[2:10]) {
			t.Errorf("%s: got error %v, want one that names it", expr, err)
		}
	}
}
