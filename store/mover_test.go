package store

import (
	"testing"
	"time"

	"windsock"
)

// The write-ahead log is moved into the database by another than who commits, which find it
// far too short for that.
func TestTheLogIsMovedBesideTheCommits(t *testing.T) {
	s := quiet(t, freshFile(t))
	run(t, s)
	declare(t, s, "shop", "web-1")
	for k := range moveAfter / 3 { // three statements each, or more
		record(t, s, instanceSaid("web-1", "probe", []windsock.State{windsock.Failed, windsock.Running}[k%2]))
	}
	for patience := time.After(time.Minute); ; {
		var busy, pages, moved int
		if err := s.write.QueryRow(`PRAGMA wal_checkpoint(NOOP)`).Scan(&busy, &pages, &moved); err != nil {
			t.Fatal(err)
		}
		if pages >= longestLog {
			t.Fatalf("the log has %d pages: commits move it, too", pages)
		}
		if moved > 0 {
			return
		}
		select {
		case <-patience:
			t.Fatalf("none of %d pages was moved", pages)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
