package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// What may come next is asked by COMP_LINE.
func TestCompletion(t *testing.T) {
	for line, want := range map[string][]string{
		"windsock se":                   {"serve"},
		"windsock serve --log-":         {"--log-format", "--log-level"},
		"windsock deployable ":          {"check", "graph"},
		"windsock completion ":          {"bash", "fish", "zsh"},
		"windsock there-is-no-such-thi": nil,
	} {
		t.Setenv("COMP_LINE", line)
		var out, errs bytes.Buffer
		if status := run(t.Context(), nil, &out, &errs); status != 0 || errs.Len() > 0 {
			t.Errorf("%s: status %d, %s", line, status, errs.String())
		}
		got := strings.Fields(out.String())
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// The shells that are here take what they are given.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out, errs bytes.Buffer
		if status := run(t.Context(), []string{"completion", shell}, &out, &errs); status != 0 || !strings.Contains(out.String(), "complete ") {
			t.Fatalf("%s: %s%s", shell, out.String(), errs.String())
		}
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not here", shell)
			continue
		}
		if said, err := exec.CommandContext(t.Context(), shell, "-c", out.String()).CombinedOutput(); err != nil || len(said) > 0 {
			t.Errorf("%s: %v\n%s", shell, err, said)
		}
	}
}

// Every command and every flag says what it is for, and every flag its default.
func TestHelpIsComplete(t *testing.T) {
	parser := kong.Must(&commands{}, defaults, kong.Name("windsock"))
	n := 0
	err := kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		switch v := node.(type) {
		case *kong.Node:
			if v.Type == kong.CommandNode && v.Help == "" {
				t.Errorf("%s has no help", v.FullPath())
			}
		case *kong.Value:
			if v.Help == "" {
				t.Errorf("the argument %s has no help", v.Name)
			}
		case *kong.Flag:
			if n++; v.Help == "" {
				t.Errorf("--%s has no help", v.Name)
			}
			// Without a placeholder the help shows the default in its place.
			if v.HasDefault && v.PlaceHolder != "" && !strings.Contains(v.Help, "default "+v.Default) {
				t.Errorf("--%s does not say that its default is %s", v.Name, v.Default)
			}
		}
		return next(nil)
	})
	if err != nil || n < 30 {
		t.Errorf("%d flags, %v", n, err)
	}
}
