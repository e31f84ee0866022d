package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"windsock"
)

// machine is a node as the provider east shows it.
func machine(host string, state windsock.State) []windsock.Observation {
	d, i := windsock.Node(host, "", state, "up", "")
	return []windsock.Observation{
		shown(windsock.KindDeployment, d.ID, d.State, d.Description),
		shown(windsock.KindInstance, i.ID, i.State, i.Description),
	}
}

// placed is a deployment that the provider shows on nodes.
func placed(id string, on ...string) windsock.Observation {
	return shown(windsock.KindDeployment, id, "", windsock.Description{Name: id, RunsOn: on})
}

// guest is an instance on a host.
func guest(id, deployment, host string) windsock.Observation {
	return shown(windsock.KindInstance, id, windsock.Running, windsock.Description{Deployment: deployment, Metadata: map[string]string{"host": host}})
}

// newCloud is a rack whose shop of two runs on kvm-1, as its provider shows, and whose till
// runs on kvm-2; both run since an hour ago, as somebody else says of the machines.
func newCloud(t *testing.T, s *Store, c *clock) *rack {
	all := slices.Concat(machine("kvm-1", windsock.Running), machine("kvm-2", windsock.Running), []windsock.Observation{
		placed("shop", "node:kvm-1"), placed("till", "node:kvm-2"),
		guest("web-1", "shop", "kvm-1"), guest("web-2", "shop", "kvm-1"), guest("till-1", "till", "kvm-2"),
	})
	for _, out := range record(t, s, all...) {
		if out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	record(t, s, instanceSaid("node:kvm-1", "ping", windsock.Running), instanceSaid("node:kvm-2", "ping", windsock.Running))
	r := &rack{Store: s, t: t, c: c}
	r.pass(time.Hour)
	r.after = s.Head()
	return r
}

// lose has somebody report a host as Pacemaker does: by its name alone.
func (r *rack) lose(host string, state windsock.State) {
	r.t.Helper()
	ids := must[[][]string](r.t)(r.Find(r.t.Context(), []windsock.Lookup{{Kind: windsock.KindInstance, By: windsock.ByMetadata("host"), Value: host}}))[0]
	var said []windsock.Observation
	for _, id := range ids {
		o := instanceSaid(id, "pacemaker", state)
		o.Lifts = state == windsock.Running
		said = append(said, o)
	}
	record(r.t, r.Store, said...)
}

func (r *rack) deployment(id string) windsock.Deployment {
	r.t.Helper()
	return must[windsock.Deployment](r.t)(r.Deployment(r.t.Context(), id))
}

// A host is lost and comes back; of what is on it, one guest does not.
func TestAHostIsTheOneAlarmOfItsGuests(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newCloud(t, s, c)
		r.lose("kvm-1", windsock.Failed)
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), r.after, 20, windsock.EventFilter{})) {
			if e.SubjectID == "node:kvm-1" && e.Kind == windsock.KindDeployment && !slices.Equal(e.Affected, []string{"shop"}) {
				t.Errorf("the host names %q as affected", e.Affected)
			}
		}
		r.told("node:kvm-1 FAIL", "node:kvm-1 FAIL") // instance and deployment
		r.pass(time.Hour)
		r.told()
		if d := r.deployment("shop"); d.HeldBy != "depends on node:kvm-1, which is failed" || !slices.Equal(d.RunsOn, []string{"node:kvm-1"}) || len(d.DependsOn) > 0 {
			t.Errorf("the shop is %+v", d)
		}
		r.say(windsock.Failed, "web-1") // by another monitor
		r.lose("kvm-1", windsock.Running)
		r.told("node:kvm-1 START", "node:kvm-1 START")
		r.pass(31 * time.Second)
		r.told("web-1 FAIL", "shop FAIL")
	})
}

