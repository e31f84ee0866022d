package components

import "windsock"

// Planner reads deployables and plans deployments of them; store.Planner is what the
// store asks of it.
type Planner struct{}

// Read says what is in a deployable. Its error is a windsock.FieldError, which the
// summary explains, when it cannot be deployed.
func (Planner) Read(d windsock.Deployable) (windsock.Summary, error) {
	t, err := Parse(d.Source, d.Files)
	if err != nil {
		return windsock.Summary{}, windsock.Invalid("template", "%s", err)
	}
	summary := t.Check()
	for _, f := range summary.Findings {
		if f.Severity == windsock.SeverityError {
			return summary, windsock.Invalid("template", "%s", f.Text)
		}
	}
	return summary, nil
}

// Plan puts in the parameters of a deployment, as Template.Plan does.
func (Planner) Plan(d windsock.Deployable, spec windsock.DeploymentSpec) (windsock.Plan, error) {
	t, err := Parse(d.Source, d.Files)
	if err != nil {
		return windsock.Plan{}, windsock.Invalid("deployable", "%s", err)
	}
	return t.Plan(spec)
}

// Resolve is Resolve of the package.
func (Planner) Resolve(spec []byte, action windsock.Action, known windsock.Known) (windsock.Job, error) {
	return Resolve(spec, action, known)
}

// Value is ValueOf.
func (Planner) Value(spec []byte, known windsock.Known) (any, error) {
	return ValueOf(spec, known)
}

// template reads the file that stands for a resource of s.
func (p *planner) template(s *scope, file string) (*Template, error) {
	at, _, _ := s.t.File(file)
	if t := p.parsed[at]; t != nil {
		return t, nil
	}
	t, err := s.t.Nested(file)
	if err != nil {
		return nil, err
	}
	p.parsed[at] = t
	return t, nil
}
