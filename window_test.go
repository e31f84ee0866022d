package windsock

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

func aboutWeb(id string) Subject { return Subject{KindInstance, id} }

func TestWindow(t *testing.T) {
	w := &Window{Ranges: []Range{{5, 10}, {40, 60}}, Told: 50, Except: map[Subject]int64{aboutWeb("ahead"): 70, aboutWeb("behind"): 7}}
	for name, c := range map[string]struct {
		subject         string
		seq             int64
		repeats, passes bool
	}{
		"before all ranges":                  {"web", 4, false, true},
		"the first of a range":               {"web", 5, true, false},
		"the last of a range":                {"web", 10, true, false},
		"between two ranges":                 {"web", 11, false, true},
		"the last that was told":             {"web", 50, true, false},
		"in a range, but never told":         {"web", 51, false, false},
		"beyond all":                         {"web", 61, false, false},
		"told ahead, in a range":             {"ahead", 60, true, false},
		"told ahead, in none":                {"ahead", 70, false, true},
		"beyond what was told ahead":         {"ahead", 71, false, false},
		"told of one that was behind":        {"behind", 7, true, false},
		"in a range, but it was behind":      {"behind", 8, false, false},
		"in no range, but it was behind":     {"behind", 20, false, false},
		"in the other range, but was behind": {"behind", 45, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Event{Kind: KindInstance, SubjectID: c.subject, Seq: c.seq}
			if got := w.Repeats(e); got != c.repeats {
				t.Errorf("Repeats(%d of %s) = %t", c.seq, c.subject, got)
			}
			if got := w.Passes(e); got != c.passes {
				t.Errorf("Passes(%d of %s) = %t", c.seq, c.subject, got)
			}
			var none *Window
			if none.Repeats(e) || none.Passes(e) {
				t.Error("no window has a say")
			}
		})
	}
	if got := w.End(); got != 70 {
		t.Errorf("End = %d", got)
	}
}

func TestWhatWasToldIsNotWanted(t *testing.T) {
	target := Target{Progress: Progress{Window: &Window{Ranges: []Range{{5, 10}}, Told: 20}}}
	for seq, want := range map[int64]bool{4: false, 5: true, 15: false, 21: true} {
		if got := target.Wants(&Event{Kind: KindInstance, Seq: seq, Word: FailDetected}); got != want {
			t.Errorf("wants %d: %t", seq, got)
		}
	}
	if target.Wants(&Event{Kind: KindInstance, Seq: 7}) {
		t.Error("wants what it did not ask for")
	}
}

func TestWindowNamesWhatNeedNotBeRead(t *testing.T) {
	const open = int64(math.MaxInt64)
	two := &Window{Ranges: []Range{{5, 10}, {40, 45}}, Told: 50}
	for name, c := range map[string]struct {
		w               *Window
		after, from, to int64
	}{
		"no window":                         {nil, 7, 7, open},
		"before a range":                    {two, 1, 4, 10},
		"in a range":                        {two, 7, 7, 10},
		"after a range":                     {two, 10, 39, 45},
		"after the last":                    {two, 45, 50, open},
		"past what was told":                {two, 50, 50, open},
		"a range that was told only of one": {&Window{Ranges: []Range{{60, 70}}, Told: 50, Except: map[Subject]int64{aboutWeb("ahead"): 65}}, 20, 50, open},
		"one subject was behind":            {&Window{Ranges: []Range{{5, 10}}, Told: 50, Except: map[Subject]int64{aboutWeb("behind"): 20}}, 10, 10, open},
	} {
		t.Run(name, func(t *testing.T) {
			if from, to := c.w.Next(c.after); from != c.from || to != c.to {
				t.Errorf("Next(%d) = %d, %d; want %d, %d", c.after, from, to, c.from, c.to)
			}
		})
	}
}

func TestAgain(t *testing.T) {
	lanes := []Lane{{Subject: aboutWeb("early"), FirstSeq: 10}, {Subject: aboutWeb("late"), FirstSeq: 30, Attempts: 3}}
	ahead := map[Subject]int64{aboutWeb("ahead"): 70, aboutWeb("just"): 50}
	for name, c := range map[string]struct {
		p    Progress
		r    Range
		want Progress
	}{
		"the cursor is moved back": {
			Progress{Cursor: 50, Round: 3, Attempts: 2}, Range{20, 40},
			Progress{Cursor: 19, Round: 4, Attempts: 2, Window: &Window{Ranges: []Range{{20, 40}}, Told: 50}},
		},
		"a lane that begins before stays, others are cleared": {
			Progress{Cursor: 50, Lanes: lanes}, Range{20, 40},
			Progress{Cursor: 19, Round: 1, Lanes: lanes[:1], Cleared: []Subject{aboutWeb("late")}, Window: &Window{
				Ranges: []Range{{20, 40}}, Told: 50, Except: map[Subject]int64{aboutWeb("early"): 9, aboutWeb("late"): 29},
			}},
		},
		"what was told ahead is known": {
			Progress{Cursor: 50, Ahead: ahead}, Range{60, 70},
			Progress{Cursor: 50, Round: 1, Window: &Window{Ranges: []Range{{60, 70}}, Told: 50, Except: map[Subject]int64{aboutWeb("ahead"): 70}}},
		},
		"another is under way": {
			Progress{Cursor: 25, Round: 1, Window: &Window{Ranges: []Range{{3, 4}, {20, 30}, {45, 46}}, Told: 50, Except: map[Subject]int64{aboutWeb("ahead"): 70, aboutWeb("cleared"): 22}}},
			Range{10, 12},
			Progress{Cursor: 9, Round: 2, Window: &Window{
				Ranges: []Range{{10, 12}, {26, 30}, {45, 46}}, Told: 50, Except: map[Subject]int64{aboutWeb("ahead"): 70, aboutWeb("cleared"): 25},
			}},
		},
		"another is over but for a lane": {
			Progress{Cursor: 80, Round: 1, Lanes: lanes[:1], Window: &Window{Ranges: []Range{{5, 20}}, Told: 50}},
			Range{20, 60},
			Progress{Cursor: 19, Round: 2, Lanes: lanes[:1], Window: &Window{Ranges: []Range{{10, 60}}, Told: 80, Except: map[Subject]int64{aboutWeb("early"): 50}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want.Window.Except == nil {
				c.want.Window.Except = map[Subject]int64{}
			}
			if got := c.p.Again(c.r); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v with %+v\nwant %+v with %+v", got, *got.Window, c.want, *c.want.Window)
			}
		})
	}
}

