package monitors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"windsock"
)

// saveEvery is how long progress is collected before it is saved, and so what a crash
// repeats: what was delivered within that time.
const saveEvery = 50 * time.Millisecond

// A saver saves how far monitors are, many at a time.
type saver struct {
	log     Log
	at      *atomic.Int64 // how far the reader is
	trouble trouble
	saving  sync.Mutex // one save at a time, or an older could come later

	mu     sync.Mutex
	dirty  map[*monitor]struct{}
	wake   chan struct{}
	taken  int    // tries that were, and wait to be saved
	failed int    // and that were not
	credit credit // for those taken
}

func newSaver(log Log, logger *slog.Logger, at *atomic.Int64) *saver {
	return &saver{
		log: log, at: at,
		trouble: trouble{logger: logger, what: "saving how far the monitors are"},
		dirty:   map[*monitor]struct{}{},
		wake:    make(chan struct{}, 1),
	}
}

// mark has m saved with the next lot.
func (s *saver) mark(m *monitor) {
	s.mu.Lock()
	s.dirty[m] = struct{}{}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run saves what is marked until ctx ends.
func (s *saver) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		err := s.save(ctx)
		if ctx.Err() != nil {
			return
		}
		s.trouble.note(err)
		sleep(ctx, saveEvery)
	}
}

// save saves what is marked. What could not be saved stays marked.
func (s *saver) save(ctx context.Context) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	lot := s.dirty
	s.dirty = map[*monitor]struct{}{}
	s.mu.Unlock()

	at := s.at.Load() // before the monitors are asked: one that then waits for nothing was offered all up to here
	var progress []windsock.Progress
	var of []*monitor
	var terms []windsock.Term
	for m := range lot {
		if !m.share.term.Stands() {
			s.mark(m) // until it is gone, or ours again
			continue
		}
		p, ok := m.progress(m.share.reach(at))
		if !ok {
			s.release(&p)
			continue
		}
		progress, of = append(progress, p), append(of, m)
		if !slices.Contains(terms, m.share.term) {
			terms = append(terms, m.share.term)
		}
	}
	if len(progress) == 0 {
		return nil
	}
	if err := s.log.SaveProgress(windsock.Under(ctx, terms...), progress); err != nil {
		for i, m := range of {
			m.unsaved(&progress[i])
			s.mark(m)
		}
		return err
	}
	for i := range progress {
		s.release(&progress[i])
	}
	var failed error
	for _, m := range of {
		if err := s.announce(ctx, m); err != nil {
			s.mark(m)
			failed = err
		}
	}
	return failed
}

// announce has the log say that a monitor was paused, or resumed, if it does not yet.
func (s *saver) announce(ctx context.Context, m *monitor) error {
	now, why, unsaid := m.news()
	if !unsaid {
		return nil
	}
	ctx = windsock.Under(ctx, m.share.term)
	var err error
	if now == "" {
		_, err = s.log.ResumeMonitor(ctx, m.id, windsock.Recovered)
	} else {
		_, err = s.log.PauseMonitor(ctx, m.id, now, why)
	}
	if err != nil && !errors.Is(err, windsock.ErrNotFound) {
		return err
	}
	m.said(now)
	return nil
}
