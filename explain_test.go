package windsock

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestWhyAnEventIsUnwanted(t *testing.T) {
	by := func(source string, e Event) Event { e.Source = source; return e }
	wordless := func(e Event) Event { e.Word = ""; return e }
	for name, c := range map[string]struct {
		spec  MonitorSpec
		event Event
		want  Reason
	}{
		"wanted":                       {MonitorSpec{}, webFailed, ""},
		"another kind of subject":      {MonitorSpec{Subjects: OnlyDeployments}, webFailed, ReasonSubjects},
		"its own report":               {MonitorSpec{}, by("monitor:m", webFailed), ReasonEcho},
		"its own report, as it wishes": {MonitorSpec{Echo: true}, by("monitor:m", webFailed), ""},
		"another word":                 {MonitorSpec{Detections: Detections{StartDetected}}, webFailed, ReasonDetections},
		"no word":                      {MonitorSpec{}, wordless(webFailed), ReasonDetections},
		"no word, for all":             {MonitorSpec{Detections: Detections{"all"}}, wordless(webFailed), ""},
		"another monitor is added":     {MonitorSpec{Detections: Detections{"all"}}, Event{Kind: KindMonitor, Type: MonitorAdded, SubjectID: "n"}, ReasonMonitor},
		"another monitor is paused":    {MonitorSpec{Detections: Detections{"all"}}, Event{Kind: KindMonitor, Type: MonitorPaused, SubjectID: "n"}, ""},
		"it is paused itself":          {MonitorSpec{Detections: Detections{"all"}}, Event{Kind: KindMonitor, Type: MonitorPaused, SubjectID: "m"}, ReasonMonitor},
		"a gap of another":             {MonitorSpec{}, Event{Kind: KindLog, Type: LogGap, SubjectID: "n"}, ReasonMonitor},
		"a gap of its own":             {MonitorSpec{}, Event{Kind: KindLog, Type: LogGap, SubjectID: "m"}, ""},
	} {
		m := Monitor{MonitorSpec: c.spec, ID: "m"}
		if got := m.unwanted(&c.event); got != c.want || m.Wants(&c.event) != (c.want == "") {
			t.Errorf("%s: %+v is unwanted by %+v as %q, want %q", name, c.event, c.spec, got, c.want)
		}
		if c.want != "" && words[c.want] == "" {
			t.Errorf("there are no words for %s", c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	web := Subject{KindInstance, "web-1"}
	seen := func(cursor int64) Progress { return Progress{Cursor: cursor} }
	again := func(cursor int64, r Range) Progress {
		return Progress{Cursor: cursor, Window: &Window{Ranges: []Range{r}, Told: 20}}
	}
	parked := Progress{Cursor: 20, Lanes: []Lane{{Subject: web, FirstSeq: 8, Attempts: 3, NextTryAt: at, LastError: "HTTP 500"}}}
	trying := func(p Progress) Progress { p.Attempts, p.NextTryAt, p.LastError = 1, at, "timeout"; return p }
	paused := func(by Pause, p Progress) Progress { p.Paused = by; return p }
	for name, c := range map[string]struct {
		spec     MonitorSpec
		progress Progress
		past     Past
		want     Explanation // of event 10
	}{
		"the cursor passed it": {MonitorSpec{}, seen(10), Past{}, Explanation{Verdict: Delivered, Text: "The monitor took it; that try is not kept."}},
		"the try is there":     {MonitorSpec{}, seen(10), Past{Taken: true}, Explanation{Verdict: Delivered, Text: "The monitor took it."}},
		"ahead of the cursor":  {MonitorSpec{}, Progress{Cursor: 3, Ahead: map[Subject]int64{web: 10}}, Past{}, Explanation{Verdict: Delivered, Text: "The monitor took it; that try is not kept."}},
		"before the lane":      {MonitorSpec{}, Progress{Cursor: 9, Lanes: []Lane{{Subject: web, FirstSeq: 11}}}, Past{}, Explanation{Verdict: Delivered, Text: "The monitor took it; that try is not kept."}},
		"taken by other wishes, and not wanted now": {
			MonitorSpec{Subjects: OnlyDeployments}, seen(10), Past{Taken: true, Wished: 12}, Explanation{Verdict: Delivered, Text: "The monitor took it."},
		},

		"in line": {MonitorSpec{}, seen(9), Past{}, Explanation{Verdict: Waiting, Reason: ReasonInLine, Text: "Its turn comes."}},
		"told once, and to be told again": {
			MonitorSpec{}, seen(9), Past{Taken: true}, Explanation{Verdict: Waiting, Reason: ReasonInLine, Text: "Its turn comes."},
		},
		"ahead, but not that far": {
			MonitorSpec{}, Progress{Cursor: 3, Ahead: map[Subject]int64{web: 9}}, Past{}, Explanation{Verdict: Waiting, Reason: ReasonInLine, Text: "Its turn comes."},
		},
		"behind a refused one": {MonitorSpec{}, parked, Past{}, Explanation{
			Verdict: Waiting, Reason: ReasonRefused, BehindSeq: 8, Attempts: 3, NextTryAt: at, LastError: "HTTP 500",
			Text: "It waits behind event 8 of the same subject, which the monitor refused, 3 times; the next try is at 2026-12-01T12:00:00Z.",
		}},
		"refused itself": {MonitorSpec{}, Progress{Cursor: 20, Lanes: []Lane{{Subject: web, FirstSeq: 10, Attempts: 1}}}, Past{}, Explanation{
			Verdict: Waiting, Reason: ReasonRefused, BehindSeq: 10, Attempts: 1, Text: "The monitor refused it, once.",
		}},
		"behind one that was taken meanwhile": {
			MonitorSpec{}, Progress{Cursor: 20, Lanes: []Lane{{Subject: web, FirstSeq: 9}}}, Past{}, Explanation{Verdict: Waiting, Reason: ReasonInLine, Text: "Its turn comes."},
		},
		"the monitor is away": {MonitorSpec{}, trying(seen(9)), Past{}, Explanation{
			Verdict: Waiting, Reason: ReasonAway, Attempts: 1, NextTryAt: at, LastError: "timeout",
			Text: "The monitor could not be reached, or wanted nothing, once; the next try is at 2026-12-01T12:00:00Z.",
		}},
		"refused, and now it is away": {MonitorSpec{}, trying(parked), Past{}, Explanation{
			Verdict: Waiting, Reason: ReasonAway, BehindSeq: 8, Attempts: 1, NextTryAt: at, LastError: "timeout",
			Text: "The monitor could not be reached, or wanted nothing, once; the next try is at 2026-12-01T12:00:00Z.",
		}},
		"paused by an operator": {MonitorSpec{}, paused(PausedByOperator, trying(seen(9))), Past{}, Explanation{
			Verdict: Waiting, Reason: ReasonPaused, PausedBy: PausedByOperator, Attempts: 1, LastError: "timeout", Text: "An operator paused the monitor.",
		}},
		"paused at 410": {MonitorSpec{}, paused(PausedByGone, trying(seen(9))), Past{}, Explanation{
			Verdict: Waiting, Reason: ReasonPaused, PausedBy: PausedByGone, Attempts: 1, NextTryAt: at, LastError: "timeout",
			Text: "The monitor is paused, as it answered 410; it is tried once an hour.",
		}},
		"not asked yet": {MonitorSpec{Verify: true}, seen(9), Past{}, Explanation{
			Verdict: Waiting, Reason: ReasonPending, Text: "The monitor did not allow yet that it is called.",
		}},
		"to be told again": {MonitorSpec{}, again(3, Range{9, 10}), Past{}, Explanation{Verdict: Waiting, Reason: ReasonInLine, Text: "Its turn comes."}},
		"beside what is told again": {
			MonitorSpec{}, again(3, Range{4, 5}), Past{}, Explanation{Verdict: Delivered, Text: "The monitor took it; that try is not kept."},
		},
		"the cursor passed it, of one that hears the latest": {
			MonitorSpec{Backlog: Latest}, seen(10), Past{}, Explanation{Verdict: Delivered, Text: "The monitor took it, or in its stead a newer one of the same subject."},
		},

		"out of scope":               {MonitorSpec{Scope: "pool:p2"}, seen(10), Past{}, Explanation{Verdict: PassedOver, Reason: ReasonScope}},
		"out of scope, by any wish":  {MonitorSpec{Scope: "pool:p2"}, seen(10), Past{Wished: 12}, Explanation{Verdict: PassedOver, Reason: ReasonScope}},
		"not wanted":                 {MonitorSpec{Subjects: OnlyDeployments}, seen(10), Past{}, Explanation{Verdict: PassedOver, Reason: ReasonSubjects}},
		"will not be wanted":         {MonitorSpec{Subjects: OnlyDeployments}, seen(9), Past{Wished: 12}, Explanation{Verdict: PassedOver, Reason: ReasonSubjects}},
		"skipped":                    {MonitorSpec{}, seen(10), Past{Passed: ReasonSkipped}, Explanation{Verdict: PassedOver, Reason: ReasonSkipped}},
		"lost":                       {MonitorSpec{}, seen(10), Past{Passed: ReasonLost}, Explanation{Verdict: PassedOver, Reason: ReasonLost}},
		"registered later":           {MonitorSpec{}, seen(10), Past{Passed: ReasonRegistered, Wished: 12}, Explanation{Verdict: PassedOver, Reason: ReasonRegistered}},
		"skipped, and not wanted":    {MonitorSpec{Subjects: OnlyDeployments}, seen(10), Past{Passed: ReasonSkipped}, Explanation{Verdict: PassedOver, Reason: ReasonSubjects}},
		"by other wishes":            {MonitorSpec{}, seen(12), Past{Wished: 12}, Explanation{Verdict: FateUnknown, Reason: ReasonWishes}},
		"by other wishes than these": {MonitorSpec{Subjects: OnlyDeployments}, seen(12), Past{Wished: 12}, Explanation{Verdict: FateUnknown, Reason: ReasonWishes}},
	} {
		e := webFailed
		e.Seq, e.ID = 10, "evt_a_10"
		target := Target{Monitor: Monitor{MonitorSpec: c.spec, ID: "m"}, Progress: c.progress}
		if target.Scope == "" {
			target.Scope = Global
		}
		c.want.MonitorID, c.want.EventID, c.want.Seq = "m", "evt_a_10", 10
		got := Explain(&target, &e, c.past)
		if c.want.Text == "" && strings.Contains(got.Text, words[c.want.Reason]) {
			c.want.Text = got.Text
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v\nwant %+v", name, got, c.want)
		}
	}
	for _, by := range []Pause{PausedByOperator, PausedByFailures, PausedByGone} {
		if pauses[by] == "" {
			t.Errorf("there are no words for a pause by %s", by)
		}
	}
}
