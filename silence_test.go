package windsock

import (
	"errors"
	"testing"
	"time"
)

func TestSilencesAreChecked(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	good := func() SilenceSpec {
		return SilenceSpec{Scope: "deployment:shop", Author: "alice", Reason: "disk swap", Duration: Duration(time.Hour)}
	}
	s := good()
	if err := s.Complete(noon); err != nil || !s.StartsAt.Equal(noon) || !s.EndsAt.Equal(noon.Add(time.Hour)) || s.Duration != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	for field, spoil := range map[string]func(*SilenceSpec){
		"scope":          func(s *SilenceSpec) { s.Scope = "" },
		"scope ":         func(s *SilenceSpec) { s.Scope = "rack:7" },
		"author":         func(s *SilenceSpec) { s.Author = "" },
		"reason":         func(s *SilenceSpec) { s.Reason = "" },
		"duration":       func(s *SilenceSpec) { s.EndsAt = noon.Add(time.Hour) },
		"ends_at":        func(s *SilenceSpec) { s.Duration = 0 },
		"ends_at ":       func(s *SilenceSpec) { s.Duration, s.EndsAt = 0, noon },
		"ends_at  ":      func(s *SilenceSpec) { s.Duration = Duration(367 * 24 * time.Hour) },
		"ends_at   ":     func(s *SilenceSpec) { s.StartsAt, s.Duration = noon.Add(-time.Hour), Duration(time.Minute) },
		"starts_at":      func(s *SilenceSpec) { s.StartsAt, s.Duration, s.EndsAt = time.Unix(5, 0), 0, noon.Add(time.Hour) },
		"metadata.a\x00": func(s *SilenceSpec) { s.Metadata = map[string]string{"a\x00": "b"} },
	} {
		s := good()
		spoil(&s)
		var invalid *FieldError
		if err := s.Complete(noon); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", field, err)
		} else if want := firstWord(field); want != "metadata" && invalid.Field != want {
			t.Errorf("%s is said to be at fault, it is %s", invalid.Field, want)
		}
	}
}

func firstWord(s string) string {
	for i, r := range s {
		if r == ' ' || r == '.' {
			return s[:i]
		}
	}
	return s
}

func TestSilencesMatch(t *testing.T) {
	t.Parallel()
	e := &Event{Kind: KindInstance, SubjectID: "web-1", DeploymentID: "shop", Pool: "east", Provider: "nova", EventData: EventData{Metadata: map[string]string{"team": "blue", "tier": "web"}}}
	for _, tc := range []struct {
		spec SilenceSpec
		want bool
	}{
		{SilenceSpec{Scope: Global}, true},
		{SilenceSpec{Scope: "instance:web-1"}, true},
		{SilenceSpec{Scope: "instance:web-2"}, false},
		{SilenceSpec{Scope: "deployment:shop", Metadata: map[string]string{"team": "blue"}}, true},
		{SilenceSpec{Scope: "deployment:shop", Metadata: map[string]string{"team": "red"}}, false},
		{SilenceSpec{Scope: "pool:east", Metadata: map[string]string{"team": "blue", "owner": ""}}, false},
		{SilenceSpec{Scope: "pool:west"}, false},
	} {
		if got := tc.spec.Matches(e); got != tc.want {
			t.Errorf("%+v matches: %v", tc.spec, got)
		}
	}
}
