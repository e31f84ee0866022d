package monitors

import (
	"slices"

	"windsock"
)

// window returns what the monitor is still told again, or nil when that is over: the
// cursor is past all of it, and no lane holds any of it.
func (m *monitor) window() *windsock.Window {
	w := m.target.Progress.Window
	if w == nil {
		return nil
	}
	end := w.End()
	for _, l := range m.lanes {
		if l.parked && l.first <= end {
			return w
		}
	}
	if m.cursor < end {
		return w
	}
	return nil
}

// replayHeader marks what may have been taken before, and is told again as was asked for.
const replayHeader = "Windsock-Replay"

// repeats reports whether something of a batch is told again.
func (b *batch) repeats() bool {
	w := b.target.Progress.Window
	return w != nil && slices.ContainsFunc(b.items, func(it item) bool { return w.Repeats(&it.Event) })
}
