package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"windsock"
)

// play is a random history of a random deployment.
type play struct {
	*site
	*rand.Rand
	said      []string // what happened, for whoever has to find out
	nodes     []node
	instances []string
	tokens    []windsock.Secret // that were ever handed out
	gone      bool
	replaced  int
}

// graph returns up to eight nodes, each of which comes after some of those before it.
func (p *play) graph() (nodes []node) {
	for i := range 2 + p.IntN(7) {
		if p.IntN(4) == 0 {
			continue // another time it may be there
		}
		n := node{Name: fmt.Sprint("n", i), Timeout: time.Hour, Retries: p.IntN(2), Text: []string{"", "$word"}[p.IntN(2)], Outputs: []windsock.Output{{Name: "ip"}}, Gets: map[string]string{}}
		for _, before := range nodes {
			switch p.IntN(5) {
			case 0:
				n.Gets["in_"+before.Name] = before.Name + ".ip"
			case 1:
				n.After = append(n.After, before.Name)
			}
		}
		switch p.IntN(4) {
		case 0:
			n.Handle, n.Signals, n.Gets = "handle_"+n.Name, 1+p.IntN(3), nil
		default:
			n.On, n.Silent = fmt.Sprint("s", 1+i%3), p.IntN(6) == 0
			for range p.IntN(4) {
				n.Actions = append(n.Actions, everyAction[p.IntN(3)])
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func (p *play) note(format string, args ...any) {
	p.said = append(p.said, fmt.Sprintf(format, args...))
}

func (p *play) put() {
	p.nodes = p.graph()
	p.note("deploy %+v", p.nodes)
	source := must[windsock.Deployable](p.T)(p.AddDeployable(p.Context(), windsock.Deployable{ID: fmt.Sprint("d", len(p.said)), Source: jsonList(p.nodes)}))
	err := p.patch(func(d *windsock.DeploymentSpec) { d.Deployable, d.Parameters = source.ID, map[string]any{"word": "w"} })
	if err != nil {
		p.Fatal(err)
	}
}

// tasks are all that instances may run, and the tokens of the conditions.
func (p *play) tasks() (tokens []windsock.Secret) {
	var rows []component
	if err := p.read.Select(&rows, `SELECT `+componentColumns+` FROM components WHERE `+isOffered+` OR kind = 'wait_condition'`); err != nil {
		p.Fatal(err)
	}
	n := 0
	for i := range rows {
		if rows[i].Kind == windsock.KindCondition {
			if !rows[i].State.Final() {
				tokens = append(tokens, windsock.Secret(p.signalToken(&rows[i])))
			}
		} else {
			n++
		}
	}
	for _, id := range p.instances {
		for _, task := range p.offered(id) {
			tokens = append(tokens, tokenOf(task.SignalURL))
			n--
		}
	}
	if n != 0 {
		p.Fatalf("%d of those that are offered are offered to nobody: %v\n%v", n, p.instances, must[windsock.ComponentGraph](p.T)(p.Components(p.Context(), "shop")).Components)
	}
	p.tokens = append(p.tokens, tokens...)
	return tokens
}

func (p *play) signal(token windsock.Secret, sig windsock.Signal) {
	p.note("signal %v", sig)
	if _, err := p.Signal(p.Context(), token, sig); err != nil && !errors.Is(err, windsock.ErrFinal) && !errors.Is(err, windsock.ErrNotFound) {
		p.Fatal(err)
	}
}

func (p *play) say(instance string, state windsock.State) {
	p.note("%s is %s", instance, state)
	record(p.T, p.Store, instanceSaid(instance, "probe", state))
}

func (p *play) one(list []string) string { return list[p.IntN(len(list))] }

// step lets something happen.
func (p *play) step() {
	switch p.IntN(24) {
	case 0, 1:
		p.say(p.one(p.instances), windsock.Running)
	case 2:
		p.say(p.one(p.instances), []windsock.State{windsock.Stopped, windsock.Failed, windsock.Gone}[p.IntN(3)])
	case 3:
		p.put()
	case 4:
		p.note("word")
		p.word(fmt.Sprint("word", p.IntN(3)))
	case 5:
		p.gone = !p.gone
		p.note("gone %t", p.gone)
		if err := p.patch(func(d *windsock.DeploymentSpec) {
			if d.Expected = windsock.Running; p.gone {
				d.Expected = windsock.Gone
			}
		}); err != nil {
			p.Fatal(err)
		}
	case 6:
		p.note("reopen")
		p.reopen()
	case 7:
		p.note("time passes")
		p.c.advance(time.Duration(p.IntN(90)) * time.Minute)
		if err := p.timeOut(p.Context()); err != nil {
			p.Fatal(err)
		}
	case 8, 9:
		g := must[windsock.ComponentGraph](p.T)(p.Components(p.Context(), "shop"))
		if len(g.Components) == 0 {
			return
		}
		name, do := g.Components[p.IntN(len(g.Components))].Name, p.RetryComponent
		if p.IntN(4) == 0 {
			do = p.CancelComponent
		}
		p.note("operate %s", name)
		if _, err := do(p.Context(), "shop", name); err != nil && !errors.Is(err, windsock.ErrConflict) {
			p.Fatal(err)
		}
	case 10:
		p.replaced++
		server, id := fmt.Sprint("s", 1+p.IntN(3)), fmt.Sprint("r", p.replaced)
		p.note("%s takes the place of %s", id, server)
		if _, _, err := p.PutInstance(p.Context(), windsock.InstanceSpec{ID: id, DeploymentID: "shop", Assembly: server}, windsock.Cond{}); err != nil {
			p.Fatal(err)
		}
		p.instances = append(p.instances, id)
	case 11:
		if len(p.instances) > 3 {
			i := p.IntN(len(p.instances))
			p.note("remove %s", p.instances[i])
			if err := p.DeleteInstance(p.Context(), p.instances[i], windsock.Cond{}); err != nil {
				p.Fatal(err)
			}
			p.instances = slices.Delete(p.instances, i, i+1)
		}
	case 12:
		if len(p.tokens) > 0 { // most are late
			p.signal(p.tokens[p.IntN(len(p.tokens))], success("ip=late"))
		}
	default:
		if tokens := p.tasks(); len(tokens) > 0 {
			p.signal(tokens[p.IntN(len(tokens))], []windsock.Signal{failure, {Status: windsock.SignalStarted}, success("ip=1"), success("ip=2"), success("ip=1")}[p.IntN(5)])
		}
	}
}

// check looks for what must not be, whatever happened.
func (p *play) check() {
	p.Helper()
	p.consistent()
	g := must[windsock.ComponentGraph](p.T)(p.Components(p.Context(), "shop"))
	by, failed := map[string]windsock.Component{}, 0
	for _, c := range g.Components {
		by[c.Name] = c
		if c.State == windsock.ComponentFailed || c.State == windsock.ComponentTimedOut {
			failed++
		}
	}
	for _, c := range g.Components {
		switch {
		case c.State == windsock.ComponentWaiting && len(c.WaitsFor) == 0:
			p.Fatalf("%s waits for nothing", c.Name)
		case c.State.Offered() != !c.DeadlineAt.IsZero():
			p.Fatalf("%s is %s until %s", c.Name, c.State, c.DeadlineAt)
		}
		for _, before := range c.After {
			b := by[before]
			if c.Action != windsock.ActionDelete && c.State.Offered() && b.Action != windsock.ActionDelete && !b.State.Done() && b.Run > 0 && b.AvailableAt.After(c.AvailableAt) && b.State.Offered() {
				p.Fatalf("%s runs beside %s, which comes before it", c.Name, before)
			}
			if b.Action == windsock.ActionDelete && b.State.Offered() && !c.State.Done() {
				p.Fatalf("%s is deleted before %s is", before, c.Name)
			}
		}
	}
	d := must[windsock.Deployment](p.T)(p.Deployment(p.Context(), "shop"))
	if failed > 0 && d.State != windsock.Failed && d.State != windsock.Gone || failed == 0 && strings.HasPrefix(d.Reason, "component ") {
		p.Fatalf("%d components failed, the deployment is %s: %s", failed, d.State, d.Reason)
	}
}

// end has all go well from here on.
func (p *play) end() {
	for _, server := range []string{"s1", "s2", "s3"} {
		p.replaced++
		id := fmt.Sprint("r", p.replaced)
		if _, _, err := p.PutInstance(p.Context(), windsock.InstanceSpec{ID: id, DeploymentID: "shop", Assembly: server}, windsock.Cond{}); err != nil {
			p.Fatal(err)
		}
		p.instances = append(p.instances, id)
	}
	for _, id := range p.instances {
		p.say(id, windsock.Running)
	}
	for range 100 {
		for _, c := range must[windsock.ComponentGraph](p.T)(p.Components(p.Context(), "shop")).Components {
			if c.State == windsock.ComponentFailed || c.State == windsock.ComponentTimedOut {
				must[windsock.Component](p.T)(p.RetryComponent(p.Context(), "shop", c.Name))
			}
		}
		tokens := p.tasks()
		if len(tokens) == 0 {
			break
		}
		for _, token := range tokens {
			p.signal(token, success("ip=1"))
		}
		p.check()
	}
	for _, c := range must[windsock.ComponentGraph](p.T)(p.Components(p.Context(), "shop")).Components {
		if !c.State.Done() || (c.Action == windsock.ActionDelete) != p.gone {
			p.Fatalf("at the end %s is %s (%s), waits for %q", c.Name, c.State, c.Action, c.WaitsFor)
		}
	}
}

func TestNoComponentHangsWhateverHappens(t *testing.T) { eachDB(t, noComponentHangsWhateverHappens) }

func noComponentHangsWhateverHappens(t *testing.T, fresh maker) {
	seed := rand.Uint64()
	for i := range 10 {
		t.Run(fmt.Sprint(seed, "-", i), func(t *testing.T) {
			p := &play{site: newSite(t, fresh), Rand: rand.New(rand.NewPCG(seed, uint64(i))), instances: []string{"i1", "i2", "i3"}}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(strings.Join(p.said, "\n"))
				}
			})
			declare(t, p.Store, "shop")
			for i, id := range p.instances {
				if _, _, err := p.PutInstance(t.Context(), windsock.InstanceSpec{ID: id, DeploymentID: "shop", Assembly: fmt.Sprint("s", i+1)}, windsock.Cond{}); err != nil {
					t.Fatal(err)
				}
			}
			p.put()
			for range 60 {
				p.step()
				p.check()
			}
			p.end()
		})
	}
}
