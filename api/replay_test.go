package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"windsock"
	"windsock/api"
)

// told returns a monitor that hears the three words and was told all there is: five
// changes of web-1, the events of these seqs, which happened at different times.
func (s *site) told() (id string, seqs []int64) {
	s.Helper()
	id = s.call("POST", add, `{`+goodAdd+`}`).want(201).field("monitor_id").(string)
	for i := range 5 {
		word := [...]string{"FAIL DETECTED", "START DETECTED"}[i%2]
		seqs = append(seqs, int64(s.call("POST", web1, `{"state":"`+word+`"}`).want(200).field("event_seq").(float64)))
	}
	if err := s.store.SaveProgress(s.Context(), []windsock.Progress{{MonitorID: id, Cursor: s.store.Head()}}); err != nil {
		s.Fatal(err)
	}
	return id, seqs
}

func TestReplayByAnySelector(t *testing.T) {
	site := open(t)
	id, seqs := site.told()
	event := site.call("GET", fmt.Sprintf("/api/events?after=%d&limit=1", seqs[2]-1), "").want(200).field("events").([]any)[0].(map[string]any)
	eventID, at := event["id"].(string), event["time"].(string)
	on := site.call("GET", fmt.Sprintf("/api/events?after=%d&limit=1", seqs[3]-1), "").want(200).field("events").([]any)[0].(map[string]any)["time"].(string)
	for name, c := range map[string]struct {
		body        string
		first, last int64
	}{
		"an event by its id":        {fmt.Sprintf(`{"event":%q}`, eventID), seqs[2], seqs[2]},
		"an event by its seq":       {fmt.Sprintf(`{"event":%d}`, seqs[2]), seqs[2], seqs[2]},
		"by its seq as text":        {fmt.Sprintf(`{"event":"%d"}`, seqs[2]), seqs[2], seqs[2]},
		"an event of nobody's":      {`{"event":1}`, 0, 0},
		"a range":                   {fmt.Sprintf(`{"from":%d,"to":%d}`, seqs[1], seqs[2]), seqs[1], seqs[2]},
		"a range that goes too far": {fmt.Sprintf(`{"from":%d,"to":999999}`, seqs[4]), seqs[4], site.store.Head()},
		"a range without end":       {fmt.Sprintf(`{"from":%d}`, seqs[4]), seqs[4], site.store.Head()},
		"after a seq":               {fmt.Sprintf(`{"after":%d}`, seqs[4]-1), seqs[4], site.store.Head()},
		"after the newest":          {fmt.Sprintf(`{"after":%d}`, site.store.Head()), 0, 0},
		"since a time":              {fmt.Sprintf(`{"since":%q}`, at), seqs[2], site.store.Head()},
		"a time until another":      {fmt.Sprintf(`{"since":%q,"until":%q}`, at, on), seqs[2], seqs[3]},
		"since before all":          {`{"since":"2020-01-01T00:00:00+02:00"}`, seqs[0], site.store.Head()},
		"until before all":          {`{"since":"2020-01-01T00:00:00Z","until":"2020-01-02T00:00:00Z"}`, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := site.in(t)
			body := c.body[:len(c.body)-1] + `,"dry_run":true}`
			got := s.call("POST", "/api/monitors/"+id+"/replay", body).want(200)
			first, _ := got.field("first_seq").(float64)
			last, _ := got.field("last_seq").(float64)
			if int64(first) != c.first || int64(last) < c.last || int64(last) > c.last+1 { // an event of the deployment follows
				t.Errorf("%s: %s, want %d to %d", body, got.body, c.first, c.last)
			}
		})
	}
	if target, _ := site.store.Target(t.Context(), id); target.Progress.Window != nil || target.Cursor != site.store.Head() {
		t.Errorf("changed by counting: %+v", target.Progress)
	}
}

