package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

// tried is a try of one event about an instance of the shop.
func tried(s *Store, seq int64, instance string, result windsock.Result) windsock.Try {
	y := windsock.Try{
		BegunAt: s.now(), Seq: seq, LastSeq: seq, Events: 1, EventID: windsock.EventID(s.logID, seq),
		Kind: windsock.KindInstance, SubjectID: instance, DeploymentID: "shop", Result: result,
		TryData: windsock.TryData{
			Attempt: 2, URL: "http://10.0.0.1:80/api/deployment/instance/" + instance, Duration: windsock.Duration(1500 * time.Microsecond),
			Wire: windsock.Wire{Remote: "10.0.0.1:80", Reused: true, Protocol: "HTTP/1.1", Phases: windsock.Phases{FirstByte: 1000, Body: 2000}},
		},
	}
	if result != windsock.TryTaken {
		y.Status, y.Class, y.Error, y.Answer = 500, "status", `HTTP 500: "no"`, `"no"`
	}
	return y
}

// saveTries saves tries of a monitor as the deliverer does.
func saveTries(t *testing.T, s *Store, id string, tries ...windsock.Try) {
	t.Helper()
	save(t, s, windsock.Progress{MonitorID: id, Round: progressOf(t, s, id).Round, Cursor: progressOf(t, s, id).Cursor, Tries: tries})
}

func tries(t *testing.T, s *Store, id string, f windsock.TryFilter) windsock.Tries {
	t.Helper()
	if f.Limit == 0 {
		f.Limit = windsock.MaxPage
	}
	return must[windsock.Tries](t)(s.Tries(t.Context(), id, f))
}

func TestTriesAreKeptWithTheProgress(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		id := registered(t, s)
		first, second := tried(s, 3, "web-1", windsock.TryRefused), tried(s, 3, "web-1", windsock.TryTaken)
		batch := windsock.Try{BegunAt: c.Now(), Seq: 4, LastSeq: 9, Events: 5, Result: windsock.TryAway, TryData: windsock.TryData{Class: "timeout"}}
		save(t, s, windsock.Progress{MonitorID: id, Cursor: 3, Tries: []windsock.Try{first, second}, Omitted: 7})
		save(t, s, windsock.Progress{MonitorID: id, Round: 99, Tries: []windsock.Try{batch}}) // that round is not known, but it was tried
		first.ID, second.ID, batch.ID = 1, 2, 3
		if diff := cmp.Diff(windsock.Tries{List: []windsock.Try{batch, second, first}, Omitted: 7}, tries(t, s, id, windsock.TryFilter{})); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
		if got := progressOf(t, s, id).Cursor; got != 3 {
			t.Errorf("the cursor is %d", got)
		}
	})
}

func TestTriesAreSelected(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		id, other := registered(t, s), listening(t, s, 1, windsock.MonitorSpec{}).ID
		saveTries(t, s, other, tried(s, 3, "web-1", windsock.TryTaken))
		start := c.Now()
		for i, result := range []windsock.Result{windsock.TryTaken, windsock.TryRefused, windsock.TryAway, windsock.TryGone, windsock.TryTaken} {
			y := tried(s, int64(i+10), fmt.Sprint("web-", i%2), result)
			if i == 2 {
				y.DeploymentID = "blog"
			}
			if i == 4 {
				y.LastSeq, y.Events, y.Kind, y.SubjectID, y.DeploymentID = 16, 3, "", "", ""
			}
			saveTries(t, s, id, y)
			c.advance(time.Minute)
		}
		for name, tc := range map[string]struct {
			filter windsock.TryFilter
			want   []int64 // seqs
		}{
			"all":                    {windsock.TryFilter{}, []int64{14, 13, 12, 11, 10}},
			"a page":                 {windsock.TryFilter{Limit: 2}, []int64{14, 13}},
			"the page after":         {windsock.TryFilter{Limit: 2, Before: 5}, []int64{12, 11}}, // the other's was the first
			"taken":                  {windsock.TryFilter{Result: windsock.TryTaken}, []int64{14, 10}},
			"failed":                 {windsock.TryFilter{Result: windsock.TryFailed}, []int64{13, 12, 11}},
			"refused":                {windsock.TryFilter{Result: windsock.TryRefused}, []int64{11}},
			"gone":                   {windsock.TryFilter{Result: windsock.TryGone}, []int64{13}},
			"of an instance":         {windsock.TryFilter{Of: windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}}, []int64{13, 11}},
			"of a deployment":        {windsock.TryFilter{Of: windsock.Subject{Kind: windsock.KindDeployment, ID: "shop"}}, []int64{13, 11, 10}},
			"since":                  {windsock.TryFilter{Since: start.Add(3 * time.Minute)}, []int64{14, 13}},
			"of an event":            {windsock.TryFilter{Event: "12"}, []int64{12}},
			"of an event by its id":  {windsock.TryFilter{Event: windsock.EventID(s.logID, 12)}, []int64{12}},
			"of an event of another": {windsock.TryFilter{Event: "evt_other_12"}, nil},
			"with others":            {windsock.TryFilter{Event: "15"}, []int64{14}},
			"of no event":            {windsock.TryFilter{Event: "17"}, nil},
			"several conditions":     {windsock.TryFilter{Result: windsock.TryFailed, Of: windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}, Event: "11"}, []int64{11}},
		} {
			var got []int64
			for _, y := range tries(t, s, id, tc.filter).List {
				got = append(got, y.Seq)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if _, err := s.Tries(t.Context(), "nobody", windsock.TryFilter{Limit: 1}); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("of nobody: %v", err)
		}
	})
}

