// Package components reads what software is to be configured where, and says what is to
// be run once what it refers to is known. It does no I/O.
package components

import "windsock"

// A Template is a deployable as it is written, whatever it is written in: Heat's
// templates and the shorter form are both read into it.
//
// A value in it is what encoding/json has for one (nil, bool, int64, float64, string,
// []any, map[string]any); a map with one key that names a function is a call of it.
type Template struct {
	Path        string // of its file, among those sent along; "": it is the deployable itself
	Format      string // "hot" or "components"
	Version     string // as written: "2013-05-23"
	Description string
	Parameters  []Parameter
	Conditions  map[string]any
	Resources   []Resource // in the order in which they stand there
	Outputs     []Output
	Files       map[string]string  // that were sent along
	Findings    []windsock.Finding // of reading it: what is not understood

	conditionAt map[string]func(path ...string) int // the lines of what stands in them
}

// A Parameter is a value that is given when it is deployed.
type Parameter struct {
	Name        string
	Type        string // string, number, json, comma_delimited_list or boolean
	Description string
	Default     any
	HasDefault  bool
	Hidden      bool
	Constraints []map[string]any
	Line        int
}

// A Resource is one thing of a template.
type Resource struct {
	Name       string
	Type       string // OS::Heat::SoftwareDeployment, or the name of a file
	Properties map[string]any
	Metadata   any
	DependsOn  []string
	Condition  any                      // a name, a call, or nil
	Line       int                      // of its name
	LineOf     func(path ...string) int // of what stands there in it: LineOf("properties", "config")
}

// An Output is a value of the whole.
type Output struct {
	Name        string
	Description string
	Value       any
	Condition   any
	Line        int
	lineOf      func(path ...string) int
}
