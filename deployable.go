package windsock

import (
	"maps"
	"slices"
)

// checkSoftware returns a FieldError when a deployable cannot be deployed in this way,
// whatever it says.
func (s *DeploymentSpec) checkSoftware() error {
	if s.Deployable == "" {
		switch {
		case len(s.Parameters) > 0:
			return Invalid("parameters", "go with a deployable; none is named")
		case len(s.Members) > 0:
			return Invalid("instances", "go with a deployable; none is named")
		}
		return nil
	}
	if err := checkText("deployable", s.Deployable, 1, maxID); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		if err := checkText("parameters", name, 1, maxName); err != nil {
			return err
		}
	}
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Members)) {
		id := s.Members[name]
		if err := firstError(checkText("instances", name, 1, maxName), ValidID("instances/"+name, id)); err != nil {
			return err
		}
		if other, twice := taken[id]; twice {
			return Invalid("instances/"+name, "%q takes the place of %q already", Clip(id), Clip(other))
		}
		taken[id] = name
	}
	return nil
}

// CheckName returns a FieldError when nobody can be called that.
func CheckName(field, name string) error { return checkText(field, name, 0, maxName) }
