package store

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/google/uuid"

	"windsock"
)

// knownOf reads what is known of the resources that something of a deployment refers to:
// components, the servers they run on and, where it may signal, handles.
func knownOf(r queryer, deploymentID string, refers []string, link func(*component) string) (windsock.Known, error) {
	known := make(windsock.Known, len(refers))
	if len(refers) == 0 {
		return known, nil
	}
	names := set(refers)
	if err := knownComponents(r, deploymentID, names, known); err != nil || len(known) == len(refers) {
		return known, err
	}
	if err := knownServers(r, deploymentID, names, known); err != nil || len(known) == len(refers) || link == nil {
		return known, err
	}
	var handles []component
	err := r.query(&handles, `SELECT `+componentColumns+` FROM components WHERE deployment_id = ? AND handle <> '' AND `+inSet(`handle`)+` ORDER BY id DESC`, deploymentID, names)
	for i := range handles {
		known[handles[i].Handle] = handle(link(&handles[i]))
	}
	return known, err
}

// knownTo reads what is known of all that some components refer to, by deployment.
func knownTo(r queryer, some []*component, link func(*component) string) (map[string]windsock.Known, error) {
	refers := map[string][]string{}
	for _, c := range some {
		refers[c.DeploymentID] = append(refers[c.DeploymentID], c.Refers...)
	}
	known := make(map[string]windsock.Known, len(refers))
	for id, names := range refers {
		var err error
		if known[id], err = knownOf(r, id, unique(names), link); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// knownComponents adds the components among names, with what they produced.
func knownComponents(r queryer, deploymentID string, names any, known windsock.Known) error {
	var rows []struct {
		ID     int64                  `db:"id"`
		UID    []byte                 `db:"uid"`
		Name   string                 `db:"name"`
		Kind   windsock.ComponentKind `db:"kind"`
		Output string                 `db:"output"`
		Value  []byte                 `db:"value"`
	}
	if err := r.query(&rows, `SELECT c.id, c.uid, c.name, c.kind, coalesce(o.name, '') AS output, coalesce(o.value, '') AS value
		FROM components c LEFT JOIN component_outputs o ON o.component_id = c.id
		WHERE c.deployment_id = ? AND `+inSet(`c.name`), deploymentID, names); err != nil {
		return err
	}
	for _, row := range rows {
		p, there := known[row.Name]
		if !there {
			p = windsock.Produced{ID: uidText(row.UID), Attributes: map[string]any{}}
			known[row.Name] = p
		}
		switch {
		case row.Kind == windsock.KindCondition:
			data, err := dataOf(r, row.ID)
			if err != nil {
				return err
			}
			p.Attributes["data"] = data
		case row.Output != "":
			var v any
			if err := json.Unmarshal(row.Value, &v); err != nil {
				return fmt.Errorf("output %s of %s: %w", row.Output, row.Name, err)
			}
			p.Attributes[row.Output] = v
		}
	}
	return nil
}

// dataOf is what was signalled to a condition, by the senders, as a JSON text.
func dataOf(r queryer, id int64) (string, error) {
	var rows []struct {
		Sender string `db:"sender"`
		Data   string `db:"data"`
	}
	err := r.query(&rows, `SELECT sender, data FROM component_data WHERE component_id = ?`, id)
	data := make(map[string]json.RawMessage, len(rows))
	for _, row := range rows {
		data[row.Sender] = json.RawMessage(row.Data)
	}
	return jsonText(data), err
}

// outputsOf are the outputs of a component, in JSON.
func outputsOf(r queryer, id int64) (map[string]json.RawMessage, error) {
	var rows []struct {
		Name  string `db:"name"`
		Value string `db:"value"`
	}
	if err := r.query(&rows, `SELECT name, value FROM component_outputs WHERE component_id = ?`, id); err != nil {
		return nil, err
	}
	values := make(map[string]json.RawMessage, len(rows))
	for _, row := range rows {
		values[row.Name] = json.RawMessage(row.Value)
	}
	return values, nil
}

// knownServers adds the servers among names that are there.
func knownServers(r queryer, deploymentID string, names any, known windsock.Known) error {
	var rows []struct {
		Server   string `db:"server"`
		ID       string `db:"id"`
		Name     string `db:"name"`
		Address  string `db:"address"`
		Metadata string `db:"metadata"`
	}
	err := r.query(&rows, `SELECT v.name AS server, i.id, i.name, i.address, i.metadata FROM servers v JOIN instances i ON i.id = v.instance_id
		WHERE v.deployment_id = ? AND v.instance_id <> '' AND `+inSet(`v.name`), deploymentID, names)
	for _, row := range rows {
		metadata, addresses := map[string]any{}, []any{}
		for k, v := range metadataOf(row.Metadata) {
			metadata[k] = v
		}
		if row.Address != "" {
			addresses = append(addresses, row.Address)
		}
		known[row.Server] = windsock.Produced{ID: row.ID, Attributes: map[string]any{
			"name": row.Name, "address": row.Address, "addresses": addresses, "metadata": metadata,
		}}
	}
	return err
}

// handle is what is told of where to signal.
func handle(url string) windsock.Produced {
	_, token := path.Split(url)
	return windsock.Produced{ID: url, Attributes: map[string]any{
		"endpoint": url, "token": token,
		"curl_cli": "curl -i -X POST -H 'Content-Type: application/json' -H 'Accept: application/json' '" + url + "'",
		"signal":   jsonText(map[string]string{"alarm_url": url}),
	}}
}

// uidText is how a component's own id is written.
func uidText(uid []byte) string { return uuid.UUID(uid).String() }
