package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"windsock"
)

// depend has a deployment depend on others.
func depend(t *testing.T, s *Store, id string, on ...string) {
	t.Helper()
	must[windsock.Deployment](t)(s.PatchDeployment(t.Context(), id, windsock.Cond{}, func(d *windsock.DeploymentSpec) error {
		d.DependsOn = on
		return nil
	}))
}

// A rack is a host, a shop that depends on it and a cart that depends on that, and all run
// since an hour ago.
type rack struct {
	*Store
	t     *testing.T
	c     *clock
	after int64
}

func newRack(t *testing.T, s *Store, c *clock) *rack {
	declare(t, s, "host", "host-1")
	declare(t, s, "shop", "web-1", "web-2")
	declare(t, s, "cart", "cart-1")
	depend(t, s, "shop", "host")
	depend(t, s, "cart", "shop")
	r := &rack{Store: s, t: t, c: c}
	r.say(windsock.Running, "host-1", "web-1", "web-2", "cart-1")
	r.pass(time.Hour)
	r.after = s.Head()
	return r
}

func (r *rack) say(state windsock.State, ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		record(r.t, r.Store, instanceSaid(id, "m", state))
	}
}

// pass lets time pass, and the clock look twice at its end.
func (r *rack) pass(d time.Duration) {
	r.t.Helper()
	tick(r.t, r.Store, r.c, d)
	tick(r.t, r.Store, r.c, 0)
}

// told checks what monitors were told of since the last time, as "subject word".
func (r *rack) told(want ...string) {
	r.t.Helper()
	var got []string
	for _, e := range must[[]windsock.Event](r.t)(r.Events(r.t.Context(), r.after, 10000, windsock.EventFilter{})) {
		if r.after = e.Seq; e.Word != "" {
			got = append(got, e.SubjectID+" "+strings.Fields(string(e.Word))[0])
		}
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("told %q, want %q", got, want)
	}
}

func TestOneCauseIsOneAlarm(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newRack(t, s, c)
		r.say(windsock.Failed, "host-1")
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), r.after, 10, windsock.EventFilter{})) {
			if want := []string{"cart", "shop"}; e.Kind == windsock.KindDeployment && !slices.Equal(e.Affected, want) {
				t.Errorf("%s names %q as affected, want %q", e.SubjectID, e.Affected, want)
			}
		}
		r.told("host-1 FAIL", "host FAIL")
		r.pass(time.Second)
		r.say(windsock.Failed, "web-1", "web-2", "cart-1")
		r.pass(time.Hour)
		r.told()
		for id, by := range map[string]string{"web-1": "depends on host, which is failed", "cart-1": "depends on shop, which is failed"} {
			if i := must[windsock.Instance](t)(s.Instance(t.Context(), id)); !i.Held || i.HeldBy != by || i.State != windsock.Failed {
				t.Errorf("%s is %s, held %v by %q", id, i.State, i.Held, i.HeldBy)
			}
		}
		r.say(windsock.Running, "host-1")
		r.told("host-1 START", "host START")
		r.pass(10 * time.Second)
		r.say(windsock.Running, "web-1")
		r.pass(15 * time.Second)
		r.told()
		r.pass(10 * time.Second) // the host runs for longer than DependsSettle, but the shop changed since
		r.told("web-2 FAIL")
		r.pass(30 * time.Second)
		r.told("cart-1 FAIL", "cart FAIL", "shop FAIL")
		r.say(windsock.Running, "web-2", "cart-1")
		r.told("web-2 START", "shop START", "cart-1 START", "cart START")
		for _, id := range []string{"web-1", "web-2", "cart-1"} {
			if i := must[windsock.Instance](t)(s.Instance(t.Context(), id)); i.Held || i.HeldBy != "" {
				t.Errorf("%s is held by %q", id, i.HeldBy)
			}
		}
	})
}

// Who looks at the child may look before who looks at the parent.
func TestAChildThatIsSeenToFailFirst(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newRack(t, s, c)
		r.say(windsock.Failed, "web-1", "web-2")
		r.pass(20 * time.Second)
		r.told()
		r.say(windsock.Failed, "host-1")
		r.pass(time.Hour)
		r.told("host-1 FAIL", "host FAIL")
		r.say(windsock.Running, "web-1", "web-2")
		r.say(windsock.Running, "host-1")
		r.pass(time.Hour)
		r.told("host-1 START", "host START")
	})
}

func TestAChildThatFailsByItself(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newRack(t, s, c)
		r.say(windsock.Failed, "web-1")
		r.pass(29 * time.Second)
		r.told()
		r.pass(2 * time.Second)
		r.told("web-1 FAIL", "shop FAIL")
		r.say(windsock.Failed, "host-1") // what was told before is taken back when it is over
		r.say(windsock.Running, "web-1")
		r.told("host-1 FAIL", "host FAIL", "web-1 START", "shop START")
		r.say(windsock.Stopped, "web-2") // which says nothing of why
		r.told("web-2 STOP")
	})
}

