package windsock

import (
	"fmt"
	"slices"
	"time"
)

// maxSilence is how long a silence may last.
const maxSilence = 366 * 24 * time.Hour

// A Silence holds the callbacks about what it matches, from its start to its end.
type Silence struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Active    bool      `json:"active"` // it has begun and has not ended
	SilenceSpec
}

// SilenceSpec is what is to be silenced, by whom and why.
type SilenceSpec struct {
	Scope    Scope             `json:"scope,omitempty"`    // default global
	Metadata map[string]string `json:"metadata,omitempty"` // what the deployment's has to hold
	Author   string            `json:"author"`
	Reason   string            `json:"reason"`
	StartsAt time.Time         `json:"starts_at,omitzero"` // default now
	EndsAt   time.Time         `json:"ends_at,omitzero"`   // or
	Duration Duration          `json:"duration,omitempty"` // from its start
}

// Complete fills in the defaults and returns a FieldError when the silence cannot be.
// What is to be silenced has to be said, be it by the scope global.
func (s *SilenceSpec) Complete(now time.Time) error {
	if s.Scope == "" && len(s.Metadata) == 0 {
		return Invalid("scope", "is required, or metadata")
	}
	setDefault(&s.Scope, Global)
	if s.StartsAt.IsZero() {
		s.StartsAt = now
	}
	if s.Duration != 0 {
		if !s.EndsAt.IsZero() {
			return Invalid("duration", "want either it or ends_at")
		}
		s.EndsAt = s.StartsAt.Add(time.Duration(s.Duration))
	}
	s.StartsAt, s.EndsAt, s.Duration = s.StartsAt.UTC().Truncate(time.Microsecond), s.EndsAt.UTC().Truncate(time.Microsecond), 0
	switch {
	case s.EndsAt.IsZero():
		return Invalid("ends_at", "is required, or duration")
	case !s.EndsAt.After(s.StartsAt), !s.EndsAt.After(now):
		return Invalid("ends_at", "want a time that is still to come, and after starts_at")
	case s.EndsAt.Sub(now) > maxSilence:
		return Invalid("ends_at", "want at most a year")
	case s.StartsAt.Year() < 2000:
		return Invalid("starts_at", "want a time of this age")
	}
	return firstError(
		s.Scope.Validate(),
		checkMetadata(s.Metadata),
		checkText("author", s.Author, 1, maxName),
		checkText("reason", s.Reason, 1, maxPath),
	)
}

// At reports whether the silence has begun and has not ended.
func (s *SilenceSpec) At(now time.Time) bool { return !now.Before(s.StartsAt) && now.Before(s.EndsAt) }

// Matches reports whether what e is about is to be silenced.
func (s *SilenceSpec) Matches(e *Event) bool {
	if !slices.Contains(ScopesOf(e), s.Scope) {
		return false
	}
	for key, value := range s.Metadata {
		if has, ok := e.Metadata[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Holder says in words what holds.
func (s *Silence) Holder() string {
	return fmt.Sprintf("silence %s of %s: %s", s.ID, s.Author, s.Reason)
}
