package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"windsock"
)

// faulty is the context of a caller that makes the transaction panic.
type faulty struct {
	context.Context
	asked *int
}

func (f faulty) Err() error {
	if *f.asked++; *f.asked > 1 { // the first is before it is in the queue
		panic("a fault of ours")
	}
	return nil
}

// A panic while something is written is the answer to those who wrote; others can write
// after it.
func TestAPanicOfATransactionIsItsAnswer(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		down := []windsock.Observation{said(windsock.KindInstance, "web-1", "m", windsock.Failed)}
		head := s.Head()
		if _, err := s.Record(faulty{t.Context(), new(int)}, down); !errors.Is(err, errPanic) || errors.Is(err, windsock.ErrUnavailable) || !strings.Contains(err.Error(), "a fault of ours") {
			t.Errorf("it was answered with %v", err)
		}
		if s.Head() != head {
			t.Errorf("the log has %d events more", s.Head()-head)
		}
		if out := must[[]windsock.Outcome](t)(s.Record(t.Context(), down)); out[0].Err != nil || s.Head() == head {
			t.Errorf("the next was not recorded: %+v", out[0])
		}
	})
}
