// Package prometheus checks what deploy has for those who look by Prometheus and Grafana.
// Its script run has a real Prometheus read it.
package prometheus

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	metric = regexp.MustCompile(`\bwindsock_[a-z_]+`)
	label  = regexp.MustCompile(`([a-z_]+)(?:=|=~|!=)"|by \(([a-z_, ]+)\)`)
	suffix = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// given are the labels that Prometheus has of its own.
var given = []string{"instance", "job", "le"}

// The dashboard and the rules name metrics and labels that there are.
func TestMetricsAreThere(t *testing.T) {
	source := sources(t)
	for _, path := range []string{"deploy/grafana/windsock.json", "deploy/prometheus/alerts.yaml"} {
		text := read(t, path)
		if strings.HasSuffix(path, ".json") {
			if !json.Valid([]byte(text)) {
				t.Errorf("%s is no JSON", path)
			}
			text = strings.ReplaceAll(text, `\"`, `"`)
		}
		names := metric.FindAllString(text, -1)
		if len(names) < 10 {
			t.Errorf("%s names %d metrics", path, len(names))
		}
		for _, name := range names {
			if !strings.Contains(source, `"`+name+`"`) && !strings.Contains(source, `"`+suffix.ReplaceAllString(name, "")+`"`) {
				t.Errorf("%s: there is no metric %s", path, name)
			}
		}
		for _, m := range label.FindAllStringSubmatch(text, -1) {
			for name := range strings.SplitSeq(m[1]+m[2], ",") {
				if name = strings.TrimSpace(name); !slices.Contains(given, name) && !strings.Contains(source, `"`+name+`"`) {
					t.Errorf("%s: no metric has a label %s", path, name)
				}
			}
		}
	}
}

// sources is the text of all that has metrics.
func sources(t *testing.T) (text string) {
	for _, dir := range []string{"api", "store", "monitors", "observer", "cmd/windsock"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, path := range files {
			text += read(t, strings.TrimPrefix(path, "../../"))
		}
	}
	return text
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
