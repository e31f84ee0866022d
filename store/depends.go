package store

import (
	"encoding/json"
	"slices"

	"windsock"
)

// What a deployment depends on stands with it, what its owner declares and what its provider
// shows it to run on by themselves; the table dependencies is for those who ask the other way,
// and has every pair.

const depended = `EXISTS (SELECT 1 FROM dependencies WHERE parent = deployments.id) AS depended`

// dependsOn reads the column.
func dependsOn(column string) (ids []string) {
	if err := json.Unmarshal([]byte(column), &ids); err != nil {
		panic("store: depends_on " + column) // only ever written by us
	}
	return ids
}

// nothing is the column of a deployment that depends on none.
const nothing = "[]"

// dependsText writes the column.
func dependsText(ids []string) string {
	if len(ids) == 0 {
		return nothing
	}
	return jsonText(ids)
}

// parents are all that d depends on.
func (d *deployment) parents() []string {
	if d.RunsOn == nothing {
		return dependsOn(d.DependsOn)
	}
	return unique(append(dependsOn(d.DependsOn), dependsOn(d.RunsOn)...))
}

// depends reports whether there are any.
func (d *deployment) depends() bool { return d.DependsOn != nothing || d.RunsOn != nothing }

// seenToFail reports whether it is the provider alone that says that an instance of d fails or,
// without one, those that were just worked on: by a host that is lost it would have seen nothing.
func (d *deployment) seenToFail(i *instance) bool {
	only := jsonText([]string{windsock.ProviderSource(d.Provider)})
	if i != nil {
		return i.Sources == only
	}
	fails := false
	for _, m := range d.members {
		if m.State == string(windsock.Failed) {
			if m.Sources != only {
				return false
			}
			fails = true
		}
	}
	return fails
}

// loadParents reads how those are that loaded deployments depend on.
func (w *working) loadParents(of []string) {
	var parents []string
	for _, id := range of {
		if d := w.deployments[id]; d.depends() {
			parents = append(parents, d.parents()...)
		}
	}
	if len(parents) == 0 {
		return
	}
	w.rows(func(read func(...any) error) error {
		var p windsock.Parent
		var since int64
		err := read(&p.ID, (*string)(&p.State), &since, &p.Unwatched)
		p.Since = fromMicros(since)
		w.parents[p.ID] = p
		return err
	}, `SELECT id, state, CASE WHEN since > created_at THEN since ELSE 0 END, `+unwatched+` FROM deployments WHERE `+inSet(`id`), set(unique(parents)))
}

// unwatched is windsock.Parent.Unwatched, of a node. Counts, as a database does not make joins
// of these, which might begin with all of the evidence.
const unwatched = `provider_id LIKE '` + windsock.NodePrefix + `%' AND (SELECT count(*) FROM evidence e
		WHERE e.kind = 'deployment' AND e.subject_id = deployments.id AND e.origin <> 'provider') = 0
	AND (SELECT count(*) FROM instances i WHERE i.deployment_id = deployments.id AND (SELECT count(*) FROM evidence e
		WHERE e.kind = 'instance' AND e.subject_id = i.id AND e.origin <> 'provider') > 0) = 0`

// parentsOf returns those that d depends on, as they are now. What its owner says that it
// depends on he has watched.
func (w *working) parentsOf(d *deployment) (list []windsock.Parent) {
	for _, id := range d.parents() {
		if p := w.deployments[id]; p != nil {
			parent := windsock.Parent{ID: id, State: windsock.State(p.State)}
			if p.Since > p.CreatedAt {
				parent.Since = fromMicros(p.Since)
			}
			list = append(list, parent)
		} else if p, known := w.parents[id]; known {
			p.Unwatched = p.Unwatched && !slices.Contains(dependsOn(d.DependsOn), id)
			list = append(list, p)
		}
	}
	return list
}

// dependents lists the deployments that depend on one, or on one that does; the first MaxNamed.
func (t *tx) dependents(id string) (ids []string) {
	t.all(&ids, below+` SELECT id FROM below ORDER BY id LIMIT ?`, id, windsock.MaxNamed)
	return ids
}

// below are the deployments that depend on one, or on one that does.
const below = `WITH RECURSIVE below (id) AS (
	SELECT child FROM dependencies WHERE parent = ?
	UNION SELECT d.child FROM dependencies d JOIN below b ON d.parent = b.id)`

// rouse has those judged anew, soon, for whom callbacks wait and who depend on one of these.
func (t *tx) rouse(parents ...string) {
	if len(parents) > 0 {
		t.rouseThose(` IN (SELECT child FROM dependencies WHERE `+inSet(`parent`)+`)`, set(parents))
	}
}

