package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"windsock"
)

// A node is a component as the stand-in of a planner reads it. What it gives to get from
// others makes it come after them.
type node struct {
	Name    string
	On      string            `json:",omitempty"` // a server; "": it is a condition
	After   []string          `json:",omitempty"`
	Needs   []string          `json:",omitempty"` // servers, beside its own
	Gets    map[string]string `json:",omitempty"` // "db.ip" by the name of an input
	Text    string            `json:",omitempty"` // $name is a parameter; "broken" cannot be run
	Actions []windsock.Action `json:",omitempty"` // default CREATE and UPDATE
	Outputs []windsock.Output `json:",omitempty"`
	Handle  string            `json:",omitempty"`
	Signals int               `json:",omitempty"`
	Retries int               `json:",omitempty"`
	Timeout time.Duration     `json:",omitempty"`
	Silent  bool              `json:",omitempty"`
}

// planner reads a list of nodes in JSON.
type planner struct{}

func (planner) Read(d windsock.Deployable) (s windsock.Summary, err error) {
	var nodes []node
	if err := json.Unmarshal([]byte(d.Source), &nodes); err != nil {
		s.Findings = []windsock.Finding{{Severity: windsock.SeverityError, Text: err.Error()}}
		return s, errors.New("no list of nodes")
	}
	s.Parameters = []windsock.ParameterSpec{{Name: "word", Type: "string"}, {Name: "secret", Type: "string", Hidden: true}}
	for _, n := range nodes {
		s.Components = append(s.Components, n.Name)
	}
	return s, nil
}

func (planner) Plan(d windsock.Deployable, spec windsock.DeploymentSpec) (p windsock.Plan, err error) {
	var nodes []node
	if err := json.Unmarshal([]byte(d.Source), &nodes); err != nil {
		return p, err
	}
	servers, handles := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		if n.Handle != "" {
			handles[n.Handle] = true
		}
	}
	for _, n := range nodes {
		c := windsock.PlannedComponent{
			Name: n.Name, Kind: windsock.KindCondition, Instance: n.On, Handle: n.Handle, Actions: n.Actions, After: slices.Clone(n.After), Needs: n.Needs,
			Outputs: n.Outputs, Signals: n.Signals, Deadline: n.Timeout, Retries: n.Retries, Silent: n.Silent,
		}
		if n.On != "" {
			c.Kind, c.Group, c.Needs = windsock.KindSoftware, "script", append(c.Needs, n.On)
			if !servers[n.On] {
				p.Instances = append(p.Instances, windsock.PlannedInstance{Name: n.On})
			}
			servers[n.On] = true
		}
		if c.Actions == nil {
			c.Actions = []windsock.Action{windsock.ActionCreate, windsock.ActionUpdate}
		}
		if c.Deadline == 0 {
			c.Deadline = windsock.DefaultDeadline
		}
		for _, ref := range n.Gets {
			name, _, _ := strings.Cut(ref, ".")
			if name == "" { // of its own
				continue
			}
			c.Refers = append(c.Refers, name)
			if !handles[name] {
				c.After = append(c.After, name)
			}
		}
		slices.Sort(c.After)
		c.After = slices.Compact(c.After)
		for name, v := range spec.Parameters {
			n.Text = strings.ReplaceAll(n.Text, "$"+name, fmt.Sprint(v))
		}
		if c.Spec, err = json.Marshal(node{Text: n.Text, Gets: n.Gets, Outputs: n.Outputs}); err != nil {
			return p, err
		}
		p.Components = append(p.Components, c)
		p.Outputs = append(p.Outputs, windsock.PlannedOutput{Name: n.Name + "_ip", Refers: []string{n.Name}, Spec: []byte(n.Name)})
	}
	return p, nil
}

func (planner) Resolve(spec []byte, action windsock.Action, known windsock.Known) (j windsock.Job, err error) {
	var n node
	if err := json.Unmarshal(spec, &n); err != nil {
		return j, err
	}
	if strings.HasPrefix(n.Text, "broken") {
		return j, errors.New("it is broken")
	}
	j = windsock.Job{Group: "script", Config: n.Text, Outputs: n.Outputs}
	for name, ref := range n.Gets {
		from, attribute, _ := strings.Cut(ref, ".")
		j.Inputs = append(j.Inputs, windsock.Input{Name: name, Type: "String", Value: known[from].Attributes[attribute]})
	}
	slices.SortFunc(j.Inputs, func(a, b windsock.Input) int { return strings.Compare(a.Name, b.Name) })
	return j, nil
}

func (planner) Value(spec []byte, known windsock.Known) (any, error) {
	return known[string(spec)].Attributes["ip"], nil
}

// A site is a store with a deployment "shop" whose instances are called as its servers.
type site struct {
	*testing.T
	*Store
	c      *clock
	path   string
	tokens map[string]windsock.Secret
	n      int // deployables
}

func newSite(t *testing.T, fresh maker) *site {
	s := &site{T: t, c: &clock{now: noon}, path: fresh(t), tokens: map[string]windsock.Secret{}}
	s.open()
	t.Cleanup(func() { s.Store.Close() })
	return s
}

