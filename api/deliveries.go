package api

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"windsock"
)

var tryResults = []windsock.Result{windsock.TryTaken, windsock.TryRefused, windsock.TryAway, windsock.TryGone, windsock.TryFailed}

// listTries shows the tries of a monitor, the newest first.
func (s *Server) listTries(w http.ResponseWriter, r *http.Request) error {
	f, err := tryFilter(queryOf(r))
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	tries, err := s.Store.Tries(r.Context(), id, f)
	if err != nil {
		return at("id", err)
	}
	next := nextPage(w, r, tries.List, f.Limit, func(t *windsock.Try) string { return strconv.FormatInt(t.ID, 10) })
	return represent(w, r, http.StatusOK, struct {
		MonitorID string         `json:"monitor_id"`
		Tries     []windsock.Try `json:"tries"`
		Omitted   int64          `json:"omitted"`
		Next      string         `json:"next,omitempty"`
	}{id, orEmpty(tries.List), tries.Omitted, next})
}

func tryFilter(q *query) (windsock.TryFilter, error) {
	f := windsock.TryFilter{
		Before: q.number("after", 0, 1, 1<<62),
		Limit:  q.limit(),
		Result: windsock.Result(q.Get("result")),
		Event:  q.Get("event"),
	}
	if f.Result != "" && !slices.Contains(tryResults, f.Result) {
		q.refuse("result", "want one of %v, got %q", tryResults, windsock.Clip(string(f.Result)))
	}
	if f.Event != "" {
		if _, _, err := windsock.ParseEvent(f.Event); err != nil && q.err == nil {
			q.err = err
		}
	}
	for _, kind := range []windsock.Kind{windsock.KindDeployment, windsock.KindInstance} {
		switch {
		case !q.Has(string(kind)):
		case f.Of.ID != "":
			q.refuse(string(kind), "want one of deployment, instance")
		default:
			f.Of = windsock.Subject{Kind: kind, ID: q.Get(string(kind))}
		}
	}
	if since := q.Get("since"); since != "" {
		var err error
		if f.Since, err = time.Parse(time.RFC3339, since); err != nil || f.Since.Year() < 1970 {
			q.refuse("since", "want a time such as 2026-01-02T15:04:05Z, got %q", windsock.Clip(since))
		}
	}
	return f, q.err
}
