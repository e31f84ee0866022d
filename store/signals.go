package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"windsock"
)

// signalsKept is how many signals of a component are kept, the latest.
const signalsKept = 100

// Signal takes in what became of a component, or what somebody says to a condition. It
// returns ErrNotFound for a token that is of none, and ErrFinal, with the outcome, when
// all was over: that is kept, and changes nothing.
func (s *Store) Signal(ctx context.Context, token windsock.Secret, said windsock.Signal) (out windsock.SignalOutcome, err error) {
	uid, run, ok := s.readSignalToken(token)
	if !ok {
		return out, fmt.Errorf("component: %w", windsock.ErrNotFound)
	}
	if said.ID != "" {
		if err := windsock.LookupID("id", said.ID); err != nil {
			return out, err
		}
	}
	said.Reason = windsock.CutReason(said.Reason)
	h := hearing{Signal: said, run: run}
	if h.kept, err = said.Keep(); err != nil {
		return out, err
	}
	if h.data, err = json.Marshal(said.Data); err != nil {
		return out, windsock.Invalid("data", "%v", err)
	}
	if len(h.data) > maxData {
		return out, windsock.Invalid("data", "at most %d bytes, got %d", maxData, len(h.data))
	}
	err = s.do(ctx, func(t *tx) error {
		w := t.last
		if w == nil {
			w = t.work()
		}
		t.last = nil // unless all goes well
		c := w.loadComponent(`uid = ?`, uid)
		if c == nil {
			if w.err != nil {
				return w.err
			}
			return fmt.Errorf("component: %w", windsock.ErrNotFound)
		}
		put(&w.touched, c.DeploymentID, c.of)
		was := c.State
		w.hear(c, &h)
		w.settleComponents()
		out = windsock.SignalOutcome{DeploymentID: c.DeploymentID, Component: c.Name, State: c.State, Changed: c.State != was}
		t.last = w
		return w.err
	})
	if err == nil && h.late {
		err = fmt.Errorf("component %q is %s: %w", out.Component, out.State, windsock.ErrFinal)
	}
	return out, err
}

// maxData is how many bytes may be said to a condition at once.
const maxData = 1 << 20

// hearing is a signal that is taken in.
type hearing struct {
	windsock.Signal
	run  int
	kept windsock.Kept
	data []byte
	late bool
}

// hear takes in a signal.
func (w *working) hear(c *component, h *hearing) {
	condition := c.Kind == windsock.KindCondition
	if h.late = c.State.Final() || !condition && (h.run != c.Run || !c.State.Offered()) || condition && c.Action == windsock.ActionDelete; h.late {
		w.keepSignal(c, h, cmp.Or(h.Status, windsock.SignalSuccess), h.Reason)
		w.saveComponent(c)
		return
	}
	if condition {
		h.run = c.Run
		w.hearCondition(c, h)
		return
	}
	status, reason := h.Status, h.Reason
	if status != windsock.SignalStarted {
		p := w.planOf(c)
		status, reason = h.Judge(p.Outputs, h.kept)
		w.keepOutputs(c, h.kept.Values)
	}
	w.keepSignal(c, h, status, reason)
	switch {
	case status == windsock.SignalFailure:
		w.fail(c, windsock.OnFailure, reason)
	case status == windsock.SignalSuccess || c.Silent:
		c.Signals++
		w.change(c, change{on: windsock.OnSuccess, reason: reason})
	case c.State == windsock.ComponentAvailable:
		c.StartedAt = w.micros
		w.change(c, change{on: windsock.OnStarted, reason: reason})
	default:
		w.saveComponent(c)
	}
}

// hearCondition counts a signal to a condition. One with the same id takes the place of the
// one before, and any failure fails it at once.
func (w *working) hearCondition(c *component, h *hearing) {
	status := h.Status
	if h.ID == "" && status != windsock.SignalStarted {
		h.ID = w.freeSender(c)
	}
	switch status {
	case windsock.SignalStarted:
		w.keepSignal(c, h, status, h.Reason)
		w.saveComponent(c)
		return
	case windsock.SignalFailure:
		w.exec(`DELETE FROM component_data WHERE component_id = ? AND sender = ?`, c.ID, h.ID)
	default:
		status = windsock.SignalSuccess
		w.exec(`INSERT INTO component_data (component_id, sender, data) VALUES (?, ?, ?) ON CONFLICT (component_id, sender) DO UPDATE SET data = excluded.data`, c.ID, h.ID, string(h.data))
	}
	w.get(&c.Signals, `SELECT count(*) FROM component_data WHERE component_id = ?`, c.ID)
	reason := h.Reason
	if reason == "" {
		reason = "signal " + h.ID + " was received"
	}
	w.keepSignal(c, h, status, reason)
	switch {
	case status == windsock.SignalFailure:
		w.fail(c, windsock.OnFailure, reason)
	case c.State == windsock.ComponentRunning && c.Signals >= c.Wanted:
		w.change(c, change{on: windsock.OnSuccess, reason: reason})
	default:
		w.saveComponent(c)
	}
}

// freeSender is the next number that nobody gave as an id to a condition.
func (w *working) freeSender(c *component) string {
	for n := c.Signals + 1; ; n++ {
		id, taken := strconv.Itoa(n), false
		w.get(&taken, `SELECT EXISTS (SELECT 1 FROM component_data WHERE component_id = ? AND sender = ?)`, c.ID, id)
		if !taken {
			return id
		}
	}
}

// fail has a component fail, or be too late, and run again if that is wished for. What fails
// once its time is up was too late, whoever says so first.
func (w *working) fail(c *component, on windsock.Occasion, reason string) {
	if c.DeadlineAt > 0 && c.DeadlineAt <= w.micros {
		on = windsock.OnDeadline
	}
	c.Failures++
	w.change(c, change{on: on, reason: reason})
	if c.Failures > c.Retries || w.err != nil {
		return
	}
	w.change(c, change{on: windsock.OnRetry, reason: fmt.Sprintf("run %d: %s", c.Run, c.Reason), quiet: true})
	w.try(`id = ?`, c.ID)
}

func (w *working) keepOutputs(c *component, values map[string]json.RawMessage) {
	if c.Run > 1 {
		w.exec(`DELETE FROM component_outputs WHERE component_id = ?`, c.ID)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		w.exec(`INSERT INTO component_outputs (component_id, name, value) VALUES (?, ?, ?)`, c.ID, name, string(values[name]))
	}
}

// keepSignal notes a signal in the history of a component. The caller saves c.
func (w *working) keepSignal(c *component, h *hearing, status windsock.SignalStatus, reason string) {
	c.Heard++
	w.exec(`INSERT INTO component_signals (component_id, n, at, run, sender, status, reason, late) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		c.ID, c.Heard, w.micros, h.run, h.ID, string(status), reason, h.late)
	if c.Heard > signalsKept {
		w.exec(`DELETE FROM component_signals WHERE component_id = ? AND n <= ?`, c.ID, c.Heard-signalsKept)
	}
	w.countSignal(status, h.late)
}

// settleComponents has all go on whose turn it is, rolls up what is concerned, and writes
// it.
func (w *working) settleComponents() {
	for _, d := range w.goOn() {
		w.roll(d)
	}
	w.flush()
}
