package main

import (
	"fmt"
	"os"
	"slices"

	"windsock"
)

// has reports whether a process has a role.
func (o *ServeOptions) has(role windsock.Role) bool { return slices.Contains(o.Roles, role) }

// processName is by what people know this process.
func processName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
