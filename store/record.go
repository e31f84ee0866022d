package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"windsock"
)

// maxSources is how many sources may speak about one subject. Each is kept, so a
// stranger must not be able to invent them without end. Those of one family, as each alert
// of an Alertmanager is a source, make room for each other once they report no failure.
const maxSources = 64

// Record takes in what was observed, and is the only way for an observed state to
// change. In one transaction it reads what is known of the subjects, merges, rolls up
// the deployments concerned, writes what changed and appends the events. It returns
// after the commit, with one Outcome for each observation.
//
// An observation that cannot be taken in (its subject is not known) is told so in its
// Outcome and does not concern the others. When Record returns an error nothing was
// stored.
//
// Records that arrive during a commit are written together by the next, and what comes
// of them is what would have come of one after the other.
func (s *Store) Record(ctx context.Context, obs []windsock.Observation) ([]windsock.Outcome, error) {
	if len(obs) == 0 {
		return nil, nil
	}
	o := &op{ctx: ctx, obs: obs}
	s.submit(o)
	return o.out, o.err
}

// record writes what several callers of Record observed.
func (t *tx) record(ops []*op) {
	w := t.work()
	w.loadSubjects(ops)
	for _, o := range ops {
		if o.err = t.admit(o); o.err != nil {
			continue
		}
		t.at(o)
		caller := windsock.PrincipalOf(o.ctx)
		w.by, w.scope = caller.Name, caller.Scope
		o.out = make([]windsock.Outcome, len(o.obs))
		concerned := make([]*deployment, 0, 1)
		for i := range o.obs {
			if t.err != nil {
				return // not all is loaded
			}
			if o.obs[i].As != nil {
				var changed []*deployment
				if changed, o.out[i].Err = w.describe(&o.obs[i]); o.out[i].Err != nil {
					continue
				}
				concerned = append(concerned, changed...)
			}
			d := w.observe(&o.obs[i], &o.out[i])
			if d != nil && (len(concerned) == 0 || concerned[len(concerned)-1] != d) {
				concerned = append(concerned, d)
			}
		}
		w.rollAll(append(concerned, w.goOn()...), o)
	}
	w.flush()
}

// rollAll rolls up the deployments that o was about, and completes the outcomes of what
// it said of a deployment itself.
func (w *working) rollAll(concerned []*deployment, o *op) {
	rolled := make(map[*deployment]int64, len(concerned))
	for _, d := range concerned {
		if _, ok := rolled[d]; !ok {
			rolled[d] = w.roll(d)
		}
	}
	for i := range o.out {
		if out := &o.out[i]; out.Err == nil && out.Subject.Kind == windsock.KindDeployment {
			d := w.deployments[out.Subject.ID]
			d.keep(&o.obs[i])
			out.EventSeq = rolled[d]
			out.Changed, out.State = out.EventSeq != 0, windsock.State(d.State)
		}
	}
}

// observe applies one observation and returns the deployment that is to be rolled up
// because of it, if any.
func (w *working) observe(obs *windsock.Observation, out *windsock.Outcome) *deployment {
	out.Subject = obs.Subject
	switch obs.Subject.Kind {
	case windsock.KindInstance:
		i, err := w.findInstance(obs.Provider, obs.Subject.ID)
		if err != nil {
			out.Err = cmp.Or(w.outside(obs.Subject, obs.Subject.ID, nil), err)
			return nil
		}
		if out.Err = w.outside(obs.Subject, i.ID, i.of); out.Err != nil {
			return nil
		}
		out.Subject.ID, out.State = i.ID, windsock.State(i.State)
		before := i.as()
		if !w.apply(&i.body, obs, out) {
			return nil
		}
		out.EventSeq = w.judge(i, obs.Source, obs.Promise)
		out.Changed, out.State = out.EventSeq != 0, windsock.State(i.State)
		i.keep(obs)
		if i.as() == before {
			return nil
		}
		i.of.looks = max(i.of.looks, obs.Promise)
		return i.of
	default:
		d, err := w.findDeployment(obs.Provider, obs.Subject.ID)
		if err != nil {
			out.Err = cmp.Or(w.outside(obs.Subject, obs.Subject.ID, nil), err)
			return nil
		}
		if out.Err = w.outside(obs.Subject, d.ID, d); out.Err != nil {
			return nil
		}
		out.Subject.ID, out.State = d.ID, windsock.State(d.State)
		if !w.apply(&d.body, obs, out) {
			return nil
		}
		d.cause, d.looks = obs.Source, max(d.looks, obs.Promise)
		return d
	}
}

