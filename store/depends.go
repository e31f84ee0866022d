package store

import (
	"encoding/json"
	"slices"

	"windsock"
)

// What a deployment depends on stands with it; the table dependencies is for those who ask
// the other way, and has every pair.

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

// loadParents reads how those are that loaded deployments depend on.
func (w *working) loadParents(of []string) {
	var parents []string
	for _, id := range of {
		if d := w.deployments[id]; d.DependsOn != nothing {
			parents = append(parents, dependsOn(d.DependsOn)...)
		}
	}
	if len(parents) == 0 {
		return
	}
	w.rows(func(read func(...any) error) error {
		var p windsock.Parent
		var since int64
		err := read(&p.ID, (*string)(&p.State), &since)
		p.Since = fromMicros(since)
		w.parents[p.ID] = p
		return err
	}, `SELECT id, state, since FROM deployments WHERE `+inSet(`id`), set(unique(parents)))
}

// parentsOf returns those that d depends on, as they are now.
func (w *working) parentsOf(d *deployment) (list []windsock.Parent) {
	for _, id := range dependsOn(d.DependsOn) {
		if p := w.deployments[id]; p != nil {
			list = append(list, windsock.Parent{ID: id, State: windsock.State(p.State), Since: fromMicros(p.Since)})
		} else if p, known := w.parents[id]; known {
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
	if len(parents) == 0 {
		return
	}
	children := ` IN (SELECT child FROM dependencies WHERE ` + inSet(`parent`) + `)`
	t.exec(`UPDATE instances SET deadline_at = ? WHERE held = 1 AND deployment_id`+children, t.micros, set(parents))
	t.exec(`UPDATE deployments SET deadline_at = ? WHERE held = 1 AND id`+children, t.micros, set(parents))
	t.due(t.micros)
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
	for i := range specs {
		if spec := &specs[i]; !slices.Equal(unique(slices.Clone(spec.DependsOn)), before[spec.ID]) {
			if err := t.depend(spec.ID, spec.DependsOn); err != nil {
				return err
			}
		}
	}
	return t.err
}

// depend keeps what a deployment depends on, or returns a FieldError: there has to be each
// of those, and none may depend on it in turn.
func (t *tx) depend(id string, on []string) error {
	t.exec(`DELETE FROM dependencies WHERE child = ?`, id)
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
	}
	t.all(&children, `SELECT id, depends_on FROM deployments WHERE id IN (SELECT child FROM dependencies WHERE parent = ?)`, id)
	for _, c := range children {
		left := slices.DeleteFunc(dependsOn(c.DependsOn), func(parent string) bool { return parent == id })
		t.exec(`UPDATE deployments SET depends_on = ? WHERE id = ?`, dependsText(left), c.ID)
	}
	if len(children) > 0 {
		t.rouse(id)
	}
	t.exec(`DELETE FROM dependencies WHERE child = ? OR parent = ?`, id, id)
}
