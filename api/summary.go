package api

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// A digest is the summary of the model as it was last answered. To make it costs by the
// number of deployments, so it is made once for all who ask, and takes up no more than a
// part of the time.
type digest struct {
	mu   sync.Mutex
	body []byte
	seq  int64 // of the newest event then
	made time.Time
	took time.Duration
}

const (
	digestShare = 20              // the part of the time is one in so many
	digestLasts = 5 * time.Second // while nothing happens: that callbacks fail is no event
)

func (s *Server) showSummary(w http.ResponseWriter, r *http.Request) error {
	body, err := s.digest.of(r.Context(), s.Store)
	if err != nil {
		return err
	}
	return show(w, r, http.StatusOK, "application/json", body)
}

func (d *digest) of(ctx context.Context, store Store) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lasts := digestShare * d.took
	if d.seq == store.Head() {
		lasts = max(lasts, digestLasts)
	}
	begun := time.Now()
	if begun.Sub(d.made) < lasts {
		return d.body, nil
	}
	sum, err := store.Summary(ctx)
	if err != nil {
		return nil, err
	}
	if d.body, err = json.Marshal(sum); err != nil {
		return nil, err
	}
	d.seq, d.made = sum.Seq, time.Now()
	d.took = d.made.Sub(begun)
	return d.body, nil
}
