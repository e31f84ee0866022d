package components_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windsock"
	"windsock/components"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drive runs the components of a plan, the servers that are needed being there, one after
// the other in any order that the graph allows: each produces whatever it declares. It
// returns what is known in the end.
func drive(plan windsock.Plan, pick func(n int) int) (windsock.Known, error) {
	known := windsock.Known{}
	for _, i := range plan.Instances {
		known[i.Name] = windsock.Produced{ID: "id of " + i.Name, Attributes: map[string]any{
			"name": i.Name, "address": "10.0.0.1", "addresses": []any{"10.0.0.1"}, "metadata": map[string]any{}}}
	}
	for _, c := range plan.Components {
		if c.Handle != "" {
			known[c.Handle] = windsock.Produced{Attributes: map[string]any{
				"endpoint": "http://w/" + c.Name, "token": "t", "curl_cli": "curl http://w/" + c.Name, "signal": "{}"}}
		}
	}
	done := map[string]bool{}
	left := slices.Clone(plan.Components)
	for len(left) > 0 {
		var ready []int
		for i, c := range left {
			if !slices.ContainsFunc(c.After, func(a string) bool { return !done[a] }) {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 {
			return nil, fmt.Errorf("%d components never become available, %s among them", len(left), left[0].Name)
		}
		i := ready[pick(len(ready))]
		c := left[i]
		left = slices.Delete(left, i, i+1)
		visible := windsock.Known{} // what the component says that it refers to, and no more
		for _, name := range c.Refers {
			p, ok := known[name]
			if !ok {
				return nil, fmt.Errorf("%s refers to %s, of which nothing is known when its turn comes", c.Name, name)
			}
			visible[name] = p
		}
		attributes := map[string]any{"data": "{}"}
		if c.Kind == windsock.KindSoftware {
			attributes = map[string]any{"deploy_stdout": "out of " + c.Name, "deploy_stderr": "", "deploy_status_code": 0.0}
			for _, o := range c.Outputs {
				attributes[o.Name] = o.Name + " of " + c.Name
			}
			for _, action := range c.Actions {
				job, err := components.Resolve(c.Spec, action, visible)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", c.Name, err)
				}
				all, err := components.Resolve(c.Spec, action, known)
				one, _ := json.Marshal(job)
				other, _ := json.Marshal(all)
				if err != nil || !bytes.Equal(one, other) {
					return nil, fmt.Errorf("%s is one job with what it refers to, and another with all that is known:\n%s\n%s", c.Name, one, other)
				}
			}
		}
		done[c.Name] = true
		known[c.Name] = windsock.Produced{ID: "id of " + c.Name, Attributes: attributes}
	}
	return known, nil
}

// TestTemplatesArePlannedAndDriven plans ours, and the public ones where they are, with
// made-up parameters. What one needs beside these it has to name: it is given that, and
// asked again.
func TestTemplatesArePlannedAndDriven(t *testing.T) {
	dir := cmp.Or(os.Getenv("WINDSOCK_TEST_HOT"), filepath.FromSlash("../../shared/fixtures/hot"))
	public, _ := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if len(public) == 0 {
		t.Log("there are no public templates; name their folder in WINDSOCK_TEST_HOT")
	}
	ours, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(ours) == 0 {
		t.Fatal("there are no templates: ", err)
	}
	for _, file := range slices.Concat(ours, public) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d := windsock.Deployable{Source: string(source), Files: map[string]string{
				"random.yaml":                 "heat_template_version: 2015-04-30\nparameters: {index: {type: string}, lengths: {type: comma_delimited_list}}\noutputs: {value: {value: {get_param: [lengths, {get_param: index}]}}}\n",
				"volume_with_attachment.yaml": "heat_template_version: 2015-04-30\nparameters: {instance_id: {type: string}, volume_size: {type: number}}\n",
			}}
			parsed, err := components.Parse(d.Source, nil)
			if err != nil {
				t.Fatal(err)
			}
			spec := windsock.DeploymentSpec{ID: "d", Parameters: map[string]any{}}
			for _, p := range parsed.Parameters {
				if !p.HasDefault {
					spec.Parameters[p.Name] = map[string]any{"number": 60.0, "boolean": true, "json": map[string]any{}}[p.Type]
					if spec.Parameters[p.Name] == nil {
						spec.Parameters[p.Name] = "x"
					}
				}
			}
			plan, err := components.Planner{}.Plan(d, spec)
			for range 20 {
				var field *windsock.FieldError
				if !errors.As(err, &field) {
					break
				}
				_, rest, _ := strings.Cut(field.Detail, "get_file: file ")
				name, _, ok := strings.Cut(rest, " was not sent along")
				if !ok {
					t.Fatal(err)
				}
				d.Files[name] = "content of " + name
				plan, err = components.Planner{}.Plan(d, spec)
			}
			if err != nil {
				t.Fatal(err)
			}
			known, err := drive(plan, rand.IntN)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range plan.Outputs {
				v, err := components.ValueOf(o.Spec, known)
				t.Logf("output %s: %v", o.Name, v)
				if err != nil {
					t.Errorf("output %s: %v", o.Name, err)
				}
			}
			for _, line := range draw(plan) {
				t.Log(line)
			}
		})
	}
}

