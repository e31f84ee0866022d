package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"windsock"
)

// planning is a Planner that is never asked.
type planning struct{ Planner }

// served opens a store as it is served: with a key.
func served(t *testing.T, path string) *Store {
	t.Helper()
	s := must[*Store](t)(Open(t.Context(), path, Options{Planner: planning{}}))
	t.Cleanup(func() { s.Close() })
	return s
}

// A backup that is made while others write has all that was acknowledged before it began,
// and nothing by half.
func TestABackupOfAServerIsRefused(t *testing.T) {
	if _, err := Backup(t.Context(), "postgres://me:hush@db/windsock", filepath.Join(t.TempDir(), "b.db")); err == nil || !strings.Contains(err.Error(), "pg_dump") || strings.Contains(err.Error(), "hush") {
		t.Errorf("Backup: %v", err)
	}
}

func TestBackupWhileInUse(t *testing.T) {
	dir := t.TempDir()
	s := served(t, filepath.Join(dir, "w.db"))
	declare(t, s, "shop", "web-1", "web-2", "web-3", "web-4")
	var acked atomic.Int64
	var posting sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		posting.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				state := []windsock.State{windsock.Failed, windsock.Running}[k%2]
				out, err := s.Record(t.Context(), []windsock.Observation{instanceSaid(fmt.Sprint("web-", i+1), "a", state)})
				if err != nil {
					t.Error(err)
					return
				}
				for seq := out[0].EventSeq; ; {
					if old := acked.Load(); seq <= old || acked.CompareAndSwap(old, seq) {
						break
					}
				}
			}
		})
	}
	for n := range 5 {
		before, to := acked.Load(), filepath.Join(dir, fmt.Sprintf("b%d.db", n))
		b := must[BackedUp](t)(Backup(t.Context(), filepath.Join(dir, "w.db"), to))
		if b.Head < before {
			t.Errorf("backup %d goes to event %d, %d was acknowledged before", n, b.Head, before)
		}
		copied := served(t, to)
		list := must[[]windsock.Event](t)(copied.Events(t.Context(), 0, 1e6, windsock.EventFilter{}))
		if len(list) != int(b.Head) {
			t.Errorf("backup %d has %d events, want all %d", n, len(list), b.Head)
		}
		last := map[string]windsock.State{}
		for _, e := range list {
			if e.Type == windsock.InstanceState {
				last[e.SubjectID] = e.State
			}
		}
		for id, state := range last {
			if got := must[windsock.Instance](t)(copied.Instance(t.Context(), id)); got.State != state {
				t.Errorf("backup %d: %s is %s, its last event says %s", n, id, got.State, state)
			}
		}
	}
	close(stop)
	posting.Wait()
}

func TestRestore(t *testing.T) {
	dir := t.TempDir()
	path, backup, restored := filepath.Join(dir, "w.db"), filepath.Join(dir, "b.db"), filepath.Join(dir, "r.db")
	s := served(t, path)
	declare(t, s, "shop", "web-1")
	record(t, s, instanceSaid("web-1", "a", windsock.Failed))
	must[BackedUp](t)(Backup(t.Context(), path, backup))
	record(t, s, instanceSaid("web-1", "a", windsock.Running)) // which the backup does not have
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(backup)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup's mode is %v (%v), it has secrets in it", info.Mode(), err)
	}

	must[BackedUp](t)(Restore(t.Context(), backup, restored))
	r := served(t, restored)
	if got := must[windsock.Instance](t)(r.Instance(t.Context(), "web-1")); got.State != windsock.Failed {
		t.Errorf("web-1 is %s after the restore, the backup says failed", got.State)
	}
	if !bytes.Equal(r.Key, s.Key) {
		t.Error("the key is another one: tokens that were handed out are void")
	}
	out := record(t, r, instanceSaid("web-1", "b", windsock.Failed), instanceSaid("web-1", "a", windsock.Running), instanceSaid("web-1", "b", windsock.Running))
	again := out[2].EventSeq
	if id := must[[]windsock.Event](t)(r.Events(t.Context(), again-1, 1, windsock.EventFilter{}))[0].ID; id == windsock.EventID(s.LogID(), again) {
		t.Errorf("event %s stands for two", id)
	}
}

func TestBackupIsRefused(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	s := served(t, in("w.db"))
	declare(t, s, "shop", "web-1")
	must[BackedUp](t)(Backup(t.Context(), in("w.db"), in("b.db")))
	sound, err := os.ReadFile(in("b.db"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(sound)
	for i := 4096; i < len(damaged); i += 512 {
		damaged[i] ^= 0xff
	}
	for name, data := range map[string][]byte{"damaged.db": damaged, "text.db": []byte("no database, but long enough for one"), "half.db": sound[:len(sound)/2]} {
		if err := os.WriteFile(in(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for what, of := range map[string][2]string{
		"there is one already":    {"b.db", "w.db"},
		"of nothing":              {"nothing.db", "r.db"},
		"of what is damaged":      {"damaged.db", "r.db"},
		"of text":                 {"text.db", "r.db"},
		"of half a backup":        {"half.db", "r.db"},
		"into a folder not there": {"b.db", "no/r.db"},
	} {
		_, err := Restore(t.Context(), in(of[0]), in(of[1]))
		if err == nil {
			t.Errorf("%s: it was restored", what)
		}
		for _, left := range []string{"r.db", "r.db.part", "r.db.key"} {
			if _, err := os.Stat(in(left)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s is left behind", what, left)
			}
		}
	}
	if got := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1")); got.ID != "web-1" {
		t.Error("the database is not what it was")
	}
}