func TestGuestsThatMigrateDependOnTheirNewHost(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newCloud(t, s, c)
		r.lose("kvm-1", windsock.Failed)
		r.told("node:kvm-1 FAIL", "node:kvm-1 FAIL")
		record(t, s, placed("shop", "node:kvm-2"), guest("web-1", "shop", "kvm-2"), guest("web-2", "shop", "kvm-2"))
		r.pass(time.Minute)
		r.told("web-1 FAIL", "web-2 FAIL", "shop FAIL")
		if d := r.deployment("shop"); !slices.Equal(d.RunsOn, []string{"node:kvm-2"}) {
			t.Errorf("it runs on %q", d.RunsOn)
		}
		r.lose("kvm-2", windsock.Failed)
		r.told("node:kvm-2 FAIL", "node:kvm-2 FAIL")
	})
}

// What its provider itself shows to fail is told at once, as the host was there to tell.
func TestAProviderThatShowsAFailureKnowsTheHost(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newCloud(t, s, c)
		record(t, s, seen("web-1", windsock.Failed))
		r.told("web-1 FAIL", "shop FAIL")
		r.say(windsock.Failed, "till-1") // by a monitor: the host may be why
		r.told()
		r.pass(31 * time.Second)
		r.told("till-1 FAIL", "till FAIL")
		record(t, s, seen("web-1", windsock.Running))
		r.told("web-1 START", "shop START")
		r.lose("kvm-1", windsock.Failed)
		r.told("node:kvm-1 FAIL", "node:kvm-1 FAIL")
		record(t, s, seen("web-1", windsock.Failed)) // the last that it saw
		r.pass(time.Hour)
		r.told()
	})
}

// What fails when a provider is seen for the first time is told at once: that its host was not
// known before says nothing.
func TestAHostThatIsNewIsNotToBlame(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := &rack{Store: s, t: t, c: c}
		dead := guest("web-1", "shop", "kvm-1")
		dead.State = windsock.Failed
		record(t, s, append(machine("kvm-1", windsock.Running), placed("shop", "node:kvm-1"), dead, guest("web-2", "shop", "kvm-1"))...)
		r.told("node:kvm-1 START", "web-1 FAIL", "web-2 START", "node:kvm-1 START", "shop FAIL")
		record(t, s, seen("web-1", windsock.Running))
		r.told("web-1 START", "shop START")
		r.pass(time.Second)
		record(t, s, seen("web-2", windsock.Failed))
		r.told("web-2 FAIL", "shop FAIL")
	})
}

// A host that only its provider lists is not waited for, until somebody says how it is.
func TestAHostThatNobodyWatchesIsNotWaitedFor(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newCloud(t, s, c)
		if err := s.ClearEvidence(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: "node:kvm-1"}, "ping"); err != nil {
			t.Fatal(err)
		}
		r.say(windsock.Failed, "web-1")
		r.told("web-1 FAIL", "shop FAIL")
		r.say(windsock.Running, "web-1")
		r.told("web-1 START", "shop START")
		r.pass(time.Hour)
		r.lose("kvm-1", windsock.Failed) // nor was it watched before, and yet this is one alarm
		r.told("node:kvm-1 FAIL", "node:kvm-1 FAIL")
		r.lose("kvm-1", windsock.Running)
		r.pass(time.Hour)
		r.told("node:kvm-1 START", "node:kvm-1 START")
		r.say(windsock.Failed, "web-1")
		r.told()
		r.pass(31 * time.Second)
		r.told("web-1 FAIL", "shop FAIL")
	})
}

