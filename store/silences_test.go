package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"windsock"
)

// silence has callbacks wait.
func silence(t *testing.T, s *Store, spec windsock.SilenceSpec) windsock.Silence {
	t.Helper()
	spec.Author, spec.Reason = "alice", "disk swap"
	return must[windsock.Silence](t)(s.AddSilence(t.Context(), spec))
}

func TestSilences(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newRack(t, s, c)
		blue := silence(t, s, windsock.SilenceSpec{Scope: "deployment:host", Metadata: map[string]string{"team": "blue"}, Duration: windsock.Duration(time.Hour)})
		silence(t, s, windsock.SilenceSpec{Scope: "deployment:host", Metadata: map[string]string{"team": "red"}, Duration: windsock.Duration(2 * time.Hour)})
		if !blue.Active || blue.ID == "" {
			t.Errorf("it is %+v", blue)
		}
		r.say(windsock.Failed, "host-1")
		r.say(windsock.Stopped, "web-1")
		r.told("web-1 STOP") // the shop would fail by that, but depends on the host
		by := "silence " + blue.ID + " of alice: disk swap"
		if i := must[windsock.Instance](t)(s.Instance(t.Context(), "host-1")); !i.Held || i.HeldBy != by {
			t.Errorf("held %v by %q", i.Held, i.HeldBy)
		}
		held := 0
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), 0, 1000, windsock.EventFilter{})) {
			if e.HeldBy == by && e.Held == windsock.FailDetected && strings.HasPrefix(e.SubjectID, "host") {
				held++
			}
		}
		if held != 2 {
			t.Errorf("it is visible on %d events, want 2", held)
		}
		r.pass(59 * time.Minute)
		r.told()
		r.pass(2 * time.Minute)
		r.told("host-1 FAIL", "host FAIL")
		r.say(windsock.Running, "host-1")
		r.told("host-1 START", "host START")
	})
}

func TestASilenceIsEndedEarly(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newRack(t, s, c)
		all := silence(t, s, windsock.SilenceSpec{Scope: windsock.Global, Duration: windsock.Duration(time.Hour)})
		later := silence(t, s, windsock.SilenceSpec{Scope: windsock.Global, StartsAt: s.now().Add(time.Hour), EndsAt: s.now().Add(2 * time.Hour)})
		r.say(windsock.Failed, "host-1")
		r.say(windsock.Running, "host-1")
		r.told()
		for range 2 {
			if err := s.EndSilence(t.Context(), all.ID); err != nil {
				t.Fatal(err)
			}
		}
		r.pass(time.Second)
		r.told("host-1 START", "host START") // it may be that nobody knew, but the last word is told
		if err := s.EndSilence(t.Context(), later.ID); err != nil {
			t.Fatal(err)
		}
		for _, of := range must[[]windsock.Silence](t)(s.Silences(t.Context(), "", 10)) {
			if of.Active || of.EndsAt.After(s.now()) || of.StartsAt.After(of.EndsAt) {
				t.Errorf("it is %+v", of)
			}
		}
		r.pass(8 * 24 * time.Hour)
		if left := must[[]windsock.Silence](t)(s.Silences(t.Context(), "", 10)); len(left) > 0 {
			t.Errorf("a week after its end there is %+v", left)
		}
		if _, err := s.Silence(t.Context(), all.ID); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("it is %v", err)
		}
		if err := s.EndSilence(t.Context(), all.ID); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("it is ended: %v", err)
		}
		r.say(windsock.Failed, "host-1")
		r.told("host-1 FAIL", "host FAIL")
	})
}

func TestSilencesAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		for range maxSilences {
			silence(t, s, windsock.SilenceSpec{Scope: windsock.Global, Duration: windsock.Duration(time.Hour)})
		}
		_, err := s.AddSilence(t.Context(), windsock.SilenceSpec{Scope: windsock.Global, Author: "a", Reason: "b", Duration: windsock.Duration(time.Hour)})
		if !errors.Is(err, windsock.ErrTooMany) {
			t.Errorf("one more: %v", err)
		}
		page := must[[]windsock.Silence](t)(s.Silences(t.Context(), "", 3))
		next := must[[]windsock.Silence](t)(s.Silences(t.Context(), page[2].ID, 3))
		if len(page) != 3 || len(next) != 3 || slices.ContainsFunc(next, func(n windsock.Silence) bool { return n.ID <= page[2].ID }) {
			t.Errorf("pages of %d and %d", len(page), len(next))
		}
	})
}