func TestReplayMovesTheCursor(t *testing.T) {
	s := open(t)
	id, seqs := s.told()
	path := "/api/monitors/" + id + "/replay"
	told := s.store.Head()

	s.call("POST", path, "event=1", "Content-Type", formType).want(202).has(map[string]any{"count": 0.0})
	s.call("GET", "/api/monitors/"+id, "").want(200).has(map[string]any{"cursor": float64(told)})

	s.call("POST", path, fmt.Sprintf("from=%d&to=%d", seqs[1], seqs[2]), "Content-Type", formType).want(202).
		has(map[string]any{"result": "success", "monitor_id": id, "first_seq": float64(seqs[1]), "last_seq": float64(seqs[2])})
	s.call("GET", "/api/monitors/"+id, "").want(200).has(map[string]any{"cursor": float64(seqs[1] - 1)})
	target, err := s.store.Target(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if w := target.Progress.Window; w == nil || w.Told != told || len(w.Ranges) != 1 || w.Ranges[0] != (windsock.Range{First: seqs[1], Last: seqs[2]}) {
		t.Errorf("window: %+v", w)
	}
	last := s.call("GET", fmt.Sprintf("/api/events?after=%d", told), "").want(200).field("events").([]any)
	if e := last[len(last)-1].(map[string]any); len(last) != 1 || e["type"] != "monitor.replayed" || e["subject_id"] != id || e["reason"] != fmt.Sprintf("by an operator, to hear events %d to %d again", seqs[1], seqs[2]) {
		t.Errorf("the log says %v", last)
	}
}

func TestReplayThatCannotBe(t *testing.T) {
	site := open(t)
	id, seqs := site.told()
	before := site.everything()
	head := site.store.Head()
	for name, c := range map[string]struct {
		body        string
		status      int
		kind, field string
	}{
		"no selector":             {`{"dry_run":true}`, 400, "invalid", "from"},
		"nothing":                 {`{}`, 400, "invalid", "from"},
		"two selectors":           {`{"event":5,"from":5}`, 400, "invalid", "from"},
		"two others":              {`{"after":5,"since":"2020-01-01T00:00:00Z"}`, 400, "invalid", "since"},
		"to alone":                {`{"to":5}`, 400, "invalid", "from"},
		"to with after":           {`{"after":1,"to":5}`, 400, "invalid", "to"},
		"until with from":         {`{"from":1,"until":"2020-01-01T00:00:00Z"}`, 400, "invalid", "until"},
		"to before from":          {`{"from":5,"to":4}`, 400, "invalid", "to"},
		"until before since":      {`{"since":"2020-01-02T00:00:00Z","until":"2020-01-01T00:00:00Z"}`, 400, "invalid", "until"},
		"from nothing":            {`{"from":0}`, 400, "invalid", "from"},
		"after less than nothing": {`{"after":-1}`, 400, "invalid", "after"},
		"from what is to come":    {fmt.Sprintf(`{"from":%d}`, head+1), 400, "invalid", "from"},
		"after what is to come":   {fmt.Sprintf(`{"after":%d}`, head+1), 400, "invalid", "after"},
		"since a time to come":    {fmt.Sprintf(`{"since":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339)), 400, "invalid", "since"},
		"since no time":           {`{"since":"yesterday"}`, 400, "invalid", "since"},
		"until no time":           {`{"since":"2020-01-01T00:00:00Z","until":"2020-01-02"}`, 400, "invalid", "until"},
		"since before all clocks": {`{"since":"0001-01-01T00:00:00Z"}`, 400, "invalid", "since"},
		"from as text":            {`{"from":"5"}`, 400, "invalid", "from"},
		"from with a fraction":    {`{"from":5.5}`, 400, "invalid", "from"},
		"an event that is a list": {`{"event":[5]}`, 400, "invalid", "event"},
		"an event to come":        {fmt.Sprintf(`{"event":%d}`, head+1), 404, "not-found", "event"},
		"an event of another log": {`{"event":"evt_0123456789abcdef_5"}`, 404, "not-found", "event"},
		"no event's id":           {`{"event":"web-1"}`, 404, "not-found", "event"},
		"an event before all":     {`{"event":0}`, 404, "not-found", "event"},
		"an unknown version":      {`{"from":5,"version":"2"}`, 400, "invalid", "version"},
		"an unknown field":        {`{"from":5,"until_seq":9}`, 400, "invalid", "until_seq"},
		"no body":                 {``, 400, "invalid", "body"},
		"a flag that is no flag":  {`{"from":5,"dry_run":"yes"}`, 400, "invalid", "dry_run"},
	} {
		t.Run(name, func(t *testing.T) {
			s := site.in(t)
			s.call("POST", "/api/monitors/"+id+"/replay", c.body).refused(c.status, c.kind, c.field)
			if after := s.everything(); after != before {
				t.Errorf("something was stored: before %s\nafter %s", before, after)
			}
		})
	}
	nobody := "/api/monitors/" + noID + "/replay"
	site.call("POST", nobody, `{"from":1}`).refused(404, "not-found", "id")
	site.call("POST", nobody, fmt.Sprintf(`{"event":%d}`, seqs[0])).refused(404, "not-found", "id")
	site.call("POST", "/api/monitors/"+id+"/replay", "from=many", "Content-Type", formType).refused(400, "invalid", "from")
}

// forgetful is a store whose log does not reach back.
type forgetful struct{ api.Store }

func (forgetful) ReplayMonitor(context.Context, string, windsock.ReplaySpec, bool) (windsock.Replayed, error) {
	return windsock.Replayed{}, fmt.Errorf("the oldest event is 100, those before it are %w", windsock.ErrPruned)
}

func TestReplayOfWhatIsNoLongerInTheLog(t *testing.T) {
	s := open(t, func(srv *api.Server) { srv.Store = forgetful{srv.Store} })
	id := s.call("POST", add, `{`+goodAdd+`}`).want(201).field("monitor_id").(string)
	for field, body := range map[string]string{"event": `{"event":1}`, "from": `{"from":1}`, "after": `{"after":0}`, "since": `{"since":"2020-01-01T00:00:00Z"}`} {
		s.call("POST", "/api/monitors/"+id+"/replay", body).refused(410, "pruned", field).has(map[string]any{
			"detail": "the oldest event is 100, those before it are no longer in the log",
		})
	}
}