// An owner's word stays what it is, and goes before a provider's.
func TestWhatTheOwnerHasDependStays(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newCloud(t, s, c)
		dependencies := func(id string) (parents []string) {
			s.read.Select(&parents, s.read.Rebind(`SELECT parent FROM dependencies WHERE child = ? ORDER BY parent`), id)
			return parents
		}
		depend(t, s, "shop", "till")
		for name, said := range map[string]struct {
			shown windsock.Observation
			want  []string // on which it runs
		}{
			"it moves":            {placed("shop", "node:kvm-2"), []string{"node:kvm-2"}},
			"that cannot be told": {shown(windsock.KindDeployment, "shop", "", windsock.Description{Name: "renamed"}), []string{"node:kvm-2"}},
		} {
			record(t, s, placed("shop", "node:kvm-2"))
			record(t, s, said.shown)
			if d := r.deployment("shop"); !slices.Equal(d.DependsOn, []string{"till"}) || !slices.Equal(d.RunsOn, said.want) || !slices.Equal(dependencies("shop"), append(said.want, "till")) {
				t.Errorf("%s: it depends on %q and runs on %q, in all %q", name, d.DependsOn, d.RunsOn, dependencies("shop"))
			}
		}
		record(t, s, shown(windsock.KindDeployment, "shop", "", windsock.Description{Name: "shop", RunsOn: []string{}}))
		if got := dependencies("shop"); !slices.Equal(got, []string{"till"}) {
			t.Errorf("on several hosts it depends on %q", got)
		}

		depend(t, s, "node:kvm-1", "shop") // whose machine it manages
		if out := record(t, s, placed("shop", "node:kvm-1", "node:kvm-2")); out[0].Err != nil || !slices.Equal(dependencies("shop"), []string{"node:kvm-2", "till"}) {
			t.Errorf("in a circle: %v, it depends on %q", out[0].Err, dependencies("shop"))
		}

		if err := s.DeleteDeployment(t.Context(), "node:kvm-2", windsock.Cond{}); err != nil {
			t.Fatal(err)
		}
		if d := r.deployment("shop"); len(d.RunsOn) > 0 || !slices.Equal(dependencies("shop"), []string{"till"}) {
			t.Errorf("without the host it runs on %q, depends on %q", d.RunsOn, dependencies("shop"))
		}
	})
}

// A file is read again, and says nothing of hosts.
func TestAFileLeavesWhatRunsWhere(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		r := newCloud(t, s, c)
		file := []windsock.DeploymentSpec{{ID: "db"}, {ID: "shop", Provider: "east", ProviderID: "shop", DependsOn: []string{"db"}}}
		for range 2 {
			if err := s.Declare(t.Context(), file, nil); err != nil {
				t.Fatal(err)
			}
			if d := r.deployment("shop"); !slices.Equal(d.RunsOn, []string{"node:kvm-1"}) || !slices.Equal(d.DependsOn, []string{"db"}) {
				t.Errorf("it runs on %q, depends on %q", d.RunsOn, d.DependsOn)
			}
		}
		r.lose("kvm-1", windsock.Failed)
		r.told("node:kvm-1 FAIL", "node:kvm-1 FAIL")
	})
}

// What was declared before there was a column for it is found by its host, too.
func TestInstancesAreFoundByTheHostTheyAreOn(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		newCloud(t, s, c)
		must[windsock.Instance](t)(s.PatchInstance(t.Context(), "web-1", windsock.Cond{}, func(i *windsock.InstanceSpec) error {
			i.Metadata = map[string]string{"host": "kvm-2"}
			return nil
		}))
		byHost := windsock.ByMetadata(windsock.HostKey)
		lookups := []windsock.Lookup{{Kind: windsock.KindInstance, By: byHost, Value: "kvm-1"}, {Kind: windsock.KindInstance, By: byHost, Value: "kvm-2"}}
		want := [][]string{{"node:kvm-1", "web-2"}, {"node:kvm-2", "till-1", "web-1"}}
		expect(t, "found", must[[][]string](t)(s.Find(t.Context(), lookups)), want)

		of := onSQLite
		if s.pg != nil {
			of = onPostgres
		}
		migration := must[[]byte](t)(migrations.ReadFile("migrations/" + string(of) + "/0029_hosts.sql"))
		_, fill, _ := strings.Cut(string(migration), "UPDATE")
		fill, _, _ = strings.Cut(fill, ";")
		for _, statement := range []string{`UPDATE instances SET host = ''`, `UPDATE` + fill} {
			if err := s.do(t.Context(), func(tx *tx) error { tx.exec(statement); return tx.err }); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, "found", must[[][]string](t)(s.Find(t.Context(), lookups)), want)
	})
}