// TestAnyGraphIsPlannedAndDriven makes templates whose components refer to those before
// them in every way there is.
func TestAnyGraphIsPlannedAndDriven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := randomTemplate(t)
		files := map[string]string{"inner.yaml": `
heat_template_version: 2021-04-16
parameters: {x: {}, server: {type: string}}
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {outputs: [{name: o}]}}
  deploy: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: config}, server: {get_param: server}, input_values: {x: {get_param: x}}}}
outputs: {o: {value: {get_attr: [deploy, o]}}}
`}
		files["inner.yaml"] = strings.Replace(files["inner.yaml"], "x: {}", "x: {type: json}", 1)
		d := windsock.Deployable{Source: source, Files: files}
		spec := windsock.DeploymentSpec{ID: "d"}
		if _, err := (components.Planner{}).Read(d); err != nil {
			t.Fatalf("%v\n%s", err, source)
		}
		plan, err := components.Planner{}.Plan(d, spec)
		if err != nil {
			t.Fatalf("%v\n%s", err, source)
		}
		again, _ := components.Planner{}.Plan(d, spec)
		if diff := gocmp.Diff(plan, again); diff != "" {
			t.Fatalf("two plans of one template differ:\n%s\n%s", diff, source)
		}
		known, err := drive(plan, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		if err != nil {
			t.Fatalf("%v\n%s", err, source)
		}
		for _, o := range plan.Outputs { // everything is known now
			v, err := components.ValueOf(o.Spec, known)
			if text, _ := json.Marshal(v); err != nil || strings.Contains(string(text), "null") {
				t.Fatalf("output %s is %s, error %v\n%s", o.Name, text, err, source)
			}
		}
	})
}

