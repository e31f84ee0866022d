package windsock

import (
	"fmt"
	"testing"
	"time"
)

func TestBlame(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(seconds int) time.Time { return noon.Add(-time.Duration(seconds) * time.Second) }
	for name, tc := range map[string]struct {
		since   time.Time
		parents []Parent
		why     string
		until   time.Time
	}{
		"it depends on nothing":              {ago(0), nil, "", time.Time{}},
		"a parent is down, since whenever":   {ago(3600), []Parent{{"a", Running, ago(9999), false}, {"b", Failed, ago(9999), false}}, "depends on b, which is failed", time.Time{}},
		"a parent was stopped":               {ago(3600), []Parent{{"a", Stopped, ago(9999), false}}, "depends on a, which is stopped", time.Time{}},
		"a parent is on its way":             {ago(3600), []Parent{{"a", Starting, ago(9999), false}}, "depends on a, which is starting", time.Time{}},
		"a parent may be about to fail":      {ago(10), []Parent{{"a", Running, ago(9999), false}}, "depends on a, which may be about to fail", noon.Add(20 * time.Second)},
		"nobody would say that it fails":     {ago(10), []Parent{{"a", Running, ago(9999), true}}, "", time.Time{}},
		"somebody would of another":          {ago(10), []Parent{{"a", Running, ago(9999), true}, {"b", Running, ago(9999), false}}, "depends on b, which may be about to fail", noon.Add(20 * time.Second)},
		"a parent has just come back":        {ago(3600), []Parent{{"a", Running, ago(5), false}, {"b", Running, ago(7), false}}, "depends on a, which is running only since then", noon.Add(25 * time.Second)},
		"all is as it was":                   {ago(30), []Parent{{"a", Running, ago(30), false}}, "", time.Time{}},
		"a parent that runs, if not wholly":  {ago(31), []Parent{{"a", Degraded, ago(31), false}}, "", time.Time{}},
		"a parent of which nothing is known": {ago(31), []Parent{{"a", Unknown, time.Time{}, false}}, "", time.Time{}},
	} {
		if why, until := Blame(tc.parents, tc.since, noon); why != tc.why || !until.Equal(tc.until) {
			t.Errorf("%s: %q until %v, want %q until %v", name, why, until, tc.why, tc.until)
		}
	}
}

func TestDependsOn(t *testing.T) {
	t.Parallel()
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf("host-%d", i)
	}
	for _, tc := range []struct {
		on   []string
		good bool
	}{{nil, true}, {[]string{"a", "b"}, true}, {many[:100], true}, {many, false}, {[]string{"a", "a"}, false}, {[]string{"shop"}, false}, {[]string{"a b"}, false}, {[]string{""}, false}} {
		spec := DeploymentSpec{ID: "shop", DependsOn: tc.on}
		if err := spec.Complete(); (err == nil) != tc.good {
			t.Errorf("%d of %.3q: %v", len(tc.on), tc.on, err)
		}
	}
}
