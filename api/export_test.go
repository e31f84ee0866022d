package api

import (
	"context"
	"slices"

	"windsock"
)

// ProblemTypes lists the types of all problems, sorted.
func ProblemTypes() []string {
	types := []string{"/problems/invalid", "/problems/internal"}
	for _, f := range faults {
		types = append(types, "/problems/"+f.kind)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// A Need is what a route needs of who calls.
type Need struct {
	Method, Path string
	Needs        windsock.Permission
}

// Needs lists those of all routes.
func Needs(s *Server) (all []Need) {
	for _, rt := range s.routes() {
		all = append(all, Need{rt.method, rt.path, rt.needs})
	}
	return all
}

// Digest and Tail are what answers are made of for all who ask at once.
type (
	Digest = digest
	Tail   = tail
)

func (d *digest) Of(ctx context.Context, store Store) ([]byte, error) { return d.of(ctx, store) }

func (t *tail) Since(ctx context.Context, log Log, after int64) ([]byte, int64, bool, error) {
	return t.since(ctx, log, after)
}

func (t *tail) Size() int { return len(t.text) }

const TailBytes = tailBytes
