package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// answering has a process lead a unit and answer what is asked of it.
func answering(t *testing.T, s *Store, answer func(context.Context, string) string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done, begun := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		s.Lead(ctx, "x", func(ctx context.Context) error {
			close(begun)
			return s.Answer(ctx, answer)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	<-begun
}

// pair are two processes, in virtual time.
func pair(t *testing.T, test func(t *testing.T, a, b *Store)) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "w.db")
		a, b := process(t, path), process(t, path)
		run(t, a)
		run(t, b)
		test(t, a, b)
		var left int
		if err := a.read.Get(&left, `SELECT count(*) FROM questions`); err != nil || left > 0 {
			t.Errorf("%d questions are left (%v)", left, err)
		}
	})
}

func TestAnotherProcessAnswers(t *testing.T) {
	pair(t, func(t *testing.T, a, b *Store) {
		answering(t, b, func(_ context.Context, q string) string { return q + "!" })
		for i := range 3 {
			q := fmt.Sprint("who ", i)
			if got, err := a.Ask(t.Context(), "x", q); err != nil || got != q+"!" {
				t.Errorf("%s: %q, %v", q, got, err)
			}
		}
	})
}

func TestNobodyAnswers(t *testing.T) {
	pair(t, func(t *testing.T, a, b *Store) {
		if _, err := a.Ask(t.Context(), "x", "who"); !errors.Is(err, windsock.ErrNobody) {
			t.Errorf("while nobody holds it: %v", err)
		}
		lead(t, b, "x") // and does not answer
		<-time.After(time.Second)
		start := time.Now()
		if _, err := a.Ask(t.Context(), "x", "who"); !errors.Is(err, windsock.ErrNobody) || time.Since(start) > 2*nobodyAfter {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestWhoAsksNeedNotWait(t *testing.T) {
	pair(t, func(t *testing.T, a, b *Store) {
		answering(t, b, func(ctx context.Context, _ string) string { <-ctx.Done(); return "too late" })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.Ask(ctx, "x", "who"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTooManyQuestions(t *testing.T) {
	pair(t, func(t *testing.T, a, b *Store) {
		answering(t, b, func(context.Context, string) string { return "yes" })
		if err := a.do(t.Context(), func(t *tx) error {
			for range maxQuestions {
				t.exec(`INSERT INTO questions (name, body, until, taken) VALUES ('x', '', ?, 1)`, t.micros+time.Minute.Microseconds())
			}
			return t.err
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Ask(t.Context(), "x", "who"); !errors.Is(err, windsock.ErrTooMany) {
			t.Errorf("got %v", err)
		}
		<-time.After(2 * time.Minute) // whoever waited is gone
		if _, err := a.Ask(t.Context(), "x", "who"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}
