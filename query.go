package windsock

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// MaxPage is the most that one page of a listing holds.
const MaxPage = 1000

// Filter selects deployments or instances, in order of their ids. Zero fields select
// everything; Limit is always set.
type Filter struct {
	After      string // ids after this one
	Limit      int
	State      State
	Drift      *bool
	Stale      *bool
	Provider   string
	Pool       string
	Deployment string // instances only
	Assembly   string // instances only
}

// EventFilter selects from the log. Zero fields select everything.
type EventFilter struct {
	Scope   Scope  // as a monitor's
	Kind    Kind   // of the subject
	Subject string // its id
	Type    EventType
	Word    Word
	Before  int64 // the newest of those before this one, the newest first; 0: those after another, in order
	Brief   bool  // of the events only what Wants asks for, and when they were
}

// ETag returns the strong entity tag of v as the API shows it: it differs whenever the
// JSON does.
func ETag(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("windsock: ETag of %T: %v", v, err)) // a type that is not for the API
	}
	return ETagOf(data)
}

// ETagOf returns the strong entity tag of a representation.
func ETagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// Cond is what a caller demands of the present state of what it changes (RFC 9110,
// section 13.1). The fields are header values; "" demands nothing.
type Cond struct {
	IfMatch     string
	IfNoneMatch string
}

// Check returns ErrPrecondition unless the demands are met by what is there now: v, or
// nothing if there is none.
func (c Cond) Check(exists bool, v any) error {
	if c == (Cond{}) {
		return nil
	}
	tag := ""
	if exists {
		tag = ETag(v)
	}
	if c.IfMatch != "" && !MatchETag(c.IfMatch, tag) {
		return fmt.Errorf("If-Match: %w", ErrPrecondition)
	}
	if c.IfNoneMatch != "" && MatchWeakly(c.IfNoneMatch, tag) {
		return fmt.Errorf("If-None-Match: %w", ErrPrecondition)
	}
	return nil
}

// MatchETag reports whether a header lists tag, or is * and there is one: the strong
// comparison, of If-Match.
func MatchETag(header, tag string) bool {
	return tag != "" && slices.ContainsFunc(strings.Split(header, ","), func(t string) bool {
		t = strings.TrimSpace(t)
		return t == "*" || t == tag
	})
}

// MatchWeakly is the weak comparison, of If-None-Match: a tag that is listed as weak is
// as good.
func MatchWeakly(header, tag string) bool {
	return MatchETag(strings.ReplaceAll(header, `W/"`, `"`), tag)
}
