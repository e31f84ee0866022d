package windsock

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Role is a part of the service that a process may have.
type Role string

const (
	RoleAPI       Role = "api"
	RoleObserver  Role = "observer"
	RoleDeliverer Role = "deliverer"
)

// Roles are all of them.
var Roles = []Role{RoleAPI, RoleObserver, RoleDeliverer}

// CheckRoles says what is wrong with roles that somebody wants a process to have.
func CheckRoles(roles []Role) error {
	for _, r := range roles {
		if !slices.Contains(Roles, r) {
			return Invalid("roles", "want some of api, observer, deliverer; got %q", Clip(strings.TrimSpace(string(r))))
		}
	}
	return nil
}

// A Replica is one of the processes that share a database.
type Replica struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`              // the host's, and the number of the process
	Roles     []Role    `json:"roles"`             // that it has, or waits for
	Address   string    `json:"address,omitempty"` // that it answers on
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	Monitors  int       `json:"monitors"` // that it calls back,
	Probes    int       `json:"probes"`   // and instances that it looks at by their probes
	Holds     []Holding `json:"holds"`
}

// A Holding is a unit that is for a replica to do.
type Holding struct {
	Unit  string    `json:"unit"`
	Since time.Time `json:"since"`
}

// ErrNobody is returned when what was asked for is done by another process, and none does it.
var ErrNobody = fmt.Errorf("no process does that now: %w", ErrUnavailable)