func TestTriesGoWithTheirMonitor(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		id, other := registered(t, s), listening(t, s, 1, windsock.MonitorSpec{}).ID
		saveTries(t, s, id, tried(s, 3, "web-1", windsock.TryTaken))
		saveTries(t, s, other, tried(s, 3, "web-1", windsock.TryTaken))
		if err := s.RemoveMonitor(t.Context(), id, "", 0); err != nil {
			t.Fatal(err)
		}
		save(t, s, windsock.Progress{MonitorID: id, Cursor: 8, Tries: []windsock.Try{tried(s, 4, "web-1", windsock.TryAway)}, Omitted: 1}) // it was under way
		var left []string
		if err := s.read.Select(&left, `SELECT monitor_id FROM tries UNION ALL SELECT monitor_id FROM passed`); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{other, other}, left); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
}

func TestOldTriesAreDeleted(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		id := registered(t, s)
		var many []windsock.Try
		for range pruneStep + 100 {
			many = append(many, tried(s, 3, "web-1", windsock.TryTaken))
		}
		saveTries(t, s, id, many...)
		c.advance(triesAge - time.Minute)
		saveTries(t, s, id, tried(s, 4, "web-1", windsock.TryAway))
		pass(t, keep(s, 1e6))
		if got := len(tries(t, s, id, windsock.TryFilter{}).List); got != triesKept+1 {
			t.Errorf("%d are kept that are not too old, want %d", got, triesKept+1)
		}
		c.advance(2 * time.Minute)
		pass(t, keep(s, 1e6))
		if got := tries(t, s, id, windsock.TryFilter{}).List; len(got) != 1 || got[0].Seq != 4 {
			t.Errorf("%d are kept, want the one that is not too old", len(got))
		}
	})
}

// Those that were taken make no room for themselves among those that failed.
func TestTriesOfAMonitorAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		var ids []string
		for i := range 3 {
			id := listening(t, s, i+1, windsock.MonitorSpec{}).ID
			ids = append(ids, id)
			var many []windsock.Try
			for k := range triesKept * (1 + i) { // the first has no more than may be
				many = append(many, tried(s, int64(k+1), "web-1", windsock.TryTaken))
				if k < 3 {
					many = append(many, tried(s, int64(k+1), "web-1", windsock.TryAway))
				}
			}
			saveTries(t, s, id, many...)
		}
		pass(t, keep(s, 1e6))
		for i, id := range ids {
			failed, taken := tries(t, s, id, windsock.TryFilter{Result: windsock.TryFailed}).List, tries(t, s, id, windsock.TryFilter{Result: windsock.TryTaken}).List
			if len(failed) != 3 || len(taken) != triesKept {
				t.Fatalf("monitor %d: %d that failed and %d that did not are kept, want 3 and %d", i, len(failed), len(taken), triesKept)
			}
			if newest, oldest := taken[0].Seq, taken[triesKept-1].Seq; newest != int64(triesKept*(1+i)) || oldest != newest-triesKept+1 {
				t.Errorf("monitor %d: %d to %d are kept, which are not the newest", i, oldest, newest)
			}
		}
	})
}

func TestTriesOfAllAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		id := registered(t, s)
		saveTries(t, s, id, tried(s, 1, "web-1", windsock.TryAway), tried(s, 2, "web-1", windsock.TryAway), tried(s, 3, "web-1", windsock.TryAway))
		if _, err := s.write.Exec(`UPDATE tries SET id = ? WHERE seq = 3`, triesOfAll+1); err != nil { // as if so many had been made since
			t.Fatal(err)
		}
		pass(t, keep(s, 1e6))
		var kept []int64
		for _, y := range tries(t, s, id, windsock.TryFilter{}).List {
			kept = append(kept, y.Seq)
		}
		if diff := cmp.Diff([]int64{3, 2}, kept); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	})
}
