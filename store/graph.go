package store

import (
	"context"
	"encoding/json"
	"slices"

	"windsock"
)

// Components returns all components of a deployment, in the order of their plan.
func (s *Store) Components(ctx context.Context, deploymentID string) (g windsock.ComponentGraph, err error) {
	err = s.snapshot(ctx, func(r snapshot) error {
		d, err := viewDeployment(r, deploymentID, ourID, theirID)
		if err != nil {
			return err
		}
		g = windsock.ComponentGraph{DeploymentID: d.ID, Counts: map[windsock.ComponentState]int{}}
		g.Components, err = viewComponents(r, d.ID, "")
		return err
	})
	if err != nil {
		return g, err
	}
	for i := range g.Components {
		g.Counts[g.Components[i].State]++
	}
	path, took := windsock.CriticalPath(g.Components, s.now())
	g.CriticalPath, g.Seconds = append([]string{}, path...), took.Seconds()
	return g, nil
}

// Component returns one of them, with its outputs and its history.
func (s *Store) Component(ctx context.Context, deploymentID, name string) (c windsock.Component, err error) {
	err = s.snapshot(ctx, func(r snapshot) error {
		d, err := viewDeployment(r, deploymentID, ourID, theirID)
		if err != nil {
			return err
		}
		c, err = viewComponent(r, d.ID, name)
		return err
	})
	return c, err
}

// snapshot has f read what was committed at one moment.
func (s *Store) snapshot(ctx context.Context, f func(snapshot) error) error {
	tx, err := s.read.BeginTxx(ctx, nil)
	if err != nil {
		return unavailable(err)
	}
	defer tx.Rollback()
	return f(snapshot{ctx, tx})
}

// viewComponents reads the components of a deployment, or the one of them with this name.
func viewComponents(r queryer, deploymentID, name string) ([]windsock.Component, error) {
	one := selecting(`SELECT ` + componentColumns + ` FROM components`)
	one.where(`deployment_id = ?`, deploymentID)
	one.whereIf(name != "", `name = ?`, name)
	var rows []component
	if err := r.query(&rows, one.text.String()+` ORDER BY id`, one.args...); err != nil {
		return nil, err
	}
	list, at := make([]windsock.Component, len(rows)), make(map[int64]int, len(rows))
	for i := range rows {
		list[i], at[rows[i].ID] = rows[i].component(), i
	}
	if err := viewEdges(r, deploymentID, rows, list, at); err != nil {
		return nil, err
	}
	var lacking []struct {
		ID     int64  `db:"component_id"`
		Server string `db:"server"`
		Own    bool   `db:"own"`
	}
	q := selecting(`SELECT n.component_id, n.server, n.server = c.instance AS own FROM component_needs n JOIN components c ON c.id = n.component_id
		LEFT JOIN servers v ON v.deployment_id = n.deployment_id AND v.name = n.server
		LEFT JOIN instances i ON i.id = v.instance_id AND v.instance_id <> ''`)
	q.where(`c.deployment_id = ? AND c.state = 'waiting' AND coalesce(i.state, '') <> 'running'`, deploymentID)
	q.whereIf(name != "", `c.name = ?`, name)
	if err := r.query(&lacking, q.text.String()+` ORDER BY n.server`, q.args...); err != nil {
		return nil, err
	}
	for _, l := range lacking {
		if i, ok := at[l.ID]; ok && (l.Own || list[i].Action != windsock.ActionDelete) {
			list[i].WaitsFor = append(list[i].WaitsFor, l.Server)
		}
	}
	return list, nil
}

