package store

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// announce has the other processes hear of what is about to be committed, once it is.
func (t *tx) announce() {
	t.run(`SELECT pg_notify(?, ?)`, t.s.channel(), strconv.FormatInt(t.s.id, 10))
}

// channel is where those are that work on the same log.
func (s *Store) channel() string { return "windsock_" + s.logID }

// listenToServer returns what tells that another process committed something, until ctx
// ends.
func (s *Store) listenToServer(ctx context.Context, wg *sync.WaitGroup) <-chan struct{} {
	rang := make(chan struct{}, 1)
	wg.Go(func() {
		pause := firstPause
		for failing := false; ; {
			err := s.hear(ctx, func() {
				s.rung.Add(1)
				if failing {
					s.Logger.Info("other processes are heard again")
				}
				failing, pause = false, firstPause
				select {
				case rang <- struct{}{}:
				default: // it has rung already
				}
			})
			if ctx.Err() == nil && !failing {
				s.Logger.Warn("other processes are not heard, what they do is looked for now and then", "error", err)
			}
			failing = true
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, longestPause)
		}
	})
	return rang
}

// hear calls ring for what others announce until it fails; and once when it begins, for
// what was announced before.
func (s *Store) hear(ctx context.Context, ring func()) error {
	soon, cancel := context.WithTimeout(ctx, pgSilence)
	defer cancel()
	conn, err := pgx.ConnectConfig(soon, s.pg)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(soon))
	if _, err := conn.Exec(soon, "LISTEN "+s.channel()); err != nil {
		return err
	}
	ring()
	for own := strconv.FormatInt(s.id, 10); ; {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Payload != own {
			ring()
		}
	}
}
