package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"windsock"
)

// deployedRow is what a deployment is made by.
type deployedRow struct {
	Deployable string `db:"deployable"`
	Parameters string `db:"parameters"`
	Hidden     string `db:"hidden"`
	Outputs    string `db:"outputs"`
}

// mask is shown instead of a hidden parameter. Given back, it means the same as before.
const mask = "******"

// shownParameters are those in a column, without the values of the hidden ones.
func shownParameters(parameters, hidden string) map[string]any {
	p := parametersOf(parameters)
	for _, name := range namesOf(hidden) {
		if _, ok := p[name]; ok {
			p[name] = mask
		}
	}
	return p
}

func parametersOf(column string) (p map[string]any) {
	if column == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(column), &p); err != nil {
		panic(fmt.Sprintf("store: parameters: %v", err)) // only ever written by us
	}
	return p
}

func namesOf(column string) (names []string) {
	if column == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(column), &names); err != nil {
		panic(fmt.Sprintf("store: names %q: %v", column, err)) // only ever written by us
	}
	return names
}

// unmask puts back the hidden parameters that were given as they were shown.
func unmask(given map[string]any, was *deployedRow) map[string]any {
	before := parametersOf(was.Parameters)
	given = maps.Clone(given)
	for _, name := range namesOf(was.Hidden) {
		if v, ok := before[name]; ok && given[name] == any(mask) {
			given[name] = v
		}
	}
	return given
}

// deploy has a deployment be made by what its spec says, if that is another deployable than
// before or has other parameters, or be taken down and up again.
func (w *working) deploy(d *deployment, spec windsock.DeploymentSpec, old *windsock.DeploymentSpec) error {
	var rows []deployedRow
	w.all(&rows, `SELECT deployable, parameters, hidden, outputs FROM deployed WHERE deployment_id = ?`, d.ID)
	if w.err != nil || len(rows) == 0 && spec.Deployable == "" {
		return w.err
	}
	was := deployedRow{}
	if len(rows) > 0 {
		was = rows[0]
	}
	spec.Parameters = unmask(spec.Parameters, &was)
	down := spec.Expected == windsock.Gone
	if spec.Deployable == was.Deployable && jsonText(spec.Parameters) == was.Parameters {
		if old != nil && down != (old.Expected == windsock.Gone) {
			w.redo(d, down)
		}
		return w.err
	}
	p := windsock.Plan{}
	now := deployedRow{Deployable: spec.Deployable, Parameters: jsonText(spec.Parameters)}
	if spec.Deployable == "" {
		w.exec(`DELETE FROM deployed WHERE deployment_id = ?`, d.ID)
	} else {
		by, err := viewDeployable(w, spec.Deployable)
		if ok, err := present(err); err != nil {
			return err
		} else if !ok {
			return windsock.Invalid("deployable", "there is no deployable %q", windsock.Clip(spec.Deployable))
		}
		if w.s.Planner == nil {
			return errNoPlanner
		}
		if p, err = w.planned(by, spec); err != nil {
			return err
		}
		var hidden []string
		for _, s := range by.Parameters {
			if s.Hidden {
				hidden = append(hidden, s.Name)
			}
		}
		now.Hidden, now.Outputs = jsonText(hidden), jsonText(p.Outputs)
		w.exec(`INSERT INTO deployed (deployment_id, deployable, parameters, hidden, outputs) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (deployment_id) DO UPDATE SET deployable = excluded.deployable, parameters = excluded.parameters, hidden = excluded.hidden, outputs = excluded.outputs`,
			d.ID, now.Deployable, now.Parameters, now.Hidden, now.Outputs)
	}
	if err := w.install(d, &p); err != nil {
		return err
	}
	w.redo(d, down)
	w.rebind(d)
	return w.err
}

