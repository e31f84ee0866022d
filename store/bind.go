package store

import (
	"maps"
	"slices"

	"windsock"
)

// bind has instances take the place of a deployment's servers: those whose assembly is a
// server's name. One that has a place keeps it until it is gone and another is there, or
// has another assembly; of several the first by id gets it.
func (w *working) bind(d *deployment) {
	var servers []struct {
		Name  string `db:"name"`
		Was   string `db:"was"`
		State string `db:"state"` // of that, if it still fits
		Other string `db:"other"`
	}
	const fits = `i.deployment_id = v.deployment_id AND i.assembly = v.name AND i.assembly <> ''`
	w.all(&servers, `SELECT v.name, v.instance_id AS was,
		coalesce((SELECT i.state FROM instances i WHERE i.id = v.instance_id AND `+fits+`), '') AS state,
		coalesce((SELECT min(i.id) FROM instances i WHERE `+fits+` AND i.state <> 'gone'), '') AS other
		FROM servers v WHERE v.deployment_id = ? ORDER BY v.name`, d.ID)
	replaced := map[string]string{}
	for _, v := range servers {
		fits := v.State != "" && (v.State != string(windsock.Gone) || v.Other == "")
		if fits || v.Other == v.Was {
			continue
		}
		w.exec(`UPDATE servers SET instance_id = ? WHERE deployment_id = ? AND name = ?`, v.Other, d.ID, v.Name)
		if v.Was != "" {
			replaced[v.Name] = v.Other
			continue
		}
		w.exec(`UPDATE components SET instance_id = ? WHERE deployment_id = ? AND instance = ? AND action <> 'DELETE'`, v.Other, d.ID, v.Name)
		w.tryServer(d.ID, v.Name)
	}
	if len(replaced) > 0 {
		w.replace(d, replaced)
	}
}

// tryServer looks at the components that need a server.
func (w *working) tryServer(deploymentID, name string) {
	w.try(`id IN (SELECT component_id FROM component_needs WHERE deployment_id = ? AND server = ?)`, deploymentID, name)
}

// replace has the components on some servers begin anew on other instances ("": there is
// none yet), and all that depends on them be updated.
func (w *working) replace(d *deployment, instances map[string]string) {
	first := `SELECT component_id FROM component_needs WHERE deployment_id = ? AND ` + inSet(`server`)
	w.renew(d, inChain(first, `before`, `after`), []any{d.ID, set(slices.Collect(maps.Keys(instances)))}, func(c *component) bool {
		if c.Action == windsock.ActionDelete {
			return false
		}
		if id, ok := instances[c.Instance]; ok {
			w.startOver(c)
			c.InstanceID = id
		} else {
			c.again()
		}
		return true
	})
}

// pass has components go on because an instance runs now, or is gone.
func (w *working) pass(id string, gone bool) {
	var servers []struct {
		DeploymentID string `db:"deployment_id"`
		Name         string `db:"name"`
	}
	w.all(&servers, `SELECT deployment_id, name FROM servers WHERE instance_id = ? AND instance_id <> '' ORDER BY name`, id)
	for _, v := range servers {
		w.tryServer(v.DeploymentID, v.Name)
	}
	w.try(`instance_id = ? AND instance_id <> '' AND action = 'DELETE'`, id)
	if !gone {
		return
	}
	for _, c := range w.loadComponents(`instance_id = ? AND instance_id <> '' AND action = 'DELETE' AND `+isOffered, id) {
		put(&w.touched, c.DeploymentID, c.of)
		w.change(c, change{on: windsock.OnSuccess, reason: goneReason})
	}
}

// inChain is a condition on components: to be one of the first, which a query has, or to be
// reached from these by edges from one end to the other.
func inChain(first, from, to string) string {
	return `id IN (WITH RECURSIVE chain (id) AS (` + first + `
		UNION SELECT e.` + to + ` FROM component_edges e JOIN chain ON e.` + from + ` = chain.id) SELECT id FROM chain)`
}
