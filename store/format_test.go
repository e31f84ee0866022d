package store

import (
	"errors"
	"testing"

	"windsock"
)

func TestFormatsAreKept(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		for i, f := range []windsock.Format{windsock.Seed, windsock.Batch, windsock.Alertmanager, windsock.CloudEvents, windsock.Slack} {
			m := listening(t, s, 1+i, windsock.MonitorSpec{Format: f})
			if got := must[windsock.Target](t)(s.Target(t.Context(), m.ID)); got.Format != f {
				t.Errorf("%q is %q", f, got.Format)
			}
		}
		var invalid *windsock.FieldError
		_, err := s.AddMonitor(t.Context(), windsock.MonitorSpec{Address: "127.0.0.1", Port: 9, Format: "teams"}, windsock.Keys{})
		if !errors.As(err, &invalid) || invalid.Field != "format" {
			t.Errorf("teams: %v", err)
		}
	})
}