// viewEdges adds what each component comes after, and which others it waits for.
func viewEdges(r queryer, deploymentID string, rows []component, list []windsock.Component, at map[int64]int) error {
	type end struct {
		ID     int64                   `db:"id"`
		Name   string                  `db:"name"`
		Action windsock.Action         `db:"action"`
		State  windsock.ComponentState `db:"state"`
	}
	var edges []struct {
		Before end `db:"before"`
		After  end `db:"after"`
	}
	q := selecting(`SELECT b.id AS "before.id", b.name AS "before.name", b.action AS "before.action", b.state AS "before.state",
		a.id AS "after.id", a.name AS "after.name", a.action AS "after.action", a.state AS "after.state"
		FROM component_edges e JOIN components b ON b.id = e.before JOIN components a ON a.id = e.after`)
	q.where(`b.deployment_id = ?`, deploymentID)
	if len(rows) == 1 {
		q.where(`(e.after = ? OR e.before = ?)`, rows[0].ID, rows[0].ID)
	}
	if err := r.query(&edges, q.text.String(), q.args...); err != nil {
		return err
	}
	wait := func(who, for_ end) {
		if i, ok := at[who.ID]; ok && who.State == windsock.ComponentWaiting && !for_.State.Done() {
			list[i].WaitsFor = append(list[i].WaitsFor, for_.Name)
		}
	}
	for _, e := range edges {
		deletes := e.Before.Action == windsock.ActionDelete
		if i, ok := at[e.After.ID]; ok && (!deletes || e.After.Action == windsock.ActionDelete) {
			list[i].After = append(list[i].After, e.Before.Name)
		}
		switch {
		case deletes:
			wait(e.Before, e.After)
		case e.After.Action != windsock.ActionDelete:
			wait(e.After, e.Before)
		}
	}
	for i := range list {
		slices.Sort(list[i].After)
		slices.Sort(list[i].WaitsFor)
	}
	return nil
}

// viewComponent reads one, with its outputs and its history.
func viewComponent(r queryer, deploymentID, name string) (windsock.Component, error) {
	list, err := viewComponents(r, deploymentID, name)
	if err != nil {
		return windsock.Component{}, err
	}
	var ids []int64
	if err := r.query(&ids, `SELECT id FROM components WHERE deployment_id = ? AND name = ?`, deploymentID, name); err != nil {
		return windsock.Component{}, err
	}
	if len(list) == 0 || len(ids) == 0 {
		return windsock.Component{}, noComponent(deploymentID, name)
	}
	c := list[0]
	if c.Outputs, err = outputsOf(r, ids[0]); err != nil {
		return c, err
	}
	if c.Kind == windsock.KindCondition {
		var data string
		if data, err = dataOf(r, ids[0]); err != nil {
			return c, err
		}
		c.Outputs["data"], _ = json.Marshal(data) // a text
	}
	var rows []struct {
		At     int64                 `db:"at"`
		Run    int                   `db:"run"`
		Sender string                `db:"sender"`
		Status windsock.SignalStatus `db:"status"`
		Reason string                `db:"reason"`
		Late   bool                  `db:"late"`
	}
	err = r.query(&rows, `SELECT at, run, sender, status, reason, late FROM component_signals WHERE component_id = ? ORDER BY n`, ids[0])
	for _, row := range rows {
		c.History = append(c.History, windsock.Signalled{Time: fromMicros(row.At), Run: row.Run, ID: row.Sender, Status: row.Status, Reason: row.Reason, Late: row.Late})
	}
	return c, err
}

// Outputs returns the values that a deployment shows as a whole; nil is one that is not
// known yet.
func (s *Store) Outputs(ctx context.Context, deploymentID string) (values map[string]any, err error) {
	values = map[string]any{}
	err = s.snapshot(ctx, func(r snapshot) error {
		d, err := viewDeployment(r, deploymentID, ourID, theirID)
		if err != nil {
			return err
		}
		var columns []string
		if err := r.query(&columns, `SELECT outputs FROM deployed WHERE deployment_id = ?`, d.ID); err != nil || len(columns) == 0 || columns[0] == "" {
			return err
		}
		var planned []windsock.PlannedOutput
		if err := json.Unmarshal([]byte(columns[0]), &planned); err != nil {
			return err
		}
		for _, o := range planned {
			known, err := knownOf(r, d.ID, o.Refers, nil)
			if err != nil {
				return err
			}
			if values[o.Name], err = s.Planner.Value(o.Spec, known); err != nil {
				return err
			}
		}
		return nil
	})
	return values, err
}
