package store

import "context"

// Handles returns where the handles of a deployment are signalled to, by their names; no
// others than those that a condition waits for. The URLs begin with base.
func (s *Store) Handles(ctx context.Context, deploymentID, base string) (urls map[string]string, err error) {
	urls, link := map[string]string{}, s.link(base)
	err = s.snapshot(ctx, func(r snapshot) error {
		d, err := viewDeployment(r, deploymentID, ourID, theirID)
		if err != nil {
			return err
		}
		var conditions []component
		err = r.query(&conditions, `SELECT `+componentColumns+` FROM components WHERE deployment_id = ? AND handle <> '' ORDER BY id DESC`, d.ID)
		for i := range conditions { // the first that waits for it gets the signals
			urls[conditions[i].Handle] = link(&conditions[i])
		}
		return err
	})
	return urls, err
}
