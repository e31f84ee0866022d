package components

import (
	"errors"
	"fmt"
	"slices"

	"windsock"
)

// ungrouped is Heat's: of software that no hook is named for.
const ungrouped = "Heat::Ungrouped"

// software returns what a deployment runs, with what is known at run time left in it:
//
//	group, config     what is to be run, or by the action (actions: {CREATE: {group, config}})
//	options, outputs  as the config has them
//	inputs            [{name, type, description, value, default}] in the config's order
//	more              a pending map of values for inputs that the config does not declare
func (p *planner) software(n *node, c *windsock.PlannedComponent) (map[string]any, error) {
	config, err := n.config()
	if err != nil {
		return nil, err
	}
	body := map[string]any{"group": ungrouped, "config": ""}
	var declared any
	if config != nil {
		part := func(name string) (v any) {
			if err == nil {
				if v, err = config.prop(name); err != nil {
					err = fmt.Errorf("%s: %w", config.name, err)
				}
			}
			return v
		}
		declared = part("inputs")
		body["options"] = part("options")
		body["outputs"] = part("outputs")
		if config.typ.Class == Config {
			if group := part("group"); group != nil {
				body["group"] = group
			}
			body["config"] = part("config")
			body["structured"] = config.typ.Structured
		} else {
			body = map[string]any{"options": body["options"], "outputs": body["outputs"], "actions": part("configs")}
		}
		if err != nil {
			return nil, err
		}
		if c.Outputs, err = n.outputs(); err != nil {
			return nil, err
		}
	}
	values, err := n.prop("input_values")
	if err != nil {
		return nil, err
	}
	if err := inputs(body, declared, values); err != nil {
		return nil, err
	}
	if n.typ.Structured && body["config"] != nil {
		if body["config"], err = n.fill(body); err != nil {
			return nil, err
		}
	}
	if configs, ok := body["actions"]; ok {
		if body["actions"], err = byAction(configs, c); err != nil {
			return nil, fmt.Errorf("%s: %w", config.name, err)
		}
		return body, nil
	}
	group, ok := body["group"].(string)
	if !ok {
		return nil, fmt.Errorf("%s: group: it has to be known before anything runs", config.name)
	}
	c.Group = group
	c.Actions, err = n.actions()
	return body, err
}

// config returns the config that a deployment deploys; nil: none is given.
func (n *node) config() (*node, error) {
	v, err := n.prop("config")
	if err != nil || v == nil {
		return nil, err
	}
	c := n.scope.p.refers(v)
	if c == nil || c.typ.Class != Config && c.typ.Class != Lifecycle {
		return nil, errors.New("config: want get_resource of a software config in this deployable")
	}
	return c, nil
}

// outputs returns what a deployment declares beside the three of all.
func (n *node) outputs() ([]windsock.Output, error) {
	c, err := n.config()
	if err != nil || c == nil {
		return nil, err
	}
	v, err := c.knownProp("outputs")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	outputs, err := outputsOf(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return outputs, nil
}

// outputsOf reads the outputs that a config declares.
func outputsOf(v any) ([]windsock.Output, error) {
	list, _ := v.([]any)
	outputs := []windsock.Output{}
	for _, e := range list {
		m, _ := e.(map[string]any)
		name, ok := m["name"].(string)
		if !ok {
			return nil, errors.New("outputs: want maps with a name")
		}
		outputs = append(outputs, windsock.Output{Name: name, Type: textOf(m["type"]), Error: isTrue(m["error_output"])})
	}
	return outputs, nil
}

func (n *node) declares(output string) (bool, error) {
	if slices.Contains(deployAttributes, output) {
		return true, nil
	}
	outputs, err := n.outputs()
	return slices.ContainsFunc(outputs, func(o windsock.Output) bool { return o.Name == output }), err
}

// actions returns those of a deployment's actions that there are here.
func (n *node) actions() ([]windsock.Action, error) {
	v, err := n.knownProp("actions")
	if err != nil {
		return nil, err
	}
	if v == nil {
		return []windsock.Action{windsock.ActionCreate, windsock.ActionUpdate}, nil
	}
	list, err := wantList(v, "actions")
	return ours(list), err
}

// ours returns which of our actions are in a list; those of Heat's that windsock does not
// take (SUSPEND, RESUME) are left out.
func ours(list []any) []windsock.Action {
	var actions []windsock.Action
	for _, a := range []windsock.Action{windsock.ActionCreate, windsock.ActionUpdate, windsock.ActionDelete} {
		if slices.Contains(list, any(string(a))) {
			actions = append(actions, a)
		}
	}
	return actions
}

// byAction makes {action: {group, config}} of the configs of a SoftwareComponent.
func byAction(v any, c *windsock.PlannedComponent) (map[string]any, error) {
	configs, err := wantList(v, "configs")
	if err != nil {
		return nil, err
	}
	by := map[string]any{}
	var all []any
	for _, e := range configs {
		m, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("configs: want maps, got %s", kindOf(e))
		}
		actions, ok := m["actions"].([]any)
		if m["actions"] == nil {
			actions, ok = []any{"CREATE", "UPDATE"}, true
		}
		tool, hasTool := m["tool"].(string)
		if !ok || !hasTool {
			return nil, errors.New("configs: want a tool and a list of actions for each")
		}
		for _, a := range ours(actions) {
			if by[string(a)] != nil {
				return nil, fmt.Errorf("configs: there are two for %s", a)
			}
			by[string(a)] = map[string]any{"group": tool, "config": m["config"]}
			all = append(all, string(a))
			if len(all) == 1 {
				c.Group = tool
			}
		}
	}
	c.Actions = ours(all)
	return by, nil
}

