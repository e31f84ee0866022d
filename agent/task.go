package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"windsock"
)

// A task is a windsock.Task as far as the agent looks into it. Hooks are given what
// windsock sent, byte for byte.
type task struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	DeploymentID string            `json:"deployment_id"`
	Action       windsock.Action   `json:"action"`
	Group        string            `json:"group"`
	Config       json.RawMessage   `json:"config"`
	Options      map[string]any    `json:"options"`
	Inputs       []input           `json:"inputs"`
	Outputs      []windsock.Output `json:"outputs"`
	DeadlineAt   time.Time         `json:"deadline_at"`
	SignalURL    string            `json:"signal_url"`

	raw []byte
}

type input struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

func parseTask(raw []byte) (*task, error) {
	t := &task{raw: raw}
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, err
	}
	if t.ID == "" {
		return nil, fmt.Errorf("a component without an id")
	}
	return t, nil
}

// component is the same for every run of it.
func (t *task) component() string { return t.DeploymentID + "/" + t.Name }

// silent reports whether nobody waits for the result: that it began completes it, so that
// it is not listed any more while it still runs.
func (t *task) silent() bool {
	return t.SignalURL == "" || slices.ContainsFunc(t.Inputs, func(in input) bool {
		return in.Name == "deploy_signal_transport" && in.text() == "NO_SIGNAL"
	})
}

// text is the config, if it is one.
func (t *task) text() (string, error) {
	var text string
	if err := json.Unmarshal(t.Config, &text); len(t.Config) > 0 && err != nil {
		return "", fmt.Errorf("its config has to be a text for the hook %q", t.Group)
	}
	return text, nil
}

// text is the value as an environment variable has it: what is no text is JSON, spaced as
// Heat's hooks do.
func (in input) text() string {
	var text string
	if len(in.Value) == 0 || json.Unmarshal(in.Value, &text) == nil { // null leaves it empty
		return text
	}
	value := jsontext.Value(in.Value).Clone()
	value.Format(jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true)) // it was parsed before
	return string(value)
}

// A result is what a hook says that came of a task, as it is signalled.
type result map[string]any

// What a result has; the reason only if it is one of ours.
const (
	stdoutKey = "deploy_stdout"
	stderrKey = "deploy_stderr"
	statusKey = "deploy_status_code"
	reasonKey = "deploy_status_reason"
)

// parseResult returns nil for what is no JSON object.
func parseResult(text []byte) result {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var r result
	if d.Decode(&r) != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	return r
}

// result is what came of a program that says it by its exit status alone.
func (p printed) result() result {
	return result{stdoutKey: p.stdout, stderrKey: p.stderr, statusKey: p.code}
}

// failed is r with a reason of ours why it failed.
func (r result) failed(reason error) result {
	f := result{stdoutKey: "", stderrKey: "", statusKey: 1}
	maps.Copy(f, r)
	f[reasonKey] = "windsock agent: " + reason.Error()
	if fmt.Sprint(f[statusKey]) == "0" {
		f[statusKey] = 1
	}
	return f
}
