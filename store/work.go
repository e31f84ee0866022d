package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"windsock"
)

// Work returns what an instance may run now, with what that is given. It returns
// ErrUnauthorized when the token is not the instance's. Signal URLs begin with base.
func (s *Store) Work(ctx context.Context, instanceID string, token windsock.Secret, base string) (windsock.Work, error) {
	work, broken, err := s.workOf(ctx, instanceID, token, base)
	if err != nil || len(broken) == 0 {
		return work, err
	}
	err = s.do(ctx, func(t *tx) error { // what it refers to has changed since it was its turn
		w := t.work()
		for id, reason := range broken {
			if c := w.loadComponent(`id = ? AND `+isOffered, id); c != nil {
				put(&w.touched, c.DeploymentID, c.of)
				w.change(c, change{on: windsock.OnFailure, reason: reason})
			}
		}
		w.settleComponents()
		return w.err
	})
	return work, err
}

// WorkRevision returns the same without the components.
func (s *Store) WorkRevision(ctx context.Context, instanceID string, token windsock.Secret) (work windsock.Work, err error) {
	work.InstanceID, work.Revision, err = authorize(reader{ctx, s.read}, instanceID, token)
	return work, err
}

// workOf reads that. What cannot be handed out is told by the ids of the components, with
// the reasons: it hides no other.
func (s *Store) workOf(ctx context.Context, instanceID string, token windsock.Secret, base string) (work windsock.Work, broken map[int64]string, err error) {
	err = s.snapshot(ctx, func(r snapshot) (err error) {
		work, broken, err = s.readWork(r, instanceID, token, base)
		return err
	})
	return work, broken, err
}

func (s *Store) readWork(r queryer, instanceID string, token windsock.Secret, base string) (work windsock.Work, broken map[int64]string, err error) {
	work.Components = []windsock.Task{}
	if work.InstanceID, work.Revision, err = authorize(r, instanceID, token); err != nil {
		return work, nil, err
	}
	var offered []*component
	if err := r.query(&offered, `SELECT `+componentColumns+`, `+planColumns+` FROM `+plannedComponents+` WHERE instance_id = ? AND `+isOffered+` ORDER BY available_at, id`, work.InstanceID); err != nil {
		return work, nil, err
	}
	known, err := knownTo(r, offered, s.link(base))
	if err != nil {
		return work, nil, err
	}
	for _, c := range offered {
		url := s.link(base)(c)
		given := givenInputs(c, url)
		known[c.DeploymentID][""] = windsock.Produced{Attributes: given}
		job, err := s.resolve(c.Spec, c.Action, known[c.DeploymentID])
		if err != nil {
			put(&broken, c.ID, windsock.CutReason(err.Error()))
			continue
		}
		for _, name := range windsock.GivenInputs {
			job.Inputs = append(job.Inputs, windsock.Input{Name: name, Type: "String", Value: given[name]})
		}
		work.Components = append(work.Components, windsock.Task{
			ID: fmt.Sprintf("%s.%d", uidText(c.UID), c.Run), Name: c.Name, DeploymentID: c.DeploymentID, Action: c.Action,
			CreationTime: fromMicros(c.AvailableAt), DeadlineAt: fromMicros(c.DeadlineAt), SignalURL: url, Job: job,
		})
	}
	return work, broken, nil
}

// givenInputs are the values of windsock.GivenInputs.
func givenInputs(c *component, url string) map[string]any {
	transport := "CFN_SIGNAL"
	if c.Silent {
		transport = "NO_SIGNAL"
	}
	return map[string]any{
		"deploy_server_id": c.InstanceID, "deploy_action": string(c.Action), "deploy_stack_id": c.DeploymentID, "deploy_resource_name": c.Name,
		"deploy_signal_transport": transport, "deploy_signal_id": url, "deploy_signal_verb": "POST",
	}
}

// AwaitWork returns nil once the instance's revision is not the given one any more, or the
// error of ctx. It returns ErrNotFound when the instance is not there.
func (s *Store) AwaitWork(ctx context.Context, instanceID string, revision int64) error {
	for {
		a := s.work.join(instanceID, revision)
		var now int64
		var err error
		aside(func() { now, err = s.revision(ctx, instanceID) })
		if err != nil || now != revision {
			s.work.leave(instanceID, a)
			return err
		}
		select {
		case <-a.woken:
		case <-ctx.Done():
			s.work.leave(instanceID, a)
			return ctx.Err()
		}
	}
}

// aside runs f on a stack that goes with it: that of one who waits stays small.
func aside(f func()) {
	var other sync.WaitGroup
	other.Go(f)
	other.Wait()
}

func (s *Store) revision(ctx context.Context, instanceID string) (revision int64, err error) {
	var rows []int64
	if err := s.read.SelectContext(ctx, &rows, `SELECT work FROM instances WHERE id = ?`, instanceID); err != nil {
		return 0, unavailable(err)
	}
	if len(rows) == 0 {
		return 0, notFound(windsock.KindInstance, instanceID)
	}
	return rows[0], nil
}

// lookForWork wakes those who wait for what another process had committed.
func (s *Store) lookForWork(ctx context.Context) error {
	waiting := s.work.all()
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(waiting)), chunkSize) {
		var rows []struct {
			ID   string `db:"id"`
			Work int64  `db:"work"`
		}
		if err := s.read.SelectContext(ctx, &rows, `SELECT id, work FROM instances WHERE `+inSet(`id`), set(ids)); err != nil {
			return unavailable(err)
		}
		for _, row := range rows {
			if waiting[row.ID] == row.Work {
				delete(waiting, row.ID)
			}
		}
	}
	s.work.wake(slices.Collect(maps.Keys(waiting))...) // those that are gone, too
	return nil
}

// waiters are those who wait for what instances are to run, so that to wake those of one
// costs nothing for the others.
type waiters struct {
	mu sync.Mutex
	of map[string]*awaited
}

// awaited is one instance that somebody waits for.
type awaited struct {
	woken    chan struct{}
	revision int64 // that the latest of them has
	n        int
}

func (w *waiters) join(id string, revision int64) *awaited {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.of[id]
	if a == nil {
		a = &awaited{woken: make(chan struct{})}
		put(&w.of, id, a)
	}
	a.n++
	a.revision = revision
	return a
}

func (w *waiters) leave(id string, a *awaited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.n--; a.n == 0 && w.of[id] == a {
		delete(w.of, id)
	}
}

func (w *waiters) wake(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if a := w.of[id]; a != nil {
			close(a.woken)
			delete(w.of, id)
		}
	}
}

// all are the instances that somebody waits for, with the revisions.
func (w *waiters) all() map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make(map[string]int64, len(w.of))
	for id, a := range w.of {
		ids[id] = a.revision
	}
	return ids
}