func (s *site) open() {
	s.Helper()
	st, err := Open(s.Context(), s.path, Options{Now: s.c.Now, Planner: planner{}})
	if err != nil {
		s.Fatal(err)
	}
	s.Store = st
}

func (s *site) reopen() {
	s.Helper()
	if err := s.Store.Close(); err != nil {
		s.Fatal(err)
	}
	s.open()
}

// deploy has the shop be made by nodes, with these parameters ("word=a"), and its servers be
// there.
func (s *site) deploy(nodes []node, parameters ...string) {
	s.Helper()
	s.n++
	source, err := json.Marshal(nodes)
	if err != nil {
		s.Fatal(err)
	}
	d := must[windsock.Deployable](s.T)(s.AddDeployable(s.Context(), windsock.Deployable{ID: fmt.Sprint("d", s.n), Source: string(source)}))
	spec := windsock.DeploymentSpec{ID: "shop", Flap: "off", Deployable: d.ID, Parameters: map[string]any{}, Members: map[string]string{}}
	for _, n := range nodes {
		if n.On != "" {
			spec.Members[n.On] = n.On
		}
	}
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		spec.Parameters[name] = value
	}
	if _, _, err := s.PutDeployment(s.Context(), spec, windsock.Cond{}); err != nil {
		s.Fatal(err)
	}
	s.consistent()
}

func (s *site) runs(instances ...string) {
	s.Helper()
	for _, id := range instances {
		record(s.T, s.Store, instanceSaid(id, "probe-"+id, windsock.Running))
	}
	s.consistent()
}

// offered is what an instance may run.
func (s *site) offered(instance string) []windsock.Task {
	s.Helper()
	if s.tokens[instance] == "" {
		s.tokens[instance] = must[windsock.Secret](s.T)(s.IssueToken(s.Context(), instance))
	}
	return must[windsock.Work](s.T)(s.Work(s.Context(), instance, s.tokens[instance], "http://w")).Components
}

// task is one of what it may run.
func (s *site) task(instance, name string) windsock.Task {
	s.Helper()
	offered := s.offered(instance)
	for _, task := range offered {
		if task.Name == name {
			return task
		}
	}
	s.Fatalf("%s is not offered to %s; its states are %v", name, instance, s.states())
	return windsock.Task{}
}

func tokenOf(url string) windsock.Secret { return windsock.Secret(path.Base(url)) }

// says signals, and returns the state that follows.
func (s *site) says(token windsock.Secret, sig windsock.Signal) windsock.ComponentState {
	s.Helper()
	out, err := s.Signal(s.Context(), token, sig)
	if err != nil {
		s.Fatalf("signal %+v: %v", sig, err)
	}
	s.consistent()
	return out.State
}

// done runs a component.
func (s *site) done(instance, name string, outputs ...string) windsock.Task {
	s.Helper()
	task := s.task(instance, name)
	s.says(tokenOf(task.SignalURL), success(outputs...))
	return task
}

func success(outputs ...string) windsock.Signal {
	sig := windsock.Signal{Status: windsock.SignalSuccess, Outputs: map[string]any{"deploy_status_code": 0.0}}
	for _, o := range outputs {
		name, value, _ := strings.Cut(o, "=")
		sig.Outputs[name] = value
	}
	return sig
}

var failure = windsock.Signal{Status: windsock.SignalFailure, Reason: "disk full"}

// states are those of the components, as in "db:complete"; of UPDATE and DELETE with the
// action.
func (s *site) states() (list []string) {
	s.Helper()
	for _, c := range must[windsock.ComponentGraph](s.T)(s.Components(s.Context(), "shop")).Components {
		text := c.Name + ":" + string(c.State)
		if c.Action != windsock.ActionCreate {
			text += ":" + string(c.Action)
		}
		list = append(list, text)
	}
	return list
}

func (s *site) want(states string) {
	s.Helper()
	if got := strings.Join(s.states(), " "); got != states {
		s.Fatalf("components are\n%s, want\n%s", got, states)
	}
}

func (s *site) wantShop(state windsock.State, reason string) {
	s.Helper()
	d := must[windsock.Deployment](s.T)(s.Deployment(s.Context(), "shop"))
	if d.State != state || !strings.Contains(d.Reason, reason) {
		s.Fatalf("the deployment is %s (%s), want %s (%s)", d.State, d.Reason, state, reason)
	}
}

func (s *site) component(name string) windsock.Component {
	s.Helper()
	return must[windsock.Component](s.T)(s.Component(s.Context(), "shop", name))
}

// consistent compares all that is counted on the way with a recount.
func (s *site) consistent() {
	s.Helper()
	var wrong []string
	if err := s.read.Select(&wrong, `SELECT name || ' waits for ' || unmet || ', not ' || (`+unmet+`) FROM components WHERE unmet <> `+unmet); err != nil || len(wrong) > 0 {
		s.Fatal(wrong, err)
	}
	var rows []struct {
		ID         string `db:"id"`
		Components string `db:"components"`
	}
	if err := s.read.Select(&rows, `SELECT id, components FROM deployments`); err != nil {
		s.Fatal(err)
	}
	for _, d := range rows {
		counted := phasesOf(d.Components)
		if counted == nil {
			continue
		}
		recount := windsock.ComponentTally{}
		var cs []component
		if err := s.read.Select(&cs, `SELECT action, state FROM components WHERE deployment_id = ?`, d.ID); err != nil {
			s.Fatal(err)
		}
		for _, c := range cs {
			recount[c.phase(c.State)]++
		}
		if phasesText(recount) != phasesText(counted) {
			s.Fatalf("%s counts %s, there are %s", d.ID, d.Components, phasesText(recount))
		}
	}
}

