package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

// hearings are random signals to what may be signalled in a site, some of which are too
// late or are to nobody.
func (s *site) hearings(r *rand.Rand, tokens []windsock.Secret) (ops []*op) {
	for range 12 {
		sig := []windsock.Signal{success("ip=10.0.0.1"), success(), failure, {Status: windsock.SignalStarted}}[r.IntN(4)]
		h := must[*hearing](s.T)(s.hearing(tokens[r.IntN(len(tokens))], sig))
		if r.IntN(6) == 0 {
			h.uid = uid()
		}
		ops = append(ops, &op{ctx: s.Context(), now: s.now(), said: h, turn: make(chan bool, 1)})
	}
	return ops
}

func TestSignalsTogetherAreAsOneAfterTheOther(t *testing.T) {
	eachDB(t, signalsTogetherAreAsOneAfterTheOther)
}

func signalsTogetherAreAsOneAfterTheOther(t *testing.T, fresh maker) {
	nodes := []node{
		{Name: "a", On: "s1"},
		{Name: "b", On: "s1", Retries: 2},
		{Name: "c", On: "s2", Outputs: []windsock.Output{{Name: "ip"}}},
		{Name: "d", On: "s2", After: []string{"a", "b"}},
		{Name: "e", On: "s1", Gets: map[string]string{"IP": "c.ip"}, Silent: true},
		{Name: "w", Handle: "h", After: []string{"c"}, Signals: 2},
		{Name: "x", On: "s1", After: []string{"w"}},
	}
	play := func(t *testing.T, seed uint64, together bool) (said []string) {
		s := newSite(t, fresh)
		s.deploy(nodes)
		s.runs("s1", "s2")
		r := rand.New(rand.NewPCG(seed, 0))
		for range 4 {
			var rows []component
			if err := s.read.Select(&rows, `SELECT `+componentColumns+` FROM components WHERE run > 0 OR handle <> '' ORDER BY id`); err != nil {
				t.Fatal(err)
			}
			var tokens []windsock.Secret
			for i := range rows {
				tokens = append(tokens, windsock.Secret(s.signalToken(&rows[i])))
			}
			ops := s.hearings(r, tokens)
			if together {
				s.commit(ops)
			} else {
				for i := range ops {
					s.commit(ops[i : i+1])
				}
			}
			for _, o := range ops {
				said = append(said, fmt.Sprint(o.said.out, o.said.late, o.said.ID, o.err))
			}
			s.consistent()
			said = append(said, strings.Join(s.states(), " "))
		}
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), 0, 1000, windsock.EventFilter{})) {
			said = append(said, fmt.Sprint(e.Seq, e.Type, e.SubjectID, e.State, e.Previous, e.Reason, e.Component))
		}
		return said
	}
	for seed := range uint64(25) {
		if diff := cmp.Diff(play(t, seed, false), play(t, seed, true)); diff != "" {
			t.Fatalf("seed %d: one after the other (-) and together (+):\n%s", seed, diff)
		}
	}
}

func TestASignalThatCannotBeKeptFailsAlone(t *testing.T) {
	s := newSite(t, freshFile)
	s.deploy([]node{{Name: "a", On: "s1"}, {Name: "b", On: "s1"}, {Name: "c", On: "s1"}})
	s.runs("s1")
	if _, err := s.write.Exec(`CREATE TRIGGER no BEFORE INSERT ON component_signals WHEN NEW.reason = 'no' BEGIN SELECT raise(ABORT, 'no'); END`); err != nil {
		t.Fatal(err)
	}
	var ops []*op
	for _, name := range []string{"a", "b", "c"} {
		sig := success()
		if name == "b" {
			sig.Reason = "no"
		}
		h := must[*hearing](t)(s.hearing(tokenOf(s.task("s1", name).SignalURL), sig))
		ops = append(ops, &op{ctx: t.Context(), now: s.now(), said: h})
	}
	s.commit(ops)
	if errs := []error{ops[0].err, ops[1].err, ops[2].err}; errs[0] != nil || errs[1] == nil || errors.Is(errs[1], windsock.ErrNotFound) || errs[2] != nil {
		t.Errorf("a, b and c: %v", errs)
	}
	s.consistent()
	s.want("a:complete b:available c:complete")
}
