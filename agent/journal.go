package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A phase is how far a task has come.
type phase string

const (
	begun    phase = "begun"    // its hook may have run, or part of it
	finished phase = "finished" // the result is not taken yet
	settled  phase = "settled"  // nothing is left to do
)

// An entry is what is kept of a task over restarts.
type entry struct {
	ID         string          `json:"id"`
	Component  string          `json:"component"`
	Phase      phase           `json:"phase"`
	SignalURL  string          `json:"signal_url,omitempty"`
	DeadlineAt time.Time       `json:"deadline_at,omitzero"`
	Report     bool            `json:"report,omitempty"` // that it was interrupted, instead of running it again
	Task       json.RawMessage `json:"task,omitempty"`   // of a silent one: nobody lists it again
	Result     json.RawMessage `json:"result,omitempty"`

	settledAt time.Time
}

// A journal keeps a file for each task, so that one that finished never runs again, and
// its result is never lost. A file is replaced whole, or not at all.
type journal struct {
	dir  string
	lock *os.File

	mu      sync.Mutex
	entries map[string]entry
}

// openJournal reads what an agent before us left. There can be one agent at a time; one
// that was killed while it started a program may take a moment to be gone.
func openJournal(state string, patience time.Duration, log *slog.Logger) (*journal, error) {
	j := &journal{dir: filepath.Join(state, "tasks"), entries: map[string]entry{}}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(state, 0o700); err != nil {
		return nil, err
	}
	var err error
	if j.lock, err = os.OpenFile(filepath.Join(state, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if !await(patience, func() bool {
		err = syscall.Flock(int(j.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		return err == nil
	}) {
		j.close()
		return nil, fmt.Errorf("%s is another agent's: %w", state, err)
	}
	files, err := os.ReadDir(j.dir)
	if err != nil {
		j.close()
		return nil, err
	}
	for _, file := range files {
		path := filepath.Join(j.dir, file.Name())
		var e entry
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &e) == nil && file.Name() == fileName(e.ID) {
			j.entries[e.ID] = e
			continue
		}
		if filepath.Ext(path) != temporary {
			log.Warn("an entry of the journal is damaged", "file", path)
		}
		os.Remove(path)
	}
	return j, nil
}

func (j *journal) close() { j.lock.Close() }

// put keeps an entry; when it returns nil, over a loss of power.
func (j *journal) put(e entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.Phase == settled {
		e = entry{ID: e.ID, Component: e.Component, Phase: settled, settledAt: time.Now()}
	}
	j.entries[e.ID] = e
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(j.dir, fileName(e.ID)), text)
}

// forget drops those entries.
func (j *journal) forget(those func(entry) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, e := range j.entries {
		if those(e) {
			delete(j.entries, id)
			os.Remove(filepath.Join(j.dir, fileName(id)))
		}
	}
}

// phase is "" for a task that the journal does not have.
func (j *journal) phase(id string) phase {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.entries[id].Phase
}

// in returns the entries in that phase, and how many bytes of results they have.
func (j *journal) in(p phase) (those []entry, size int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries {
		if e.Phase == p {
			those = append(those, e)
			size += len(e.Result)
		}
	}
	return those, size
}

// fileName makes a name for a file of an id, which may have any characters.
func fileName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

const temporary = ".new"

// writeFile puts the file there whole or not at all; when it returns nil, to stay.
func writeFile(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path+temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path + temporary)
		return err
	}
	if err := os.Rename(path+temporary, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