// Whatever a monitor was told in however many passes: of what is asked for once more it
// hears what it had been told, marked; what it had not been told it hears, unmarked; and
// else nothing.
func TestAgainAndAgain(t *testing.T) {
	for range 2000 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		const head, subjects = 60, 5
		about := func(seq int64) *Event {
			return &Event{Kind: KindInstance, SubjectID: fmt.Sprint(seq * 7 % subjects), Seq: seq}
		}
		told, due := map[int64]bool{}, map[int64]bool{} // due: asked for again
		var p Progress
		for pass := range 4 {
			waits := waiting(&p, subjects)
			for seq := int64(1); seq <= head; seq++ {
				e := about(seq)
				if seq < waits[aboutWeb(e.SubjectID)] {
					continue
				}
				if p.Window.Passes(e) != (told[seq] && !due[seq]) || p.Window.Repeats(e) != (told[seq] && due[seq]) {
					t.Fatalf("seed %d, pass %d: event %d: told %t, asked for again %t; %+v, %+v", seed, pass, seq, told[seq], due[seq], p, p.Window)
				}
				if from, _ := p.Window.Next(p.Cursor); seq > p.Cursor && seq <= from && (!told[seq] || due[seq]) {
					t.Fatalf("seed %d, pass %d: Next(%d) leaves out %d; %+v, %+v", seed, pass, p.Cursor, seq, p, p.Window)
				}
			}

			// It goes on for a while, each subject as far as it likes; one is refused.
			parked := aboutWeb(fmt.Sprint(r.IntN(2 * subjects)))
			p.Ahead, p.Lanes = map[Subject]int64{}, nil
			cursor := int64(head)
			for s, seq := range waits {
				stop := seq + r.Int64N(head-seq+2) // the first that then waits
				for ; seq < stop; seq++ {
					if about(seq).SubjectID == s.ID {
						told[seq] = true
						delete(due, seq)
					}
				}
				if waits[s] = stop; s != parked {
					cursor = min(cursor, stop-1)
				}
			}
			p.Cursor = cursor
			for s, stop := range waits {
				switch {
				case s == parked:
					p.Lanes = append(p.Lanes, Lane{Subject: s, FirstSeq: stop})
				case stop-1 > cursor:
					p.Ahead[s] = stop - 1
				}
			}

			part := Range{First: 1 + r.Int64N(head)}
			part.Last = min(part.First+r.Int64N(20), p.Reach())
			if part.First > part.Last {
				continue
			}
			p = p.Again(part)
			waits = waiting(&p, subjects)
			for _, again := range p.Window.Ranges { // those of before, too, as far as not all of them were told
				for seq := again.First; seq <= again.Last; seq++ {
					if told[seq] && seq >= waits[aboutWeb(about(seq).SubjectID)] {
						due[seq] = true
					}
				}
			}
			for seq := range due {
				if !p.Window.holds(seq) {
					t.Fatalf("seed %d, pass %d: %d was asked for and is forgotten; %+v, %+v", seed, pass, seq, p, p.Window)
				}
			}
		}
	}
}

// waiting returns where the first event of each subject waits.
func waiting(p *Progress, subjects int) map[Subject]int64 {
	waits := map[Subject]int64{}
	for i := range subjects {
		s := aboutWeb(fmt.Sprint(i))
		waits[s] = max(p.Cursor, p.Ahead[s]) + 1
	}
	for _, l := range p.Lanes {
		waits[l.Subject] = l.FirstSeq
	}
	return waits
}

func TestCounts(t *testing.T) {
	for _, c := range []struct{ a, b, want Replayed }{
		{Replayed{}, Replayed{2, 5, 9}, Replayed{2, 5, 9}},
		{Replayed{2, 5, 9}, Replayed{}, Replayed{2, 5, 9}},
		{Replayed{2, 5, 9}, Replayed{3, 1, 7}, Replayed{5, 1, 9}},
	} {
		if got := c.a.And(c.b); got != c.want {
			t.Errorf("%v and %v are %v", c.a, c.b, got)
		}
	}
}
