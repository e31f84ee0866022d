package api_test

import (
	"fmt"
	"testing"
	"time"

	"windsock"

	"github.com/google/go-cmp/cmp"
)

// tried saves that a monitor was told of some events, each with one try.
func (s *site) tried(monitorID string, cursor int64, tries ...windsock.Try) {
	s.Helper()
	if err := s.store.SaveProgress(s.Context(), []windsock.Progress{{MonitorID: monitorID, Cursor: cursor, Tries: tries, Omitted: 1}}); err != nil {
		s.Fatal(err)
	}
}

func TestTriesAreListedInPages(t *testing.T) {
	s := open(t)
	id := s.call("POST", add, `{`+goodAdd+`}`).want(201).field("monitor_id").(string)
	path := "/api/monitors/" + id + "/deliveries"
	s.call("GET", path, "").want(200).has(map[string]any{"monitor_id": id, "tries": []any{}, "omitted": 0.0, "next": nil})
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for i := range 5 {
		y := windsock.Try{
			BegunAt: at.Add(time.Duration(i) * time.Minute), Seq: int64(i + 1), LastSeq: int64(i + 1), Events: 1, Kind: windsock.KindInstance, SubjectID: "web-1", DeploymentID: "shop",
			Result: windsock.TryTaken, TryData: windsock.TryData{Attempt: 1, URL: "http://127.0.0.1:9000/", Status: 204, Duration: 1e6},
		}
		if i == 3 {
			y.Result, y.Class, y.Error, y.Answer = windsock.TryRefused, "status", "HTTP 500: no", "no"
			y.Wire = windsock.Wire{Remote: "127.0.0.1:9000", Reused: true, Protocol: "HTTP/1.1", Phases: windsock.Phases{FirstByte: 2e6, Body: 1e3}}
		}
		s.tried(id, int64(100+i), y)
	}
	seqs := func(a answer) string {
		var list []any
		for _, y := range a.field("tries").([]any) {
			list = append(list, y.(map[string]any)["seq"])
		}
		return fmt.Sprint(list)
	}
	first := s.call("GET", path+"?limit=2", "").want(200).has(map[string]any{"omitted": 5.0, "next": "4"})
	if d := cmp.Diff("</api/monitors/"+id+`/deliveries?after=4&limit=2>; rel="next"`, first.header.Get("Link")); d != "" {
		t.Errorf("Link (-want +got):\n%s", d)
	}
	for query, want := range map[string]string{
		"":                 "[5 4 3 2 1]",
		"?limit=2":         "[5 4]",
		"?limit=2&after=4": "[3 2]",
		"?after=1":         "[]",
		"?result=failed":   "[4]",
		"?result=refused":  "[4]",
		"?result=taken":    "[5 3 2 1]",
		"?result=away":     "[]",
		"?event=2":         "[2]",
		"?event=" + windsock.EventID(s.store.LogID(), 2): "[2]",
		"?event=evt_other_2":                             "[]",
		"?instance=web-1&event=2":                        "[2]",
		"?instance=web-2":                                "[]",
		"?deployment=shop&limit=1":                       "[5]",
		"?since=2026-12-01T12:03:00Z":                    "[5 4]",
		"?since=2026-12-01T13:03:00%2B01:00":             "[5 4]",
	} {
		if got := seqs(s.call("GET", path+query, "").want(200)); got != want {
			t.Errorf("%s: tries of %s, want %s", query, got, want)
		}
	}
	one := s.call("GET", path+"?event=4", "").want(200).field("tries").([]any)[0]
	want := map[string]any{
		"id": 4.0, "begun_at": "2026-12-01T12:03:00Z", "event_id": windsock.EventID(s.store.LogID(), 4), "seq": 4.0, "last_seq": 4.0, "events": 1.0,
		"kind": "instance", "subject_id": "web-1", "deployment_id": "shop", "result": "refused", "attempt": 1.0, "url": "http://127.0.0.1:9000/",
		"status": 204.0, "error_class": "status", "error": "HTTP 500: no", "answer": "no", "duration": "1ms",
		"remote": "127.0.0.1:9000", "reused": true, "protocol": "HTTP/1.1", "phases": map[string]any{"first_byte": "2ms", "body": "1µs"},
	}
	if d := cmp.Diff(any(want), one); d != "" {
		t.Errorf("a try (-want +got):\n%s", d)
	}
}

func TestBadQuestionsAboutDeliveries(t *testing.T) {
	s := open(t)
	id := s.call("POST", add, `{`+goodAdd+`}`).want(201).field("monitor_id").(string)
	for query, field := range map[string]string{
		"result=broken":                  "result",
		"result=":                        "result",
		"event=web-1":                    "event",
		"event=0":                        "event",
		"event=evt_a":                    "event",
		"deployment=shop&instance=web-1": "instance",
		"instance=":                      "instance",
		"since=yesterday":                "since",
		"since=2026-12-01":               "since",
		"since=0001-01-01T00:00:00Z":     "since",
		"after=x":                        "after",
		"after=0":                        "after",
		"after=9223372036854775808":      "after",
		"limit=0":                        "limit",
		"limit=1001":                     "limit",
		"limit=1&limit=2":                "limit",
		"subject=web-1":                  "subject",
	} {
		s.call("GET", "/api/monitors/"+id+"/deliveries?"+query, "").refused(400, "invalid", field)
	}
	s.call("GET", "/api/monitors/"+noID+"/deliveries", "").refused(404, "not-found", "id")
}
