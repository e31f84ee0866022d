package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// outputsVariable is where a script finds the beginning of the names of the files in which
// it leaves its outputs.
const outputsVariable = "heat_outputs_path"

// script runs the config, with the inputs as environment variables, as Heat's hook of
// that name does. One without "#!" is for the shell.
func (h *hooks) script(ctx context.Context, t *task, dir string) (result, error) {
	text, err := t.text()
	if err != nil {
		return nil, err
	}
	file, outputs := filepath.Join(dir, "script"), filepath.Join(dir, "output")
	p := h.program(t, dir, file)
	for _, in := range t.Inputs {
		if in.Name == "" || strings.ContainsAny(in.Name, "=\x00") {
			return nil, fmt.Errorf("the input %q cannot be an environment variable", in.Name)
		}
		p.env = append(p.env, in.Name+"="+in.text())
	}
	p.env = append(p.env, outputsVariable+"="+outputs)
	if err := writeExecutable(file, text); err != nil {
		return nil, err
	}
	out, err := p.run(ctx)
	if errors.Is(err, syscall.ENOEXEC) {
		p.path, p.args = "/bin/sh", []string{file}
		out, err = p.run(ctx)
	}
	if err != nil {
		return out.result(), err
	}
	return t.collect(out, outputs)
}

// ansible runs the config, a playbook, on this machine, with the inputs as variables.
func (h *hooks) ansible(ctx context.Context, t *task, dir string) (result, error) {
	playbook := t.Config
	if text, err := t.text(); err == nil {
		playbook = []byte(text)
	} // else it is a structure, and JSON is YAML, too
	if len(playbook) == 0 {
		return printed{}.result(), nil
	}
	tool, err := exec.LookPath("ansible-playbook")
	if err != nil {
		return nil, fmt.Errorf("missing tool: %w", err)
	}
	outputs := filepath.Join(dir, "output")
	variables := map[string]any{outputsVariable: outputs, "heat_config_id": t.ID}
	for _, in := range t.Inputs {
		variables[in.Name] = in.Value
	}
	given, err := json.Marshal(variables)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "playbook.yaml"), playbook, 0o600),
		os.WriteFile(filepath.Join(dir, "variables.json"), given, 0o600))
	if err != nil {
		return nil, err
	}
	args := []string{"-i", "localhost,", "-c", "local", "-e", "@variables.json"}
	for option, flag := range map[string]string{"tags": "--tags", "skip_tags": "--skip-tags"} {
		if value, _ := t.Options[option].(string); value != "" {
			args = append(args, flag+"="+value)
		}
	}
	p := h.program(t, dir, tool, append(args, "playbook.yaml")...)
	out, err := p.run(ctx)
	if err != nil {
		return out.result(), err
	}
	return t.collect(out, outputs)
}

// collect adds to what was printed the declared outputs that lie in files.
func (t *task) collect(out printed, outputs string) (result, error) {
	r := out.result()
	for _, declared := range t.Outputs {
		if strings.Contains(declared.Name, "/") {
			return r, fmt.Errorf("the output %q cannot be the name of a file", declared.Name)
		}
		file, err := os.Open(outputs + "." + declared.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return r, err
		}
		text := &capture{half: maxStream / 2}
		_, err = io.Copy(text, file)
		file.Close()
		if err != nil {
			return r, err
		}
		r[declared.Name] = text.String()
	}
	return r, nil
}

// writeExecutable writes a program that may be started at once: a process that is
// being forked meanwhile would hold it open for writing, and the kernel starts no such
// program ("text file busy").
func writeExecutable(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o700)
}
