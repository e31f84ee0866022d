package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"windsock"
)

const defaultPage = 100 // entries of a listing

// pathText returns a part of the path, in which anything may be escaped.
func pathText(r *http.Request, name string) (string, error) {
	text := r.PathValue(name)
	if r.URL.RawPath != "" { // then the router took the parts from it as they are
		var err error
		if text, err = url.PathUnescape(text); err != nil {
			return "", windsock.Invalid(name, "is escaped wrongly")
		}
	}
	return text, windsock.LookupID(name, text)
}

// checkQuery returns a FieldError when there are other parameters than the known ones,
// one twice, or one that is no text.
func checkQuery(r *http.Request, known []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return windsock.Invalid("query", "is escaped wrongly")
	}
	for name, texts := range values {
		switch {
		case !utf8.ValidString(name):
			return windsock.Invalid("query", "is not UTF-8")
		case !slices.Contains(known, name):
			return windsock.Invalid(windsock.Clip(name), "is not known here")
		case len(texts) > 1:
			return windsock.Invalid(name, "is given twice")
		}
		if err := windsock.LookupID(name, texts[0]); err != nil {
			return err
		}
	}
	return nil
}

// query reads parameters and keeps the first error.
type query struct {
	url.Values
	err error
}

func queryOf(r *http.Request) *query { return &query{Values: r.URL.Query()} }

func (q *query) refuse(name, format string, args ...any) {
	if q.err == nil {
		q.err = windsock.Invalid(name, format, args...)
	}
}

// limit is how many entries the caller wants at most.
func (q *query) limit() int {
	return int(q.number("limit", defaultPage, 1, windsock.MaxPage))
}

func (q *query) number(name string, absent, least, most int64) int64 {
	if !q.Has(name) {
		return absent
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		q.refuse(name, "want a whole number from %d to %d, got %q", least, most, windsock.Clip(q.Get(name)))
	}
	return n
}

// flag is true, false, or nil when it is not there.
func (q *query) flag(name string) *bool {
	if !q.Has(name) {
		return nil
	}
	b := q.Get(name) == "true"
	if !b && q.Get(name) != "false" {
		q.refuse(name, "want true or false, got %q", windsock.Clip(q.Get(name)))
	}
	return &b
}

// state is one of states, or "" when it is not there.
func (q *query) state(name string, states []windsock.State) windsock.State {
	state := windsock.State(q.Get(name))
	if state != "" && !slices.Contains(states, state) {
		q.refuse(name, "want one of %v, got %q", states, windsock.Clip(string(state)))
	}
	return state
}

func (q *query) duration(name string, absent, most time.Duration) time.Duration {
	if !q.Has(name) {
		return absent
	}
	var d windsock.Duration
	err := d.UnmarshalText([]byte(q.Get(name)))
	if err != nil || d < 0 || d > windsock.Duration(most) {
		q.refuse(name, "want a duration such as 30s, of at most %v; got %q", most, windsock.Clip(q.Get(name)))
	}
	return time.Duration(d)
}

// time is zero when it is not there.
func (q *query) time(name string) (t time.Time) {
	if !q.Has(name) {
		return t
	}
	t, err := parseTime(name, q.Get(name))
	if q.err == nil {
		q.err = err
	}
	return t
}

// parseTime reads the time in a field, to the microsecond.
func parseTime(field, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Unix() <= 0 {
		return t, windsock.Invalid(field, "want a time since 1970 as in 2026-01-02T15:04:05.678901Z, got %q", windsock.Clip(text))
	}
	return t.UTC().Truncate(time.Microsecond), nil
}