// rouseThose does so for the deployments whose id meets a condition.
func (t *tx) rouseThose(condition string, arg any) {
	t.exec(`UPDATE instances SET deadline_at = ? WHERE held = 1 AND deployment_id`+condition, t.micros, arg)
	t.exec(`UPDATE deployments SET deadline_at = ? WHERE held = 1 AND id`+condition, t.micros, arg)
	t.due(t.micros)
}

// runOn keeps on which others, by the provider's ids, a deployment is shown to run. One that
// its owner has depend on it in turn is left out: he is right.
func (w *working) runOn(provider string, d *deployment, shown []string) error {
	var on []string
	for _, id := range shown {
		host, err := w.deploymentOf(provider, id)
		if err != nil {
			return err
		}
		on = append(on, host.ID)
	}
	if on = unique(on); dependsText(on) == d.RunsOn {
		return nil
	}
	var round []string
	w.all(&round, below+` SELECT id FROM below WHERE `+inSet(`id`), d.ID, set(on))
	on = slices.DeleteFunc(on, func(id string) bool { return id == d.ID || slices.Contains(round, id) })
	if dependsText(on) == d.RunsOn {
		return w.err
	}
	d.RunsOn = dependsText(on)
	w.exec(`UPDATE deployments SET runs_on = ?, updated_at = ? WHERE id = ?`, d.RunsOn, w.micros, d.ID)
	for _, id := range on {
		w.deployments[id].Depended = true
	}
	w.rouseThose(` = ?`, d.ID)
	w.log(d.event(windsock.DeploymentDeclared))
	return w.depend(d.ID, dependsOn(d.DependsOn), on)
}

// dependAll does what depend does for those that depend on others than before.
func (t *tx) dependAll(specs []windsock.DeploymentSpec) error {
	ids := make([]string, len(specs))
	for i := range specs {
		ids[i] = specs[i].ID
	}
	var pairs []struct {
		Child  string `db:"child"`
		Parent string `db:"parent"`
	}
	t.all(&pairs, `SELECT child, parent FROM dependencies WHERE `+inSet(`child`)+` ORDER BY child, parent`, set(ids))
	before := map[string][]string{}
	for _, p := range pairs {
		before[p.Child] = append(before[p.Child], p.Parent)
	}
	var shown []struct {
		ID     string `db:"id"`
		RunsOn string `db:"runs_on"`
	}
	t.all(&shown, `SELECT id, runs_on FROM deployments WHERE runs_on <> '[]' AND `+inSet(`id`), set(ids))
	runsOn := map[string][]string{}
	for _, s := range shown {
		runsOn[s.ID] = dependsOn(s.RunsOn)
	}
	for i := range specs {
		if spec := &specs[i]; !slices.Equal(unique(slices.Concat(spec.DependsOn, runsOn[spec.ID])), before[spec.ID]) {
			if err := t.depend(spec.ID, spec.DependsOn, runsOn[spec.ID]); err != nil {
				return err
			}
		}
	}
	return t.err
}

// depend keeps what a deployment depends on, or returns a FieldError: there has to be each
// of those, and none may depend on it in turn.
func (t *tx) depend(id string, on, runsOn []string) error {
	t.exec(`DELETE FROM dependencies WHERE child = ?`, id)
	on = unique(slices.Concat(on, runsOn))
	if len(on) == 0 {
		return t.err
	}
	var known []string
	t.all(&known, `SELECT id FROM deployments WHERE `+inSet(`id`), set(on))
	for _, parent := range on {
		if t.err == nil && !slices.Contains(known, parent) {
			return windsock.Invalid("depends_on", "there is no deployment %q", windsock.Clip(parent))
		}
		t.exec(`INSERT INTO dependencies (child, parent) VALUES (?, ?)`, id, parent)
	}
	var round int
	t.get(&round, below+` SELECT count(*) FROM below WHERE id = ?`, id, id)
	if round > 0 {
		return windsock.Invalid("depends_on", "%q would depend on itself", windsock.Clip(id))
	}
	return t.err
}

// forsake has nothing depend on a deployment that is taken out of the model, nor it on others.
func (t *tx) forsake(id string) {
	var children []struct {
		ID        string `db:"id"`
		DependsOn string `db:"depends_on"`
		RunsOn    string `db:"runs_on"`
	}
	t.all(&children, `SELECT id, depends_on, runs_on FROM deployments WHERE id IN (SELECT child FROM dependencies WHERE parent = ?)`, id)
	for _, c := range children {
		t.exec(`UPDATE deployments SET depends_on = ?, runs_on = ? WHERE id = ?`, without(c.DependsOn, id), without(c.RunsOn, id), c.ID)
	}
	if len(children) > 0 {
		t.rouse(id)
	}
	t.exec(`DELETE FROM dependencies WHERE child = ? OR parent = ?`, id, id)
}

// without is such a column without one of them.
func without(column, id string) string {
	return dependsText(slices.DeleteFunc(dependsOn(column), func(parent string) bool { return parent == id }))
}
