package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windsock/components"
)

func TestDeployableCheckEndsBySeverity(t *testing.T) {
	dir := t.TempDir()
	args := func(names ...string) []string {
		list := []string{"deployable", "check"}
		for _, name := range names {
			list = append(list, filepath.Join(dir, name))
		}
		return list
	}
	for name, text := range map[string]string{
		"good":    "components: {a: {config: x}}\ninstances: {s: {components: [a]}}\n",
		"warning": "components: {a: {config: x}}\ninstances: {s: }\n",
		"error":   "components: {a: {}}\ninstances: {s: {components: [a]}}\n",
		"broken":  "a: [",
		"large":   "#" + strings.Repeat(" ", components.MaxSource),
		"names":   "components: {a: {config: {get_file: large}}}\ninstances: {s: {components: [a]}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for names, want := range map[string]int{
		"good": 0, "warning good": 0, "error good": 1, "error broken": 2, "broken error": 2, "missing": 2, "large": 2, "names": 2,
	} {
		if got := run(context.Background(), args(strings.Fields(names)...), io.Discard, io.Discard); got != want {
			t.Errorf("%s: ended with %d, want %d", names, got, want)
		}
	}
}
