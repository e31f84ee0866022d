package software

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	kills = flag.Int("kills", 100, "how often the agents, windsock or all are killed")
	seed  = flag.Uint64("seed", 0, "of the graphs and of when what is killed; 0: another one each time")
)

// Whatever is killed at whatever step: the effect of each of twenty components is there at
// least once, each is complete, and the deployment runs. A result that was signalled is
// not made again.
func TestKills(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	s := newSite(t)
	killed := 0
	for round := 0; killed < *kills; round++ {
		id := fmt.Sprint("graph", round)
		servers := []string{"a", "b"}
		parents := randomGraph(random, 20)
		s.deploy(t, id, graph(parents, servers), nil, m{"effects": filepath.Join(s.dir, id)}, servers...)
		if err := os.Mkdir(filepath.Join(s.dir, id), 0o700); err != nil {
			t.Fatal(err)
		}
		s.boot(t, id, servers...)
		for deadline := time.Now().Add(time.Minute); killed < *kills && !s.is(t, id, "running"); killed++ {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not come to an end", id)
			}
			<-time.After(time.Duration(random.IntN(300)) * time.Millisecond)
			victims := 1 + random.IntN(7) // bits: windsock, agent a, agent b
			s.kill(t, victims, instance(id, "a"), instance(id, "b"))
		}
		s.await(t, id, "running")
		for i := range parents {
			name := fmt.Sprint("c", i)
			if c := s.components(t, id)[name]; c.State != "complete" {
				t.Errorf("round %d: %s is %s: %s", round, name, c.State, c.Reason)
			}
			effects := lines(t, filepath.Join(s.dir, id, name))
			if len(effects) == 0 {
				t.Errorf("round %d: %s is complete and has done nothing", round, name)
			}
			for _, p := range parents[i] { // they were there before
				if !strings.Contains(effects[0], fmt.Sprintf("<c%d>", p)) {
					t.Errorf("round %d: %s ran as %q, want what c%d made in it", round, name, effects[0], p)
				}
			}
		}
		for _, server := range servers {
			s.agents[instance(id, server)].Kill()
		}
	}
	t.Logf("%d kills", killed)
}

// kill kills windsock (1), the agent of one (2) and of another (4), and starts them again.
func (s *site) kill(t *testing.T, victims int, a, b string) {
	if victims&1 != 0 {
		s.Signal(os.Kill)
	}
	for bit, id := range map[int]string{2: a, 4: b} {
		if victims&bit != 0 {
			s.agents[id].Kill()
		}
	}
	if victims&1 != 0 {
		s.Kill()
		s.restart(t)
	}
	for bit, id := range map[int]string{2: a, 4: b} {
		if victims&bit != 0 {
			s.startAgent(t, id)
		}
	}
}

func (s *site) is(t *testing.T, deployment, state string) bool {
	var d struct {
		State string `json:"observed_state"`
	}
	s.Must(t, "GET", "/api/deployments/"+deployment, nil, &d, 200)
	return d.State == state
}

// randomGraph has the parents of each of n components, up to three of those before it.
func randomGraph(random *rand.Rand, n int) [][]int {
	parents := make([][]int, n)
	for i := 1; i < n; i++ {
		parents[i] = random.Perm(i)[:min(i, random.IntN(4))]
	}
	return parents
}

// graph is a template of such components. What one does is to note what it was given.
func graph(parents [][]int, servers []string) string {
	resources := m{}
	for _, server := range servers {
		resources[server] = m{"type": "OS::Nova::Server"}
	}
	resources["node"] = m{"type": "OS::Heat::SoftwareConfig", "properties": m{
		"group":   "script",
		"inputs":  []m{{"name": "effects"}, {"name": "own"}, {"name": "given", "default": ""}},
		"outputs": []m{{"name": "made"}},
		"config":  "#!/bin/sh\nset -e\nsleep 0.05\necho \"given $given\" >> \"$effects/$own\"\nprintf '<%s>' \"$own\" > \"$heat_outputs_path.made\"\n",
	}}
	for i := range parents {
		given := []any{}
		for _, p := range parents[i] {
			given = append(given, m{"get_attr": []string{fmt.Sprint("c", p), "made"}})
		}
		resources[fmt.Sprint("c", i)] = m{"type": "OS::Heat::SoftwareDeployment", "properties": m{
			"config": m{"get_resource": "node"}, "server": m{"get_resource": servers[i%len(servers)]},
			"input_values": m{"effects": m{"get_param": "effects"}, "own": fmt.Sprint("c", i), "given": m{"list_join": []any{"", given}}},
		}}
	}
	template, _ := json.Marshal(m{"heat_template_version": "2015-10-15", "parameters": m{"effects": m{"type": "string"}}, "resources": resources})
	return string(template)
}