// redo has all components of a deployment do what they are to do now: those that are not
// planned any more are deleted, and so are all when it is taken down.
func (w *working) redo(d *deployment, down bool) {
	w.exec(`DELETE FROM components WHERE deployment_id = ? AND planned = 0 AND action = 'DELETE' AND `+isDone, d.ID)
	instances := w.places(d)
	w.renew(d, `1 = 1`, nil, func(c *component) bool {
		deleting := c.Action == windsock.ActionDelete
		switch {
		case down || !c.Planned:
			failed := c.State.Final() && !c.State.Done()
			stranded := c.State.Offered() && c.InstanceID == "" // it is planned without a server now
			if deleting && !failed && !stranded {
				return false // it goes on, or is over
			}
			c.Action, c.Failures = windsock.ActionDelete, 0
		case deleting && (c.State != windsock.ComponentWaiting || c.InstanceID != instances[c.Instance]):
			w.startOver(c)
			c.InstanceID = instances[c.Instance]
		case c.Action == windsock.ActionCreate && c.State == windsock.ComponentWaiting && c.DoneHash == "" && c.Failures == 0:
			return false // it is to begin yet
		default:
			c.again()
		}
		return true
	})
	// By another plan others may have to be deleted before one that is at it.
	w.renew(d, `action = 'DELETE' AND unmet > 0 AND `+isOffered, nil, func(*component) bool { return true })
}

// places are the instances of a deployment's servers, by the names of these.
func (w *working) places(d *deployment) map[string]string {
	instances := map[string]string{}
	w.rows(func(read func(...any) error) error {
		var server, id string
		err := read(&server, &id)
		instances[server] = id
		return err
	}, `SELECT name, instance_id FROM servers WHERE deployment_id = ?`, d.ID)
	return instances
}

// install writes a plan. What it does with the components that were there is for redo to
// say.
func (w *working) install(d *deployment, p *windsock.Plan) error {
	var there []struct {
		ID       int64  `db:"id"`
		Name     string `db:"name"`
		Instance string `db:"instance"`
	}
	w.all(&there, `SELECT id, name, instance FROM components WHERE deployment_id = ?`, d.ID)
	w.exec(`UPDATE components SET planned = 0 WHERE deployment_id = ?`, d.ID)
	if d.phases == nil {
		d.phases = windsock.ComponentTally{}
	}
	ids, on := make(map[string]int64, len(p.Components)), make(map[string]string, len(there))
	for _, c := range there {
		ids[c.Name], on[c.Name] = c.ID, c.Instance
	}
	instances := w.places(d)
	for i := range p.Components {
		c := &p.Components[i]
		id, known := ids[c.Name]
		if known {
			w.replan(id, c, on[c.Name] != c.Instance)
		} else {
			id = w.add(d, c, instances[c.Instance])
			ids[c.Name] = id
		}
		w.exec(`INSERT INTO component_plans (component_id, actions, outputs, refers, spec) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (component_id) DO UPDATE SET actions = excluded.actions, outputs = excluded.outputs, refers = excluded.refers, spec = excluded.spec`,
			id, jsonList(c.Actions), jsonList(c.Outputs), jsonList(c.Refers), c.Spec)
	}
	if w.err != nil {
		return w.err
	}
	// Of what is to go, it stays known who came after it.
	w.exec(`DELETE FROM component_edges WHERE after IN (SELECT id FROM components WHERE deployment_id = ? AND planned = 1)
		AND before IN (SELECT id FROM components WHERE deployment_id = ? AND planned = 1)`, d.ID, d.ID)
	w.exec(`DELETE FROM component_needs WHERE component_id IN (SELECT id FROM components WHERE deployment_id = ? AND planned = 1)`, d.ID)
	var edges, needs [][2]any
	for i := range p.Components {
		c := &p.Components[i]
		for _, before := range c.After {
			b, ok := ids[before]
			if !ok {
				return fmt.Errorf("plan: component %q comes after %q, which is none", c.Name, before)
			}
			edges = append(edges, [2]any{b, ids[c.Name]})
		}
		for _, server := range c.Needs {
			needs = append(needs, [2]any{ids[c.Name], server})
		}
	}
	w.exec(`INSERT INTO component_edges (before, after) SELECT `+firstNumber+`, `+otherNumber+` FROM `+pairs, jsonList(edges))
	w.exec(`INSERT INTO component_needs (component_id, server, deployment_id) SELECT `+firstNumber+`, `+otherText+`, ? FROM `+pairs, d.ID, jsonList(needs))
	servers := make([]string, len(p.Instances))
	for i := range p.Instances {
		servers[i] = p.Instances[i].Name
		w.exec(`INSERT INTO servers (deployment_id, name) VALUES (?, ?) ON CONFLICT DO NOTHING`, d.ID, servers[i])
	}
	w.exec(`DELETE FROM servers WHERE deployment_id = ? AND NOT `+inSet(`name`), d.ID, set(servers))
	return w.err
}

