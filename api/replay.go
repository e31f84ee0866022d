package api

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"windsock"
)

// repetition is what POST /api/monitors/{id}/replay takes: one of event, from, after and
// since.
type repetition struct {
	Version string   `json:"version"`
	Event   eventRef `json:"event"`
	From    *int64   `json:"from"`
	To      *int64   `json:"to"` // with from
	After   *int64   `json:"after"`
	Since   string   `json:"since"`
	Until   string   `json:"until"` // with since
	DryRun  bool     `json:"dry_run"`
}

// eventRef is the id of an event, or its seq, which may be a number.
type eventRef string

func (e *eventRef) UnmarshalJSON(data []byte) error {
	text, err := strconv.Unquote(string(data))
	if err != nil {
		text = string(data)
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return windsock.Invalid("", "want the id of an event, or its seq")
		}
	}
	*e = eventRef(text)
	return nil
}

func (s *Server) replayMonitor(w http.ResponseWriter, r *http.Request) error {
	var in repetition
	if err := decode(w, r, &in, typeForm); err != nil {
		return err
	}
	if err := windsock.CheckVersion(in.Version); err != nil {
		return err
	}
	field, spec, err := in.spec(s.Store.Head(), time.Now())
	if err != nil {
		return at(field, err)
	}
	id := r.PathValue("id")
	if _, err := s.Store.Monitor(r.Context(), id); err != nil {
		return at("id", err)
	}
	replayed, err := s.Store.ReplayMonitor(r.Context(), id, spec, in.DryRun)
	if err != nil {
		return at(field, err)
	}
	status := http.StatusAccepted
	if in.DryRun {
		status = http.StatusOK
	}
	return answer(w, status, struct {
		Result    string `json:"result"`
		MonitorID string `json:"monitor_id"`
		windsock.Replayed
	}{success, id, replayed})
}

// spec returns what is asked for, and which field says so. The newest event is head.
func (in *repetition) spec(head int64, now time.Time) (field string, spec windsock.ReplaySpec, err error) {
	for _, f := range []struct {
		name  string
		given bool
	}{{"event", in.Event != ""}, {"from", in.From != nil}, {"after", in.After != nil}, {"since", in.Since != ""}} {
		switch {
		case f.given && field != "":
			return f.name, spec, windsock.Invalid(f.name, "%s is given already; want one of event, from, after and since", field)
		case f.given:
			field = f.name
		}
	}
	switch {
	case field == "":
		return field, spec, windsock.Invalid("from", "is required, or one of event, after and since")
	case in.To != nil && field != "from":
		return field, spec, windsock.Invalid("to", "goes with from")
	case in.Until != "" && field != "since":
		return field, spec, windsock.Invalid("until", "goes with since")
	}
	switch field {
	case "event":
		spec.Event = string(in.Event)
	case "since":
		spec.Since, spec.Until, err = times(in.Since, in.Until, now)
	case "from":
		spec.Range, err = seqs(field, *in.From, 1, head)
		if in.To != nil && err == nil {
			if spec.Range.Last = *in.To; *in.To < *in.From {
				err = windsock.Invalid("to", "want %d, the first, or more; got %d", *in.From, *in.To)
			}
		}
	case "after":
		spec.Range, err = seqs(field, *in.After, 0, head)
		spec.Range.First++
	}
	return field, spec, err
}

// seqs returns the range from first on.
func seqs(field string, first, least, head int64) (windsock.Range, error) {
	if first < least || first > head {
		return windsock.Range{}, windsock.Invalid(field, "want %d to %d, the newest event; got %d", least, head, first)
	}
	return windsock.Range{First: first, Last: math.MaxInt64}, nil
}

// times reads from when until when; no end is a zero one.
func times(since, until string, now time.Time) (from, to time.Time, err error) {
	if from, err = timeOf("since", since); err != nil {
		return from, to, err
	}
	if from.After(now) {
		return from, to, windsock.Invalid("since", "is in the future")
	}
	if until == "" {
		return from, to, nil
	}
	if to, err = timeOf("until", until); err == nil && to.Before(from) {
		err = windsock.Invalid("until", "is before since")
	}
	return from, to, err
}

func timeOf(field, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Unix() <= 0 {
		return t, windsock.Invalid(field, "want a time since 1970 as in 2026-01-02T15:04:05.678901Z, got %q", windsock.Clip(text))
	}
	return t, nil
}
