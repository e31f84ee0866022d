package windsock

import "time"

// A Listing is what a provider shows at one time. Nothing of it was recorded.
type Listing struct {
	Provider    string    `json:"provider"`
	BeganAt     time.Time `json:"began_at"`
	Took        Duration  `json:"took"`
	Error       string    `json:"error,omitempty"` // why it did not come to its end
	Deployments int       `json:"deployments"`     // so many were shown
	Instances   int       `json:"instances"`
	New         int       `json:"new"`    // of both, which would be declared, or described anew
	Things      []Shown   `json:"things"` // the first of them
}

// Shown is one thing of a Listing.
type Shown struct {
	Subject                      // named by the provider's own id
	New        bool              `json:"new"`
	State      State             `json:"state,omitempty"`
	Raw        string            `json:"raw,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Requested  bool              `json:"requested,omitempty"`
	Deployment string            `json:"deployment,omitempty"` // the provider's id of it
	Name       string            `json:"name,omitempty"`
	Pool       string            `json:"pool,omitempty"`
	RunsOn     []string          `json:"runs_on,omitempty"`
	Assembly   string            `json:"assembly,omitempty"`
	Address    string            `json:"address,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// ShownAs is a sighting as a Listing has it: described as it would be declared.
func ShownAs(s *Sighting, isNew bool) Shown {
	d := s.Description
	d.Fit()
	return Shown{
		Subject: s.Subject, New: isNew, State: s.State, Raw: s.Raw, Reason: CutReason(s.Reason), Requested: s.Requested,
		Deployment: d.Deployment, Name: d.Name, Pool: d.Pool, RunsOn: d.RunsOn, Assembly: d.Assembly, Address: d.Address, Metadata: d.Metadata,
	}
}