// add writes a component that was not there before.
func (w *working) add(d *deployment, p *windsock.PlannedComponent, instanceID string) (id int64) {
	c := component{
		UID: uid(), DeploymentID: d.ID, Name: p.Name, Instance: p.Instance, InstanceID: instanceID,
		Action: windsock.ActionCreate, State: windsock.ComponentWaiting, of: d,
	}
	w.dirty = true
	w.get(&id, `INSERT INTO components (uid, deployment_id, name, kind, instance, instance_id, handle, hook, wanted, timeout, retries, silent, planned, action, state, since, unmet)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, 0) RETURNING id`,
		c.UID, d.ID, p.Name, string(p.Kind), p.Instance, c.InstanceID, p.Handle, p.Group, max(p.Signals, 1), cmp.Or(p.Deadline, windsock.DefaultDeadline).Microseconds(), p.Retries, p.Silent,
		string(c.Action), string(c.State), w.micros)
	w.log(c.event(""))
	return id
}

// replan writes what else is planned of a component. One that moved to another server
// begins there anew.
func (w *working) replan(id int64, p *windsock.PlannedComponent, moved bool) {
	w.exec(`UPDATE components SET kind = ?, instance = ?, handle = ?, hook = ?, wanted = ?, timeout = ?, retries = ?, silent = ?, planned = 1 WHERE id = ?`,
		string(p.Kind), p.Instance, p.Handle, p.Group, max(p.Signals, 1), cmp.Or(p.Deadline, windsock.DefaultDeadline).Microseconds(), p.Retries, p.Silent, id)
	if moved {
		w.move(w.instanceOfComponent(id))
		w.exec(`UPDATE components SET done_hash = '', instance_id = coalesce((SELECT instance_id FROM servers v WHERE v.deployment_id = components.deployment_id AND v.name = components.instance), '') WHERE id = ?`, id)
	}
}

func (w *working) instanceOfComponent(id int64) (instanceID string) {
	w.get(&instanceID, `SELECT instance_id FROM components WHERE id = ?`, id)
	return instanceID
}

// uid returns the id of a component that no other has had or will have.
func uid() []byte {
	id := uuid.New()
	return id[:]
}

// jsonList is a list as it is kept; nothing is an empty one.
func jsonList[T any](list []T) string {
	if len(list) == 0 {
		return "[]"
	}
	return jsonText(list)
}

// place declares the instances that are to take the place of a deployment's servers, by
// the names of these.
func (w *working) place(deploymentID string, members map[string]string) error {
	for _, server := range slices.Sorted(maps.Keys(members)) {
		if err := w.placeOne(deploymentID, server, members[server]); err != nil {
			return err
		}
	}
	return w.err
}

func (w *working) placeOne(deploymentID, server, id string) error {
	field := "instances/" + server
	var planned bool
	w.get(&planned, `SELECT EXISTS (SELECT 1 FROM servers WHERE deployment_id = ? AND name = ?)`, deploymentID, server)
	if w.err == nil && !planned {
		return windsock.Invalid(field, "the deployable has no server of that name")
	}
	old, exists, err := w.instance(id)
	if err != nil {
		return err
	}
	if exists && old.DeploymentID != deploymentID {
		return windsock.Invalid(field, "instance %q belongs to deployment %q", id, old.DeploymentID)
	}
	var others []string // that had the place
	w.all(&others, `SELECT id FROM instances WHERE deployment_id = ? AND assembly = ? AND assembly <> '' AND id <> ? ORDER BY id`, deploymentID, server, id)
	for _, other := range others {
		if err := w.assemble(deploymentID, other, ""); err != nil {
			return err
		}
	}
	return w.assemble(deploymentID, id, server)
}

// assemble declares an instance, which may be new, as a part of the deployable.
func (w *working) assemble(deploymentID, id, assembly string) error {
	old, exists, err := w.instance(id)
	if err != nil {
		return err
	}
	spec := windsock.InstanceSpec{ID: id, DeploymentID: deploymentID}
	if exists {
		spec = old.InstanceSpec
	}
	spec.Assembly = assembly
	if err := spec.Complete(); err != nil {
		return windsock.Invalid("instances/"+assembly, "%v", err)
	}
	defer w.keep(`instances`, id)
	return w.declareInstance(spec, specOf(&old.InstanceSpec, exists), false)
}