// A restart knows what it knew: a child that reports before its parent does waits.
func TestChildrenWaitAcrossARestart(t *testing.T) {
	eachDB(t, func(t *testing.T, fresh maker) {
		c, db := &clock{now: noon}, fresh(t)
		s := open(t, db, c)
		r := newRack(t, s, c)
		r.say(windsock.Failed, "host-1")
		r.told("host-1 FAIL", "host FAIL")
		s.Close()
		c.advance(time.Hour)
		r.Store = open(t, db, c)
		defer func() { r.Close() }()
		r.say(windsock.Failed, "web-1")
		r.pass(time.Hour)
		r.told()
		r.Close()
		r.Store = open(t, db, c)
		r.say(windsock.Running, "host-1")
		r.pass(31 * time.Second)
		r.told("host-1 START", "host START", "web-1 FAIL", "shop FAIL")
	})
}

// Who depends on nothing any more is told of.
func TestWhatADeploymentDependsOnChanges(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		for name, change := range map[string]func(r *rack){
			"it depends on nothing":  func(r *rack) { depend(t, r.Store, "shop") },
			"the host is taken away": func(r *rack) { must[any](t)(nil, r.DeleteDeployment(t.Context(), "host", windsock.Cond{})) },
		} {
			r := newRack(t, s, c)
			r.say(windsock.Failed, "host-1")
			r.say(windsock.Failed, "web-1", "web-2")
			r.told("host-1 FAIL", "host FAIL")
			change(r)
			r.pass(time.Minute)
			r.told("web-1 FAIL", "web-2 FAIL", "shop FAIL")
			if d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "shop")); len(d.DependsOn) > 0 {
				t.Errorf("%s: it depends on %q", name, d.DependsOn)
			}
			for _, id := range []string{"shop", "cart", "host"} {
				s.DeleteDeployment(t.Context(), id, windsock.Cond{})
			}
		}
		var left int
		if s.read.Get(&left, `SELECT count(*) FROM dependencies`); left > 0 {
			t.Errorf("%d dependencies are left", left)
		}
	})
}

func TestDependenciesThatCannotBe(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		newRack(t, s, c)
		for _, on := range [][]string{{"cart"}, {"nobody"}, {"host", "host"}} {
			_, err := s.PatchDeployment(t.Context(), "host", windsock.Cond{}, func(d *windsock.DeploymentSpec) error {
				d.DependsOn = on
				return nil
			})
			var invalid *windsock.FieldError
			if !errors.As(err, &invalid) || invalid.Field != "depends_on" {
				t.Errorf("on %q: %v", on, err)
			}
		}
		if d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "host")); len(d.DependsOn) > 0 {
			t.Errorf("it depends on %q", d.DependsOn)
		}
	})
}

// A file names them in any order.
func TestAFileDeclaresDependencies(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		file := []windsock.DeploymentSpec{{ID: "cart", DependsOn: []string{"shop"}}, {ID: "shop", DependsOn: []string{"host"}}, {ID: "host"}}
		for range 2 {
			if err := s.Declare(t.Context(), file, nil); err != nil {
				t.Fatal(err)
			}
		}
		if d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "cart")); !slices.Equal(d.DependsOn, []string{"shop"}) {
			t.Errorf("the cart depends on %q", d.DependsOn)
		}
		file[2].DependsOn = []string{"cart"}
		var invalid *windsock.FieldError
		if err := s.Declare(t.Context(), file, nil); !errors.As(err, &invalid) || invalid.Field != "depends_on" {
			t.Errorf("in a circle: %v", err)
		}
		if err := s.Declare(t.Context(), file[1:2], nil); err == nil {
			t.Error("the shop depends on nobody")
		}
	})
}

// Who is affected is told of a deployment that has nothing else to tell, too.
func TestAffectedByOneThatStops(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		for _, d := range []windsock.DeploymentSpec{{ID: "host"}, {ID: "shop", DependsOn: []string{"host"}}} {
			if _, _, err := s.PutDeployment(t.Context(), d, windsock.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
		seq := record(t, s, said(windsock.KindDeployment, "host", "m", windsock.Stopped))[0].EventSeq
		e := must[[]windsock.Event](t)(s.Events(t.Context(), seq-1, 1, windsock.EventFilter{}))[0]
		if e.Word != windsock.StopDetected || !slices.Equal(e.Affected, []string{"shop"}) {
			t.Errorf("event %d has %q and affects %q, want STOP DETECTED and shop", seq, e.Word, e.Affected)
		}
	})
}
