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
	h, err := s.hearing(token, said)
	if err != nil {
		return out, err
	}
	o := &op{ctx: ctx, said: h}
	s.submit(o)
	if o.err == nil && h.late {
		o.err = fmt.Errorf("component %q is %s: %w", h.out.Component, h.out.State, windsock.ErrFinal)
	}
	return h.out, o.err
}

func (s *Store) hearing(token windsock.Secret, said windsock.Signal) (h *hearing, err error) {
	uid, run, ok := s.readSignalToken(token)
	if !ok {
		return nil, errNoSuchToken
	}
	if said.ID != "" {
		if err := windsock.LookupID("id", said.ID); err != nil {
			return nil, err
		}
	}
	said.Reason = windsock.CutReason(said.Reason)
	h = &hearing{Signal: said, uid: uid, run: run}
	if h.kept, err = said.Keep(); err != nil {
		return nil, err
	}
	if h.data, err = json.Marshal(said.Data); err != nil {
		return nil, windsock.Invalid("data", "%v", err)
	}
	if len(h.data) > maxData {
		return nil, windsock.Invalid("data", "at most %d bytes, got %d", maxData, len(h.data))
	}
	return h, nil
}

var errNoSuchToken = fmt.Errorf("component: %w", windsock.ErrNotFound)

// signal takes in what several callers of Signal say: together or, if that fails, each
// alone.
func (t *tx) signal(ops []*op) {
	err := t.attempt(func(t *tx) error { return t.work().hearAll(ops) })
	switch {
	case err == nil:
	case len(ops) == 1:
		ops[0].err = err
	default:
		for i := range ops {
			t.signal(ops[i : i+1])
		}
	}
}

// hearAll takes in signals, and what comes of them is what would have come of one after
// the other.
func (w *working) hearAll(ops []*op) error {
	uids := make(byteSet, len(ops))
	for i, o := range ops {
		uids[i] = o.said.uid
	}
	spoken := map[string]*component{}
	for _, c := range w.loadPlanned(inByteSet(`uid`), uids) {
		spoken[string(c.UID)] = c
	}
	for _, o := range ops {
		if w.err != nil {
			return w.err
		}
		if o.err = w.admit(o); o.err != nil {
			continue
		}
		w.at(o)
		h := o.said
		c := spoken[string(h.uid)]
		if c == nil || c.over {
			o.err = errNoSuchToken
			continue
		}
		was := c.State
		put(&w.touched, c.DeploymentID, c.of)
		w.hear(c, h)
		w.rollTouched()
		h.out = windsock.SignalOutcome{DeploymentID: c.DeploymentID, Component: c.Name, State: c.State, Changed: c.State != was}
	}
	w.flush()
	return w.err
}

// maxData is how many bytes may be said to a condition at once.
const maxData = 1 << 20

// hearing is a signal that is taken in.
type hearing struct {
	windsock.Signal
	uid  []byte
	run  int
	kept windsock.Kept
	data []byte
	late bool
	out  windsock.SignalOutcome
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
		status, reason = h.Judge(c.Outputs, h.kept)
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
	w.rollTouched()
	w.flush()
}

func (w *working) rollTouched() {
	for _, d := range w.goOn() {
		w.roll(d)
	}
}
