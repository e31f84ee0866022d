package api

import "slices"

// ProblemTypes lists the types of all problems, sorted.
func ProblemTypes() []string {
	types := []string{"/problems/invalid", "/problems/internal"}
	for _, f := range faults {
		types = append(types, "/problems/"+f.kind)
	}
	slices.Sort(types)
	return slices.Compact(types)
}
