package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"windsock"
)

// One process asks another by a row that the other reads, and writes the answer into.
const (
	maxQuestions  = 256              // that wait at once, for one unit
	maxQuestion   = 16 << 20         // bytes
	nobodyAfter   = 5 * time.Second  // that nobody works on it
	questionLasts = 10 * time.Minute // at most
)

// Ask asks the process that holds the lease of a unit, and waits for its answer until ctx
// ends. It returns windsock.ErrNobody when none holds it, or that one is silent.
func (s *Store) Ask(ctx context.Context, unit, question string) (answer string, err error) {
	if len(question) > maxQuestion {
		return "", fmt.Errorf("%d bytes are asked: %w", len(question), windsock.ErrTooMany)
	}
	switch fence, err := s.atWork(ctx, unit); {
	case err != nil:
		return "", err
	case fence == 0:
		return "", fmt.Errorf("%s: %w", unit, windsock.ErrNobody)
	}
	until := time.Now().Add(questionLasts)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	var id int64
	err = s.do(ctx, func(t *tx) error {
		var waiting int
		t.get(&waiting, `SELECT count(*) FROM questions WHERE name = ?`, unit)
		if waiting >= maxQuestions {
			return fmt.Errorf("%d questions wait for %s: %w", waiting, unit, windsock.ErrTooMany)
		}
		t.get(&id, `INSERT INTO questions (name, body, until) VALUES (?, ?, ?) RETURNING id`, unit, question, t.micros+time.Until(until).Microseconds())
		t.dirty = true
		return t.err
	})
	if err != nil {
		return "", err
	}
	answer, err = s.await(ctx, id, unit, until)
	forgotten := s.do(context.WithoutCancel(ctx), func(t *tx) error {
		t.exec(`DELETE FROM questions WHERE id = ?`, id)
		return t.err
	})
	if err == nil {
		err = forgotten
	}
	return answer, err
}

// atWork returns the fence of who holds the lease of a unit and is there; 0: nobody.
func (s *Store) atWork(ctx context.Context, unit string) (fence int64, err error) {
	var rows []leaseRow
	if err := (reader{ctx, s.read}).query(&rows, unitViews+` WHERE name = ?`, unit); err != nil {
		return 0, err
	}
	for _, l := range rows {
		if l.Holder == s.id || l.Holder != 0 && s.there(l.Holder) {
			fence = l.Fence
		}
	}
	return fence, nil
}

// await waits for the answer to a question.
func (s *Store) await(ctx context.Context, id int64, unit string, until time.Time) (string, error) {
	for worked := time.Now(); time.Now().Before(until); {
		moved := s.moved.wait()
		var now []struct {
			Taken  int64  `db:"taken"`
			Answer string `db:"answer"`
		}
		if err := (reader{ctx, s.read}).query(&now, `SELECT taken, answer FROM questions WHERE id = ?`, id); err != nil {
			return "", err
		}
		fence, err := s.atWork(ctx, unit)
		switch {
		case err != nil:
			return "", err
		case len(now) == 0:
			return "", context.DeadlineExceeded
		case now[0].Answer != "":
			return now[0].Answer, nil
		case fence != 0 && fence == now[0].Taken:
			worked = time.Now()
		case time.Since(worked) >= nobodyAfter:
			return "", fmt.Errorf("%s: %w", unit, windsock.ErrNobody)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-moved:
		}
	}
	return "", context.DeadlineExceeded
}

// Answer has what others ask of the units that this process holds answered until ctx ends,
// each question by itself. No answer is empty.
func (s *Store) Answer(ctx context.Context, answer func(ctx context.Context, question string) string) error {
	var under sync.WaitGroup
	defer under.Wait()
	for ctx.Err() == nil {
		moved := s.moved.wait()
		asked, err := s.takeQuestions(ctx)
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("what other processes ask cannot be read", "error", err)
		}
		for _, q := range asked {
			under.Go(func() { s.answer(ctx, q.ID, answer(ctx, q.Body)) })
		}
		select {
		case <-ctx.Done():
		case <-moved:
		}
	}
	return nil
}

type question struct {
	ID    int64  `db:"id"`
	Unit  string `db:"name"`
	Body  string `db:"body"`
	Taken int64  `db:"taken"`
}

// takeQuestions returns those that are for us, and that we do not work on.
func (s *Store) takeQuestions(ctx context.Context) (list []question, err error) {
	var open []question
	if err := (reader{ctx, s.read}).query(&open, `SELECT id, name, taken FROM questions WHERE answer = '' ORDER BY id`); err != nil {
		return nil, err
	}
	terms := map[int64]*Term{}
	open = slices.DeleteFunc(open, func(q question) bool {
		terms[q.ID] = s.term(q.Unit)
		return terms[q.ID] == nil || terms[q.ID].fence == q.Taken
	})
	if len(open) == 0 {
		return nil, nil
	}
	err = s.do(ctx, func(t *tx) error {
		var ours []int64
		for _, q := range open {
			if m := terms[q.ID]; t.stands(m) {
				t.exec(`UPDATE questions SET taken = ? WHERE id = ?`, m.fence, q.ID)
				ours = append(ours, q.ID)
			}
		}
		t.all(&list, `SELECT id, name, body FROM questions WHERE `+inSet(`id`), set(ours))
		return t.err
	})
	return list, err
}

func (s *Store) answer(ctx context.Context, id int64, text string) {
	err := s.do(ctx, func(t *tx) error {
		t.exec(`UPDATE questions SET answer = ? WHERE id = ?`, text, id)
		return t.err
	})
	if err != nil && ctx.Err() == nil {
		s.Logger.Warn("another process cannot be answered", "error", err)
	}
}

// forgetQuestions deletes those for whose answer nobody waits any more.
func (s *Store) forgetQuestions(ctx context.Context) error {
	return s.deleteAny(ctx, ` FROM questions WHERE until < ?`, micros(s.now()))
}

// deleteAny deletes what there is of that, which mostly is nothing, and then writes nothing.
func (s *Store) deleteAny(ctx context.Context, from string, args ...any) error {
	var any bool
	if err := s.read.GetContext(ctx, &any, `SELECT EXISTS (SELECT 1`+from+`)`, args...); err != nil || !any {
		return unavailable(err)
	}
	return s.do(ctx, func(t *tx) error {
		t.exec(`DELETE`+from, args...)
		return t.err
	})
}
