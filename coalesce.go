package windsock

import "cmp"

// Backlog says what a monitor hears of a subject of which several events wait.
type Backlog string

// What it hears; absent means Every.
const (
	Every  Backlog = "every"
	Latest Backlog = "latest" // the newest, which says what the others were
)

// Coalesces reports whether a later event of the subject may take the place of e while
// it waits, or e that of an earlier one. What was asked for once more is told as it was,
// and a gap as it is.
func (t *Target) Coalesces(e *Event) bool {
	return (t.Backlog == Latest || e.Seq <= t.Progress.LatestTo) && e.Kind != KindLog && !t.Progress.Window.Repeats(e)
}

// Coalesce returns the one event that is told for two, or more, of a subject: the newest,
// with the state as it was before the first. Where only the earlier ones had a word that
// still holds, it is told, too; unless the word of the newest is held.
func Coalesce(first, newest Event) Event {
	newest.Previous, newest.PreviousSince = cmp.Or(first.Previous, first.State), first.PreviousSince
	removed := newest.Type == InstanceRemoved || newest.Type == DeploymentRemoved
	if newest.Word == "" && newest.Held == "" && newest.State != newest.Previous && !removed {
		newest.Word = Heard(newest.State)
	}
	return newest
}
