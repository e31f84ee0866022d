package components

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"windsock"
)

// A run evaluates what a plan left to be known at run time.
type run struct {
	known  windsock.Known
	budget int
	strict bool // what is not known leaves the calls around it unknown; otherwise it is null
}

// unknown stands for what is not known yet, within the evaluation of an output.
type unknown struct{}

// Resolve makes a job of the spec of a windsock.PlannedComponent. The same arguments give
// the same job to the byte. An output that a component has not produced is null.
func Resolve(spec []byte, action windsock.Action, known windsock.Known) (windsock.Job, error) {
	body, err := decode(spec)
	if err != nil {
		return windsock.Job{}, err
	}
	if actions, ok := body["actions"].(map[string]any); ok {
		of, ok := actions[string(action)].(map[string]any)
		if !ok {
			return windsock.Job{}, fmt.Errorf("there is nothing to run for %s", action)
		}
		body["group"], body["config"] = of["group"], of["config"]
	}
	delete(body, "actions") // the other ones may refer to what is not known
	r := run{known: known, budget: maxWork}
	v, err := r.eval(body)
	if err != nil {
		return windsock.Job{}, err
	}
	body = v.(map[string]any)
	job := windsock.Job{Group: textOf(body["group"]), Config: body["config"]}
	if structured, _ := body["structured"].(bool); !structured {
		job.Config = textOf(body["config"])
	} else if job.Config == nil {
		job.Config = map[string]any{}
	}
	if job.Options, err = wantMap(body["options"], "options"); err != nil {
		return windsock.Job{}, err
	}
	if job.Inputs, err = jobInputs(body); err != nil {
		return windsock.Job{}, err
	}
	job.Outputs, err = outputsOf(body["outputs"])
	return job, err
}

func jobInputs(body map[string]any) ([]windsock.Input, error) {
	inputs := []windsock.Input{}
	add := func(name string, typ, description, value any) {
		in := windsock.Input{Name: name, Type: textOf(typ), Description: textOf(description), Value: value}
		if in.Type == "" {
			in.Type = "String"
		}
		inputs = append(inputs, in)
	}
	list, _ := body["inputs"].([]any)
	for _, e := range list {
		m, _ := e.(map[string]any)
		if m["value"] == nil {
			m["value"] = m["default"]
		}
		add(textOf(m["name"]), m["type"], m["description"], m["value"])
	}
	more, err := wantMap(body["more"], "input_values")
	for _, name := range sortedKeys(more) {
		if !slices.ContainsFunc(inputs, func(in windsock.Input) bool { return in.Name == name }) {
			add(name, nil, nil, more[name])
		}
	}
	return inputs, err
}

// ValueOf is the value of the spec of a windsock.PlannedOutput: nil, or nil within it,
// where something is not known yet.
func ValueOf(spec []byte, known windsock.Known) (any, error) {
	body, err := decode(spec)
	if err != nil {
		return nil, err
	}
	r := run{known: known, budget: maxWork, strict: true}
	v, err := r.eval(body["value"])
	if err != nil {
		return nil, err
	}
	return shownValue(v), nil
}

// shownValue has null for what is unknown.
func shownValue(v any) any {
	switch v := v.(type) {
	case unknown:
		return nil
	case []any:
		for i, e := range v {
			v[i] = shownValue(e)
		}
	case map[string]any:
		for k, e := range v {
			v[k] = shownValue(e)
		}
	}
	return v
}

func decode(spec []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(spec))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("the plan of it cannot be read")
	}
	body, ok := decoded(v).(map[string]any)
	if !ok {
		return nil, errors.New("the plan of it cannot be read")
	}
	return body, nil
}

func (r *run) eval(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			var err error
			if list[i], err = r.eval(e); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		m := make(map[string]any, len(v))
		for _, k := range sortedKeys(v) { // so that of two errors it is always the same
			var err error
			if m[k], err = r.eval(v[k]); err != nil {
				return nil, err
			}
		}
		return m, nil
	case *pending:
		args, err := r.eval(v.args)
		if err != nil {
			return nil, err
		}
		if hasUnknown(args) {
			return unknown{}, nil
		}
		if isRef(v.fn) {
			return r.ref(v.fn, args)
		}
		return apply(v.fn, args, &r.budget)
	}
	return v, nil
}

func hasUnknown(v any) bool {
	switch v := v.(type) {
	case unknown:
		return true
	case []any:
		return slices.ContainsFunc(v, hasUnknown)
	case map[string]any:
		for _, e := range v {
			if hasUnknown(e) {
				return true
			}
		}
	}
	return false
}

// ref looks up what is known of a resource.
func (r *run) ref(fn string, args any) (any, error) {
	list, _ := args.([]any)
	if len(list) == 0 {
		return nil, errors.New("the plan of it cannot be read")
	}
	name := textOf(list[0])
	if fn == refName {
		return name, nil
	}
	of, ok := r.known[name]
	var v any
	switch {
	case !ok:
	case fn == refID, len(list) > 1 && fn == refForeign && list[1] == "id":
		if v = of.ID; v == "" {
			v = nil
		}
	case len(list) < 2:
	case fn == refServer, fn == refForeign:
		v = serverAttribute(of, list[1:])
	default:
		v = at(normalize(of.Attributes[textOf(list[1])]), list[2:])
	}
	if v == nil && r.strict && (!ok || fn == refID || len(list) > 1 && of.Attributes[textOf(list[1])] == nil) {
		return unknown{}, nil
	}
	return v, charge(&r.budget, weigh(v, r.budget))
}

// serverAttribute gives Heat's attributes of a server of what is known of an instance: of
// its addresses nobody says in which network they are, so that they are in whichever is
// asked for.
func serverAttribute(of windsock.Produced, steps []any) any {
	name := textOf(steps[0])
	rest := steps[1:]
	addresses, _ := normalize(of.Attributes["addresses"]).([]any)
	switch name {
	case "first_address":
		return of.Attributes["address"]
	case "accessIPv4", "accessIPv6":
		return firstOf(append([]any{of.Attributes["address"]}, addresses...), name == "accessIPv4")
	case "networks":
		if len(rest) == 0 {
			return nil
		}
		return at(addresses, rest[1:])
	case "addresses":
		if len(rest) == 0 {
			return nil
		}
		var ports []any
		for _, a := range addresses {
			ports = append(ports, map[string]any{"addr": a})
		}
		return at(ports, rest[1:])
	case "instance_name":
		name = "name"
	case "show":
		show := map[string]any{"id": of.ID}
		for k, v := range of.Attributes {
			show[k] = normalize(v)
		}
		return at(show, rest)
	}
	return at(normalize(of.Attributes[name]), rest)
}

// firstOf returns the first address of a kind.
func firstOf(addresses []any, v4 bool) any {
	for _, a := range addresses {
		if ip, err := netip.ParseAddr(textOf(a)); err == nil && ip.Unmap().Is4() == v4 {
			return a
		}
	}
	return nil
}
