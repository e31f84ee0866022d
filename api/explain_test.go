package api_test

import (
	"context"
	"fmt"
	"testing"

	"windsock"
	"windsock/api"
)

func TestAnEventIsExplained(t *testing.T) {
	s := open(t)
	id := s.call("POST", add, `{`+goodAdd+`}`).want(201).field("monitor_id").(string)
	seq := s.detect("web-1", "FAIL DETECTED").want(200).field("event_seq").(float64)
	path := fmt.Sprintf("/api/monitors/%s/explain?event=%.0f", id, seq)
	s.call("GET", path, "").want(200).has(map[string]any{
		"monitor_id": id, "event_id": windsock.EventID(s.store.LogID(), int64(seq)), "seq": seq,
		"verdict": "waiting", "reason": "in_line", "text": "Its turn comes.", "before": 0.0, "tries": []any{},
	})
	s.call("POST", "/api/monitors/"+id+"/pause", "").want(200)
	s.call("GET", path, "").want(200).has(map[string]any{"verdict": "waiting", "reason": "paused", "paused_by": "operator"})
	s.call("POST", "/api/monitors/"+id+"/resume", `{"from":"skip"}`).want(200)
	s.call("GET", path, "").want(200).has(map[string]any{"verdict": "passed_over", "reason": "skipped", "before": nil})
	s.call("GET", "/api/monitors/"+id+"/explain?event=1", "").want(200).has(map[string]any{"verdict": "passed_over", "reason": "detections"})
}

func (pruned) Explain(context.Context, string, string) (windsock.Explanation, error) {
	return windsock.Explanation{}, fmt.Errorf("events up to 100 are %w", windsock.ErrPruned)
}

func TestAnEventThatIsGoneIsNotExplained(t *testing.T) {
	s := open(t, func(srv *api.Server) { srv.Store = pruned{srv.Store} })
	id := s.call("POST", add, `{`+goodAdd+`}`).want(201).field("monitor_id").(string)
	s.call("GET", "/api/monitors/"+id+"/explain?event=99", "").refused(410, "pruned", "event")
}

func TestBadQuestionsAboutAnEvent(t *testing.T) {
	s := open(t)
	id := s.call("POST", add, `{`+goodAdd+`}`).want(201).field("monitor_id").(string)
	for _, query := range []string{"", "?event=", "?event=0", "?event=-1", "?event=x", "?event=evt_1", "?event=1&event=2"} {
		s.call("GET", "/api/monitors/"+id+"/explain"+query, "").refused(400, "invalid", "event")
	}
	s.call("GET", "/api/monitors/"+id+"/explain?event=1&verbose=1", "").refused(400, "invalid", "verbose")
	s.call("GET", "/api/monitors/"+noID+"/explain?event=1", "").refused(404, "not-found", "id")
	for _, event := range []string{"99999", windsock.EventID("other", 1)} {
		s.call("GET", "/api/monitors/"+id+"/explain?event="+event, "").refused(404, "not-found", "event")
	}
	s.call("POST", "/api/monitors/"+id+"/explain?event=1", "").refused(405, "method-not-allowed", "")
}