// inputs puts into body the inputs that a config declares, and those that it is given all
// the same, as Heat does.
func inputs(body map[string]any, declared, values any) error {
	list, ok := declared.([]any)
	if !ok && declared != nil {
		return fmt.Errorf("inputs: want a list, got %s", kindOf(declared))
	}
	given, isMap := values.(map[string]any)
	if _, isPending := values.(*pending); !isMap && !isPending && values != nil {
		return fmt.Errorf("input_values: want a map, got %s", kindOf(values))
	}
	all := []any{}
	seen := map[string]bool{}
	for _, e := range list {
		m, _ := e.(map[string]any)
		name, ok := m["name"].(string)
		if !ok {
			return errors.New("inputs: want maps with a name")
		}
		if seen[name] {
			return fmt.Errorf("inputs: there are two named %s", name)
		}
		seen[name] = true
		input := map[string]any{"name": name, "value": m["default"]}
		for _, key := range [...]string{"type", "description"} {
			if m[key] != nil {
				input[key] = m[key]
			}
		}
		if v, ok := given[name]; ok {
			input["value"] = v
		} else if values != nil && !isMap {
			input["value"], input["default"] = at(values, []any{name}), m["default"]
		}
		all = append(all, input)
	}
	for _, name := range sortedKeys(given) {
		if !seen[name] {
			all = append(all, map[string]any{"name": name, "value": given[name]})
		}
	}
	body["inputs"] = all
	if values != nil && !isMap {
		body["more"] = values
	}
	return nil
}

// fill puts the inputs of a structured deployment where its config has get_input.
func (n *node) fill(body map[string]any) (any, error) {
	key, err := n.knownProp("input_key")
	if err != nil {
		return nil, err
	}
	if key == nil {
		key = "get_input"
	}
	strict, err := n.knownProp("input_values_validate")
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, e := range body["inputs"].([]any) {
		input := e.(map[string]any)
		values[input["name"].(string)] = input["value"]
	}
	var put func(v any) (any, error)
	put = func(v any) (any, error) {
		switch v := v.(type) {
		case []any:
			list := make([]any, len(v))
			for i, e := range v {
				if list[i], err = put(e); err != nil {
					return nil, err
				}
			}
			return list, nil
		case map[string]any:
			if name, ok := v[textOf(key)].(string); ok && len(v) == 1 {
				value, ok := values[name]
				switch {
				case ok:
				case slices.Contains(windsock.GivenInputs[:], name):
					value = &pending{refOutput, []any{"", name}}
				case strict == "STRICT":
					return nil, fmt.Errorf("config: input %s is not given", name)
				}
				return value, charge(&n.scope.p.budget, weigh(value, n.scope.p.budget))
			}
			m := make(map[string]any, len(v))
			for k, e := range v {
				if m[k], err = put(e); err != nil {
					return nil, err
				}
			}
			return m, nil
		}
		return v, nil
	}
	return put(body["config"])
}
