package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"windsock"
	"windsock/store"
)

// A duty is what one process at a time does, of those that have a role. Each time it is
// for this one to do, a new worker does it.
type duty[W worker] struct {
	store *store.Store
	role  windsock.Role
	hire  func(*store.Term) W
	reply func(context.Context, W, question) reply // to what other processes ask
	now   atomic.Pointer[W]                        // nil: this process waits for its turn
}

type worker interface {
	Run(context.Context) error
	Beat() time.Time
}

// Run does it whenever it is for us to do, until ctx ends.
func (d *duty[W]) Run(ctx context.Context) error {
	return d.store.Lead(ctx, string(d.role), func(ctx context.Context, term *store.Term) error {
		w := d.hire(term)
		d.now.Store(&w)
		defer d.now.Store(nil)
		var g errgroup.Group
		g.Go(func() error { return w.Run(ctx) })
		g.Go(func() error {
			return d.store.Answer(ctx, term, func(ctx context.Context, text string) string { return answerTo(ctx, w, text, d.reply) })
		})
		return g.Wait()
	})
}

// here returns who does it, if it is this process.
func (d *duty[W]) here() (w W, ok bool) {
	if now := d.now.Load(); now != nil {
		return *now, true
	}
	return w, false
}

// Beat is when it went on last. While that is for others to do, to wait is all there is.
func (d *duty[W]) Beat() time.Time {
	if w, ok := d.here(); ok && !w.Beat().IsZero() {
		return w.Beat()
	}
	return d.store.Beat()
}

// has reports whether a process has a role.
func (o *ServeOptions) has(role windsock.Role) bool { return slices.Contains(o.Roles, role) }

// processName is by what people know this process.
func processName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
