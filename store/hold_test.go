package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"windsock"
)

// flapping puts a deployment whose callbacks wait while something flaps, with an instance.
func flapping(t *testing.T, s *Store) {
	t.Helper()
	must[windsock.Deployment](t)(second(s.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "shop"}, windsock.Cond{})))
	must[windsock.Instance](t)(second(s.PutInstance(t.Context(), windsock.InstanceSpec{ID: "web-1", DeploymentID: "shop"}, windsock.Cond{})))
}

// heard lists what monitors are called back for about a subject after a seq; in brackets
// what only those hear who asked for all.
func heard(t *testing.T, s *Store, id string, after int64) (list []string) {
	t.Helper()
	for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), after, 10000, windsock.EventFilter{})) {
		switch {
		case e.SubjectID != id || e.Type == windsock.InstanceDeclared || e.Type == windsock.DeploymentDeclared:
		case e.Word != "":
			list = append(list, string(e.Word[:4]))
		default:
			list = append(list, fmt.Sprintf("[%.4s]", string(e.Held)))
		}
	}
	return list
}

// tick lets time pass, and has what is due take effect.
func tick(t *testing.T, s *Store, c *clock, d time.Duration) {
	t.Helper()
	c.advance(d)
	var alive time.Time
	if err := s.tick(t.Context(), &alive); err != nil {
		t.Fatal(err)
	}
}

func TestWhatFlapsIsHeldUntilItRests(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		flapping(t, s)
		say := func(states ...windsock.State) {
			t.Helper()
			for _, state := range states {
				tick(t, s, c, time.Second)
				record(t, s, instanceSaid("web-1", "m", state))
			}
		}
		say(windsock.Running, windsock.Failed, windsock.Running, windsock.Failed, windsock.Running, windsock.Failed, windsock.Running)
		if got, want := heard(t, s, "web-1", 0), []string{"STAR", "FAIL", "STAR", "FAIL", "[STAR]", "[FAIL]", "[STAR]"}; !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
		if i := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1")); !i.Unstable || !i.Held || i.State != windsock.Running {
			t.Errorf("it is %+v", i)
		}
		after := s.Head()
		tick(t, s, c, 119*time.Second)
		if got := heard(t, s, "web-1", after); len(got) > 0 {
			t.Errorf("heard %q before it was quiet for long enough", got)
		}
		tick(t, s, c, 2*time.Second)
		tick(t, s, c, time.Hour)
		for _, id := range []string{"web-1", "shop"} {
			if got := heard(t, s, id, after); !slices.Equal(got, []string{"STAR"}) {
				t.Errorf("of %s heard %q when it was at rest", id, got)
			}
		}
		if i := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1")); i.Unstable || i.Held {
			t.Errorf("it is %+v", i)
		}
	})
}

// With a failure as the edge that is one too many, that is told.
func TestTheEdgeThatMakesItUnstableIsToldIfItIsAFailure(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		flapping(t, s)
		for _, state := range []windsock.State{windsock.Failed, windsock.Running, windsock.Failed, windsock.Running, windsock.Failed, windsock.Running, windsock.Stopped} {
			tick(t, s, c, time.Second)
			record(t, s, instanceSaid("web-1", "m", state))
		}
		if got, want := heard(t, s, "web-1", 0), []string{"FAIL", "STAR", "FAIL", "STAR", "FAIL", "[STAR]", "STOP"}; !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
}

func TestFlapOff(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		for range 10 {
			record(t, s, instanceSaid("web-1", "m", windsock.Failed))
			record(t, s, instanceSaid("web-1", "m", windsock.Running))
		}
		if got := heard(t, s, "web-1", 0); len(got) != 20 || slices.ContainsFunc(got, func(w string) bool { return w[0] == '[' }) {
			t.Errorf("heard %q", got)
		}
	})
}

// A probe that looks rarely has to see it at rest three times.
func TestARareProbeTakesLonger(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		flapping(t, s)
		for i := range 6 {
			tick(t, s, c, time.Second)
			o := instanceSaid("web-1", "probe", []windsock.State{windsock.Running, windsock.Failed}[i%2])
			o.Promise = 10 * time.Minute
			record(t, s, o)
		}
		after := s.Head()
		tick(t, s, c, 9*time.Minute)
		if got := heard(t, s, "web-1", after); len(got) > 0 {
			t.Errorf("heard %q", got)
		}
		tick(t, s, c, 2*time.Minute)
		if got := heard(t, s, "web-1", after); !slices.Equal(got, []string{"FAIL"}) {
			t.Errorf("heard %q", got)
		}
	})
}

// However it flaps, is maintained or silenced, depends on what fails, and windsock is
// restarted: what a monitor heard last is
// how the subject is, once all is quiet.
func TestTheLastWordIsTrue(t *testing.T) { eachDB(t, theLastWordIsTrue) }