// outside returns that a subject, whose id of ours it is given, does not lie in the scope of
// the caller, if so. One that is not there does not either: he is not to learn what is.
func (w *working) outside(named windsock.Subject, id string, of *deployment) error {
	subject := windsock.Subject{Kind: named.Kind, ID: id}
	if of == nil {
		of = &deployment{}
		if named.Kind == windsock.KindDeployment {
			of.ID = id
		}
	}
	if w.scope.Covers(subject, of.ID, of.Provider, of.Pool) {
		return nil
	}
	return fmt.Errorf("%s %q does not lie in %s, on which alone this token may report: %w", named.Kind, windsock.Clip(named.ID), w.scope, windsock.ErrForbidden)
}

// apply folds an observation into the evidence, and reports whether it says anything.
func (w *working) apply(b *body, obs *windsock.Observation, out *windsock.Outcome) bool {
	if obs.State == "" {
		return false
	}
	at := b.index(obs.Source)
	if at >= maxSources {
		b.evidence, b.touched = b.evidence[:at], b.touched[:at]
		if old := windsock.Dispensable(b.evidence, obs.Source, w.now); old != "" && w.forget(out.Subject.Kind, out.Subject.ID, b, old) {
			return w.apply(b, obs, out)
		}
		out.Err = fmt.Errorf("%d sources speak about %s %q already, %w to hear another", maxSources, out.Subject.Kind, out.Subject.ID, windsock.ErrTooMany)
		return false
	}
	next, effect := b.evidence[at].Apply(*obs, w.now)
	if effect == windsock.Ignored {
		if next.Source == "" { // it would have been the first statement
			b.evidence, b.touched = b.evidence[:at], b.touched[:at]
		}
		return false
	}
	b.evidence[at] = next
	// What a poll or a probe sees again is not worth a write unless it changes the state,
	// which keep sees to. A monitor's word is: it moves a deadline, and outdates older ones.
	if effect == windsock.Changed || obs.Origin == windsock.FromMonitor {
		b.touched[at] = true
	}
	return true
}

// keep has the evidence of obs written when it changed what is believed.
func (b *body) keep(obs *windsock.Observation) {
	if b.changed && obs.State != "" {
		at := slices.IndexFunc(b.evidence, func(e windsock.Evidence) bool { return e.Source == obs.Source })
		if at >= 0 { // or it lifted nothing
			b.touched[at] = true
		}
	}
}

// loadSubjects reads all that the ops are about. A subject may be named by its
// provider's id; that is looked for when we have no such id.
func (w *working) loadSubjects(ops []*op) {
	ids, theirs := map[windsock.Kind][]string{}, map[windsock.Kind][]string{}
	for _, o := range ops {
		for i := range o.obs {
			s, as := o.obs[i].Subject, o.obs[i].As
			ids[s.Kind] = append(ids[s.Kind], s.ID)
			if o.obs[i].Provider != "" {
				theirs[s.Kind] = append(theirs[s.Kind], s.ID)
			}
			if as != nil {
				theirs[windsock.KindDeployment] = append(theirs[windsock.KindDeployment], as.RunsOn...)
				if as.Deployment != "" {
					theirs[windsock.KindDeployment] = append(theirs[windsock.KindDeployment], as.Deployment)
				}
			}
		}
	}
	w.loadDeployments(ids[windsock.KindDeployment])
	w.addDeployments(unique(append(theirs[windsock.KindDeployment], missing(ids[windsock.KindDeployment], w.deployments)...)), `provider_id`)
	w.loadInstances(ids[windsock.KindInstance])
	w.addInstances(unique(append(theirs[windsock.KindInstance], missing(ids[windsock.KindInstance], w.instances)...)), `provider_id`)
}

// findInstance returns the loaded instance with this id: the provider's or, if none is
// given, ours or any provider's.
func (w *working) findInstance(provider, id string) (*instance, error) {
	if i := w.instances[id]; i != nil && provider == "" {
		return i, nil
	}
	return w.instanceOf(provider, id)
}

// findDeployment is the same for deployments.
func (w *working) findDeployment(provider, id string) (*deployment, error) {
	if d := w.deployments[id]; d != nil && provider == "" {
		return d, nil
	}
	return w.deploymentOf(provider, id)
}

// only returns the one that was found.
func only[T any](kind windsock.Kind, id string, of []*T) (*T, error) {
	switch len(of) {
	case 0:
		return nil, notFound(kind, id)
	case 1:
		return of[0], nil
	}
	return nil, ambiguous(kind, id)
}