// told lists the changes of components after a seq, as in "db waiting>available".
func (s *site) told(after int64) (list []string) {
	s.Helper()
	for _, e := range must[[]windsock.Event](s.T)(s.Events(s.Context(), after, 100000, windsock.EventFilter{Kind: windsock.KindComponent})) {
		list = append(list, fmt.Sprintf("%s %s>%s", e.Component.Name, e.Component.Previous, e.Component.State))
	}
	return list
}

var dbAndWeb = []node{
	{Name: "db", On: "s1", Text: "install db", Outputs: []windsock.Output{{Name: "ip"}, {Name: "trouble", Error: true}}},
	{Name: "web", On: "s2", Text: "install web", Gets: map[string]string{"DB": "db.ip", "OWN": ".deploy_signal_id"}, Outputs: []windsock.Output{{Name: "ip"}}},
}

func TestComponentsGoOnByWhatOthersProduced(t *testing.T) {
	eachDB(t, componentsGoOnByWhatOthersProduced)
}

func componentsGoOnByWhatOthersProduced(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	s.want("db:waiting web:waiting")
	if w := s.component("web").WaitsFor; !slices.Equal(w, []string{"db", "s2"}) {
		t.Errorf("web waits for %q", w)
	}
	s.runs("s2")
	s.want("db:waiting web:waiting")
	s.runs("s1")
	s.want("db:available web:waiting")
	s.wantShop(windsock.Starting, "2 of 2 components are not complete")
	if got := s.offered("s2"); len(got) > 0 {
		t.Errorf("s2 may run %v", got)
	}
	task := s.task("s1", "db")
	inputs := map[string]any{}
	for _, in := range task.Inputs {
		inputs[in.Name] = in.Value
	}
	if inputs["deploy_server_id"] != "s1" || inputs["deploy_action"] != "CREATE" || inputs["deploy_signal_id"] != task.SignalURL ||
		inputs["deploy_stack_id"] != "shop" || inputs["deploy_resource_name"] != "db" || inputs["deploy_signal_transport"] != "CFN_SIGNAL" || inputs["deploy_signal_verb"] != "POST" {
		t.Errorf("inputs are %v", inputs)
	}
	if task.Config != "install db" || task.Group != "script" || !strings.HasPrefix(task.SignalURL, "http://w/api/signal/wss_") || task.DeadlineAt.Sub(task.CreationTime) != time.Hour {
		t.Errorf("task %+v", task)
	}
	token := tokenOf(task.SignalURL)
	if got := s.says(token, windsock.Signal{Status: windsock.SignalStarted}); got != windsock.ComponentRunning {
		t.Errorf("it is %s", got)
	}
	if again := s.task("s1", "db"); again.ID != task.ID {
		t.Errorf("it is %s, was %s", again.ID, task.ID)
	}
	s.says(token, success("ip=10.0.0.1", "deploy_stdout=hello", "undeclared=1"))
	s.want("db:complete web:available")
	db := s.component("db")
	if string(db.Outputs["ip"]) != `"10.0.0.1"` || db.Outputs["undeclared"] != nil || string(db.Outputs["deploy_stdout"]) != `"hello"` || len(db.History) != 2 || db.Run != 1 || db.FinishedAt.IsZero() {
		t.Errorf("db is %+v", db)
	}
	webTask := s.task("s2", "web")
	if webTask.Inputs[0].Value != "10.0.0.1" {
		t.Errorf("web is given %v", webTask.Inputs[0])
	}
	if webTask.Inputs[1].Value != webTask.SignalURL {
		t.Errorf("web is given %v, want its signal URL", webTask.Inputs[1])
	}
	s.says(tokenOf(webTask.SignalURL), success("ip=10.0.0.2"))
	s.want("db:complete web:complete")
	s.wantShop(windsock.Running, "2 of 2 instances run")
	if out := must[map[string]any](t)(s.Outputs(t.Context(), "shop")); out["web_ip"] != "10.0.0.2" {
		t.Errorf("outputs %v", out)
	}
	want := []string{"db >waiting", "web >waiting", "db waiting>available", "db available>running", "db running>complete", "web waiting>available", "web available>complete"}
	if got := s.told(0); !slices.Equal(got, want) {
		t.Errorf("told\n%q, want\n%q", got, want)
	}
	g := must[windsock.ComponentGraph](t)(s.Components(t.Context(), "shop"))
	if !slices.Equal(g.CriticalPath, []string{"db", "web"}) || g.Counts[windsock.ComponentComplete] != 2 {
		t.Errorf("graph %+v", g)
	}
}