func theLastWordIsTrue(t *testing.T, fresh maker) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			c := &clock{now: noon}
			path := fresh(t)
			s := open(t, path, c)
			defer func() { s.Close() }()
			flapping(t, s)
			declare(t, s, "host", "host-1")
			depend(t, s, "shop", "host")
			states := []windsock.State{windsock.Running, windsock.Failed, windsock.Stopped, windsock.Starting}
			for range 40 {
				switch n := r.IntN(24); {
				case n == 0:
					s.Close()
					c.advance(time.Duration(r.IntN(3600)) * time.Second)
					s = open(t, path, c)
				case n == 1:
					until := s.now().Add(time.Duration(r.IntN(600)-100) * time.Second)
					must[windsock.Instance](t)(s.PatchInstance(t.Context(), "web-1", windsock.Cond{}, func(i *windsock.InstanceSpec) error {
						i.MaintenanceUntil = until
						return nil
					}))
				case n == 2:
					until := s.now().Add(time.Duration(r.IntN(600)-100) * time.Second)
					must[windsock.Deployment](t)(s.PatchDeployment(t.Context(), "shop", windsock.Cond{}, func(d *windsock.DeploymentSpec) error {
						d.MaintenanceUntil = until
						return nil
					}))
				case n == 3:
					silence(t, s, windsock.SilenceSpec{Scope: "pool:east", Duration: windsock.Duration(1+r.IntN(600)) * windsock.Duration(time.Second)})
					silence(t, s, windsock.SilenceSpec{Scope: "instance:web-1", Duration: windsock.Duration(1+r.IntN(600)) * windsock.Duration(time.Second)})
				case n == 4:
					for _, of := range must[[]windsock.Silence](t)(s.Silences(t.Context(), "", 100)) {
						if err := s.EndSilence(t.Context(), of.ID); err != nil {
							t.Fatal(err)
						}
					}
				case n < 8:
					record(t, s, instanceSaid("host-1", "m", states[r.IntN(len(states))]))
				default:
					record(t, s, instanceSaid("web-1", "m", states[r.IntN(len(states))]))
				}
				tick(t, s, c, time.Duration(r.IntN(90))*time.Second)
			}
			tick(t, s, c, 2*time.Hour)
			record(t, s, instanceSaid("host-1", "m", windsock.Running))
			tick(t, s, c, 0)
			tick(t, s, c, 2*time.Hour)
			tick(t, s, c, 2*time.Hour)
			for id, state := range map[string]windsock.State{
				"web-1": must[windsock.Instance](t)(s.Instance(t.Context(), "web-1")).State,
				"shop":  must[windsock.Deployment](t)(s.Deployment(t.Context(), "shop")).State,
			} {
				word := windsock.Heard(state)
				said := slices.DeleteFunc(heard(t, s, id, 0), func(w string) bool { return w[0] == '[' })
				if word != "" && (len(said) == 0 || said[len(said)-1] != string(word[:4])) {
					t.Errorf("%s is %s, but monitors heard %q", id, state, said)
				}
			}
			if i := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1")); i.Held || i.Unstable {
				t.Errorf("it is %+v", i)
			}
		})
	}
}

func TestMaintenance(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		flapping(t, s)
		record(t, s, instanceSaid("web-1", "m", windsock.Running))
		maintain := func(until time.Time) {
			t.Helper()
			must[windsock.Deployment](t)(s.PatchDeployment(t.Context(), "shop", windsock.Cond{}, func(d *windsock.DeploymentSpec) error {
				d.MaintenanceUntil = until
				return nil
			}))
		}
		maintain(s.now().Add(time.Hour))
		after := s.Head()
		record(t, s, instanceSaid("web-1", "m", windsock.Stopped))
		record(t, s, instanceSaid("web-1", "m", windsock.Failed))
		if got := heard(t, s, "web-1", after); !slices.Equal(got, []string{"[STOP]", "[FAIL]"}) {
			t.Errorf("heard %q", got)
		}
		maintain(s.now().Add(2 * time.Hour))
		after = s.Head()
		tick(t, s, c, 90*time.Minute)
		if got := heard(t, s, "web-1", after); len(got) > 0 {
			t.Errorf("heard %q, though it was prolonged", got)
		}
		tick(t, s, c, 31*time.Minute)
		for _, id := range []string{"web-1", "shop"} {
			if got := heard(t, s, id, after); !slices.Equal(got, []string{"FAIL"}) {
				t.Errorf("of %s heard %q at the end", id, got)
			}
		}
		maintain(s.now().Add(time.Hour))
		record(t, s, instanceSaid("web-1", "m", windsock.Running))
		after = s.Head()
		maintain(time.Time{})
		for _, id := range []string{"web-1", "shop"} {
			if got := heard(t, s, id, after); !slices.Equal(got, []string{"STAR"}) {
				t.Errorf("of %s heard %q when it was ended early", id, got)
			}
		}
	})
}

// One of which nothing happened is not told of when its maintenance ends.
func TestAMaintenanceInWhichNothingHappensIsSilent(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		flapping(t, s)
		record(t, s, instanceSaid("web-1", "m", windsock.Running))
		must[windsock.Deployment](t)(s.PatchDeployment(t.Context(), "shop", windsock.Cond{}, func(d *windsock.DeploymentSpec) error {
			d.MaintenanceUntil = s.now().Add(time.Hour)
			return nil
		}))
		after := s.Head()
		tick(t, s, c, 2*time.Hour)
		if s.Head() != after {
			t.Errorf("logged %+v", must[[]windsock.Event](t)(s.Events(t.Context(), after, 10, windsock.EventFilter{})))
		}
	})
}