// randomTemplate writes a template in which each resource may refer to those before it.
func randomTemplate(t *rapid.T) string {
	resources := map[string]any{
		"s0":     map[string]any{"type": "OS::Nova::Server"},
		"s1":     map[string]any{"type": "OS::Nova::Server"},
		"group":  map[string]any{"type": "OS::Heat::ResourceGroup", "properties": map[string]any{"count": 2, "resource_def": map[string]any{"type": "OS::Nova::Server"}}},
		"config": map[string]any{"type": "OS::Heat::SoftwareConfig", "properties": map[string]any{"outputs": []any{map[string]any{"name": "o"}}}},
	}
	attr := func(path ...any) any { return map[string]any{"get_attr": path} }
	ref := func(name string) any { return map[string]any{"get_resource": name} }
	values := []any{"text", 1, attr("s0", "first_address"), attr("group", "first_address"), ref("s1"), attr("group", "refs")}
	names := []string{"s0", "group"}
	value := func() any {
		v := rapid.SampledFrom(values).Draw(t, "value")
		list := []any{v, rapid.SampledFrom(values).Draw(t, "value")}
		return rapid.SampledFrom([]any{
			v, list, map[string]any{"k": v},
			map[string]any{"list_join": []any{",", list}},
			map[string]any{"str_replace": map[string]any{"template": "a x b", "params": map[string]any{"x": v}}},
			map[string]any{"repeat": map[string]any{"template": map[string]any{"V": "V"}, "for_each": map[string]any{"V": list}}},
			map[string]any{"digest": []any{"md5", map[string]any{"list_join": []any{"", list}}}},
			map[string]any{"if": []any{true, v, map[string]any{"get_file": "not sent"}}},
		}).Draw(t, "how")
	}
	outputs := map[string]any{}
	for i := range rapid.IntRange(1, 12).Draw(t, "resources") {
		name := fmt.Sprintf("r%d", i)
		r := map[string]any{}
		server := rapid.SampledFrom([]any{ref("s0"), ref("s1"), attr("group", "refs", 1), attr("group", "resource.0")}).Draw(t, "server")
		put := map[string]any{"config": ref("config"), "server": server, "input_values": map[string]any{"x": value(), "y": value()}}
		var produced any
		switch kind := rapid.IntRange(0, 7).Draw(t, "kind"); kind {
		case 0:
			r["type"], r["properties"] = "OS::Heat::Value", map[string]any{"value": value()}
			produced = attr(name, "value")
		case 1:
			handle := name + "_handle"
			resources[handle] = map[string]any{"type": "OS::Heat::WaitConditionHandle"}
			values = append(values, attr(handle, "curl_cli"))
			r["type"], r["properties"] = "OS::Heat::WaitCondition", map[string]any{"handle": ref(handle), "timeout": 60, "count": 2}
			produced = attr(name, "data")
		case 2:
			delete(put, "server")
			put["servers"] = attr("group", "refs_map")
			r["type"], r["properties"] = "OS::Heat::SoftwareDeploymentGroup", put
			produced = attr(name, rapid.SampledFrom([]any{"o", "deploy_stdouts"}).Draw(t, "attribute"))
		case 3:
			r["type"], r["properties"] = "inner.yaml", map[string]any{"server": server, "x": []any{value()}}
			produced = attr(name, "o")
		case 4:
			r["type"] = "OS::Heat::ResourceGroup"
			r["properties"] = map[string]any{"count": 2, "resource_def": map[string]any{"type": "inner.yaml", "properties": map[string]any{"server": server, "x": []any{value(), "%index%"}}}}
			produced = attr(name, "resource.1.o")
		default:
			r["type"], r["properties"] = "OS::Heat::SoftwareDeployment", put
			produced = rapid.SampledFrom([]any{attr(name, "o"), attr(name, "deploy_stdout"), ref(name)}).Draw(t, "produced")
		}
		if rapid.Bool().Draw(t, "depends") {
			r["depends_on"] = rapid.SampledFrom(names).Draw(t, "on")
		}
		resources[name] = r
		names = append(names, name)
		values = append(values, produced)
		outputs[name] = map[string]any{"value": produced}
	}
	text, err := json.Marshal(map[string]any{"heat_template_version": "2021-04-16", "resources": resources, "outputs": outputs})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FuzzPlan plans whatever it is given, and resolves what comes out of it.
func FuzzPlan(f *testing.F) {
	f.Add(base, `{"n": 3}`)
	f.Add(base+"  x: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: hello}, server: {get_resource: a}, input_values: {to: {repeat: {template: x, for_each: {x: {get_attr: [a, addresses]}}}}}}}\n", `{}`)
	f.Add(functionTemplate+"outputs: {v: {value: {if: [yes_, {get_param: [p, 0]}]}}}\n", `{"p": [{"$call": "attr"}]}`)
	for _, source := range nested {
		f.Add(source, `{"config": "x"}`)
	}
	f.Fuzz(func(t *testing.T, source, parameters string) {
		var given map[string]any
		if json.Unmarshal([]byte(parameters), &given) != nil {
			return
		}
		plan, err := newPlan(source, given)
		if err != nil {
			var field *windsock.FieldError
			if !errors.As(err, &field) {
				t.Errorf("%v is no FieldError", err)
			}
			return
		}
		for _, c := range plan.Components {
			for _, known := range []windsock.Known{nil, {"a": {Attributes: given}}} {
				_, _ = components.Resolve(c.Spec, windsock.ActionCreate, known)
			}
		}
		for _, o := range plan.Outputs {
			_, _ = components.ValueOf(o.Spec, nil)
		}
	})
}

// FuzzResolve gives it specs that no plan has made.
func FuzzResolve(f *testing.F) {
	f.Add([]byte(`{"group": "script", "inputs": [{"name": "x", "value": {"$call": "attr", "$args": ["a", "x"]}}]}`), `{"x": 1}`)
	f.Add([]byte(`{"actions": {"CREATE": {"config": {"$call": "select", "$args": []}}}}`), `{}`)
	f.Fuzz(func(t *testing.T, spec []byte, attributes string) {
		var known map[string]any
		_ = json.Unmarshal([]byte(attributes), &known)
		of := windsock.Known{"a": {Attributes: known}}
		one, err := components.Resolve(spec, windsock.ActionCreate, of)
		two, again := components.Resolve(spec, windsock.ActionCreate, of)
		a, _ := json.Marshal(one)
		b, _ := json.Marshal(two)
		if !bytes.Equal(a, b) || fmt.Sprint(err) != fmt.Sprint(again) {
			t.Errorf("twice the same, and got %s, %v and %s, %v", a, err, b, again)
		}
		_, _ = components.ValueOf(spec, of)
	})
}

// large is a template of n components on 100 servers, each with data of two others.
func large(n int) string {
	var b strings.Builder
	b.WriteString("heat_template_version: 2018-08-31\nresources:\n")
	b.WriteString("  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, inputs: [{name: x}, {name: y}], outputs: [{name: o}], config: '" + strings.Repeat("echo hello; ", 85) + "'}}\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  s%d: {type: OS::Nova::Server}\n", i)
	}
	for i := range n {
		fmt.Fprintf(&b, "  c%d: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: config}, server: {get_resource: s%d}", i, i%100)
		if i >= 100 {
			fmt.Fprintf(&b, ", input_values: {x: {get_attr: [c%d, o]}, y: {list_join: [',', [{get_attr: [c%d, deploy_stdout]}]]}}", i-100, i-37)
		}
		b.WriteString("}}\n")
	}
	return b.String()
}

func BenchmarkPlan(b *testing.B) {
	source := large(10_000)
	b.SetBytes(int64(len(source)))
	for b.Loop() {
		if plan, err := newPlan(source, nil); err != nil || len(plan.Components) != 10_000 {
			b.Fatal(err)
		}
	}
}

// BenchmarkTemplatePlan leaves out the reading of YAML.
func BenchmarkTemplatePlan(b *testing.B) {
	template, err := components.Parse(large(10_000), nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := template.Plan(windsock.DeploymentSpec{ID: "d"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	plan, err := newPlan(large(101), nil)
	if err != nil {
		b.Fatal(err)
	}
	spec := plan.Components[100].Spec
	known := windsock.Known{"c0": {Attributes: map[string]any{"o": "x"}}, "c63": {Attributes: map[string]any{"deploy_stdout": "y"}}}
	for b.Loop() {
		if _, err := components.Resolve(spec, windsock.ActionCreate, known); err != nil {
			b.Fatal(err)
		}
	}
}
