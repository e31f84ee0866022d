package api

import (
	"path/filepath"
	"reflect"
	"strings"

	"windsock"
)

func (s *Server) instances() *model[windsock.InstanceSpec, windsock.Instance] {
	return &model[windsock.InstanceSpec, windsock.Instance]{
		Server:    s,
		kind:      windsock.KindInstance,
		path:      "/api/instances/",
		states:    windsock.InstanceStates[:],
		id:        func(i *windsock.InstanceSpec) *string { return &i.ID },
		idOf:      func(i *windsock.Instance) string { return i.ID },
		observed:  func(i *windsock.Instance) windsock.State { return i.State },
		complete:  (*windsock.InstanceSpec).Complete,
		permit:    s.permitInstance,
		putOne:    s.Store.PutInstance,
		patchOne:  s.Store.PatchInstance,
		removeOne: s.Store.DeleteInstance,
		one:       s.Store.Instance,
		some:      s.Store.Instances,
	}
}

func (s *Server) permitInstance(before, after *windsock.InstanceSpec) error {
	if before != nil {
		switch {
		case after.ID != before.ID:
			return windsock.Invalid("id", "cannot be changed")
		case after.DeploymentID != before.DeploymentID:
			return windsock.Invalid("deployment_id", "cannot be changed")
		case reflect.DeepEqual(before.Probe, after.Probe):
			return nil // the configuration file may have declared it
		}
	}
	if after.Probe == nil || after.Probe.Type != windsock.ProbeExec {
		return nil
	}
	return s.permitPlugin(after.Probe.Command[0])
}

// permitPlugin returns a FieldError unless the program lies in one of s.Plugins: whoever
// can reach the API must not run what he likes.
func (s *Server) permitPlugin(program string) error {
	const field = "probe.command"
	if len(s.Plugins) == 0 {
		return windsock.Invalid(field, "exec probes can be declared in the configuration file only: no plugin folder is set")
	}
	if program != filepath.Clean(program) {
		return windsock.Invalid(field, "want a path without . or .. or doubled slashes")
	}
	file, err := filepath.EvalSymlinks(program)
	for _, folder := range s.Plugins {
		folder, folderErr := filepath.EvalSymlinks(folder)
		if err == nil && folderErr == nil && strings.HasPrefix(file, strings.TrimSuffix(folder, "/")+"/") {
			return nil
		}
	}
	return windsock.Invalid(field, "want a program in %s; only the configuration file may declare any other", strings.Join(s.Plugins, " or "))
}
