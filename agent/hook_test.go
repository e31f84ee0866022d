package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hooked has hooks in a folder of the test.
func hooked(t *testing.T, programs map[string]string) *hooks {
	h := &hooks{dir: filepath.Join(t.TempDir(), "hooks"), state: t.TempDir(), grace: 200 * time.Millisecond}
	for name, text := range programs {
		put(t, filepath.Join(h.dir, name), text, 0o755)
	}
	return h
}

// plainly has numbers as text, as tests write them.
func (r result) plainly(t *testing.T) map[string]any {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}

func TestResults(t *testing.T) {
	t.Parallel()
	heat := func(stdout, stderr string, status float64) map[string]any {
		return map[string]any{"deploy_stdout": stdout, "deploy_stderr": stderr, "deploy_status_code": status}
	}
	with := func(r map[string]any, key string, value any) map[string]any {
		r[key] = value
		return r
	}
	because := func(r map[string]any, reason string) map[string]any {
		return with(r, reasonKey, "windsock agent: "+reason)
	}
	inputs := []job{
		{"name": "text", "type": "String", "value": "a b"}, {"name": "number", "value": 9007199254740993}, {"name": "yes", "value": true},
		{"name": "list", "value": []any{"x", 1}}, {"name": "map", "value": job{"k": "v"}}, {"name": "none", "value": nil}, {"name": "missing"},
	}
	outputs := []job{{"name": "address"}, {"name": "never"}}
	for name, tc := range map[string]struct {
		hooks map[string]string
		job   job
		want  map[string]any
	}{
		"script: what it prints":                   {nil, script("a", "#!/bin/sh\necho out; echo err >&2"), heat("out\n", "err\n", 0)},
		"script: its exit status":                  {nil, script("a", "#!/bin/sh\nexit 3"), heat("", "", 3)},
		"script: the signal that ended it":         {nil, script("a", "#!/bin/sh\nkill -KILL $$"), heat("", "", 137)},
		"script: without #!":                       {nil, script("a", "echo $((1+1))"), heat("2\n", "", 0)},
		"script: nothing to do":                    {nil, script("a", ""), heat("", "", 0)},
		"script: not UTF-8":                        {nil, script("a", `printf 'a\377b'`), heat("a\uFFFDb", "", 0)},
		"script: inputs are variables":             {nil, script("a", `echo "$text|$number|$yes|$list|$map|$none|$missing"`, job{"inputs": inputs}), heat(`a b|9007199254740993|true|["x", 1]|{"k": "v"}||`+"\n", "", 0)},
		"script: outputs are files":                {nil, script("a", `printf 10.0.0.7 >$heat_outputs_path.address; echo no >$heat_outputs_path.other`, job{"outputs": outputs}), with(heat("", "", 0), "address", "10.0.0.7")},
		"script: no stdin":                         {nil, script("a", "cat"), heat("", "", 0)},
		"script: in a folder of its own":           {nil, script("a", "ls; stat -c %a ."), heat("script\n700\n", "", 0)},
		"script: a config that is no text":         {nil, script("a", "", job{"config": job{"a": 1}}), because(heat("", "", 1), "its config has to be a text for the hook \"script\"")},
		"script: an input that is no variable":     {nil, script("a", "", job{"inputs": []job{{"name": "a=b"}}}), because(heat("", "", 1), "the input \"a=b\" cannot be an environment variable")},
		"script: an output that is no file":        {nil, script("a", "echo 1", job{"outputs": []job{{"name": "a/b"}}}), because(heat("1\n", "", 1), "the output \"a/b\" cannot be the name of a file")},
		"script: a daemon it leaves keeps nothing": {nil, script("a", "echo 1; setsid sleep 1.5 & echo 2"), heat("1\n2\n", "", 0)},

		"hook: what it says as JSON":                 {map[string]string{"mine": "#!/bin/sh\necho '{\"x\": [1], \"deploy_status_code\": 0}'"}, script("a", "", job{"group": "mine"}), map[string]any{"x": []any{1.0}, "deploy_status_code": 0.0}},
		"hook: it is given the task":                 {map[string]string{"mine": "#!/bin/sh\ncat"}, script("a", "", job{"group": "mine", "deadline_at": "2100-01-01T00:00:00Z"}), nil},
		"hook: no JSON":                              {map[string]string{"mine": "#!/bin/sh\necho done; echo w >&2"}, script("a", "", job{"group": "mine"}), heat("done\n", "w\n", 0)},
		"hook: more than JSON":                       {map[string]string{"mine": "#!/bin/sh\necho '{} {}'"}, script("a", "", job{"group": "mine"}), heat("{} {}\n", "", 0)},
		"hook: JSON, but no object":                  {map[string]string{"mine": "#!/bin/sh\necho null"}, script("a", "", job{"group": "mine"}), heat("null\n", "", 0)},
		"hook: nothing":                              {map[string]string{"mine": "#!/bin/sh\n"}, script("a", "", job{"group": "mine"}), heat("", "", 0)},
		"hook: no JSON, and an exit status":          {map[string]string{"mine": "#!/bin/sh\necho oops; exit 7"}, script("a", "", job{"group": "mine"}), heat("oops\n", "", 7)},
		"hook: JSON, and an exit status":             {map[string]string{"mine": "#!/bin/sh\necho '{\"why\": \"disk\", \"deploy_status_code\": 0}'; exit 7"}, script("a", "", job{"group": "mine"}), with(heat("{\"why\": \"disk\", \"deploy_status_code\": 0}\n", "", 7), "why", "disk")},
		"hook: takes the place of one that is ours":  {map[string]string{"script": "#!/bin/sh\necho mine"}, script("a", "echo ours"), heat("mine\n", "", 0)},
		"hook: is missing":                           {nil, script("a", "", job{"group": "puppet"}), because(heat("", "", 1), "there is no hook for group \"puppet\" in DIR")},
		"hook: leads out of the folder":              {nil, script("a", "", job{"group": "../script"}), because(heat("", "", 1), "\"../script\" cannot be the name of a hook")},
		"hook: cannot be started":                    {map[string]string{"mine": "#!/nowhere"}, script("a", "", job{"group": "mine"}), because(heat("", "", 126), "fork/exec DIR/mine: no such file or directory")},
		"hook: was too late before it began":         {nil, script("a", "", job{"deadline_at": time.Now().Add(-time.Hour)}), because(heat("", "", 126), "killed at its deadline")},
		"bootstrap: fails":                           {map[string]string{"script.bootstrap": "#!/bin/sh\necho get; echo no mirror >&2; exit 5"}, script("a", "echo 1"), because(heat("get\n", "no mirror\n", 5), "bootstrap of the hook \"script\": exit status 5")},
		"bootstrap: goes before":                     {map[string]string{"script.bootstrap": "#!/bin/sh\necho ready >$(dirname $0)/ready"}, script("a", "cat HOOKS/ready"), heat("ready\n", "", 0)},
		"bootstrap: may be all there is of the hook": {map[string]string{"puppet.bootstrap": "#!/bin/sh\nprintf '#!/bin/sh\\necho 1' >$(dirname $0)/puppet; chmod 755 $(dirname $0)/puppet"}, script("a", "", job{"group": "puppet"}), heat("1\n", "", 0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hooked(t, tc.hooks)
			tc.job["config"] = replaced(tc.job["config"], "HOOKS", h.dir)
			task := tc.job.parsed(t)
			if tc.want == nil {
				tc.want = with(parseResult(task.raw).plainly(t), statusKey, 0.0)
			}
			got, err := h.run(t.Context(), task)
			if err != nil {
				t.Fatal(err)
			}
			if said, ok := got[reasonKey].(string); ok {
				got[reasonKey] = strings.ReplaceAll(said, h.dir, "DIR")
			}
			if diff := cmp.Diff(tc.want, got.plainly(t)); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", task.raw, diff)
			}
			if left, _ := os.ReadDir(filepath.Join(h.state, "run")); len(left) > 0 {
				t.Errorf("%s is left", left[0].Name())
			}
		})
	}
}

func replaced(config any, from, to string) any {
	if text, ok := config.(string); ok {
		return strings.ReplaceAll(text, from, to)
	}
	return config
}

// A hook that is there but not executable is no reason to use another.
func TestHookNotExecutable(t *testing.T) {
	t.Parallel()
	h := hooked(t, nil)
	put(t, filepath.Join(h.dir, "script"), "echo 1", 0o644)
	r, err := h.run(t.Context(), script("a", "echo 2").parsed(t))
	if said, _ := r[reasonKey].(string); err != nil || !strings.Contains(said, "is not executable") {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestBootstrapRunsOncePerVersion(t *testing.T) {
	t.Parallel()
	h := hooked(t, map[string]string{"script.bootstrap": "#!/bin/sh\necho one >>$(dirname $0)/log"})
	for range 2 {
		if _, err := h.run(t.Context(), script("a", "").parsed(t)); err != nil {
			t.Fatal(err)
		}
	}
	again := &hooks{dir: h.dir, state: h.state, grace: h.grace} // after a restart
	put(t, filepath.Join(h.dir, "script.bootstrap"), "#!/bin/sh\necho two >>$(dirname $0)/log; test -e $(dirname $0)/mend", 0o755)
	for range 2 {
		r, err := again.run(t.Context(), script("a", "").parsed(t))
		if err != nil || r[statusKey] != 1 {
			t.Errorf("got %v, %v of one that fails", r, err)
		}
	}
	put(t, filepath.Join(h.dir, "mend"), "", 0o644)
	for range 2 {
		if _, err := again.run(t.Context(), script("a", "").parsed(t)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"one", "two", "two", "two"}, lines(t, filepath.Join(h.dir, "log"))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// All that a hook has started is killed with it, at once what heeds SIGTERM, later what
// does not.
func TestKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"they heed SIGTERM":    "sleep 1000 & echo $$ $! >PIPE; wait",
		"they ignore SIGTERM":  "trap '' TERM; sh -c 'sleep 1000; sleep 1000' & echo $$ $! >PIPE; while :; do sleep 1000; done",
		"only a child ignores": "(trap '' TERM; exec sleep 1000) & echo $$ $! >PIPE; wait",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hooked(t, nil)
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := h.run(ctx, script("killed-"+name, strings.ReplaceAll(config, "PIPE", pipe)).parsed(t))
				ended <- err
			}()
			pids := lines(t, pipe) // once it says so
			if len(pids) != 2 {
				t.Fatalf("it says %q", pids)
			}
			cancel(errGone)
			if err := <-ended; !errors.Is(err, errGone) {
				t.Errorf("got %v", err)
			}
			if !await(time.Minute, func() bool { return len(orphans("killed-"+name)) == 0 }) {
				t.Errorf("%v still run", orphans("killed-"+name))
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	h := hooked(t, nil)
	r, err := h.run(t.Context(), script("late", "echo begun; exec sleep 1000", job{"deadline_at": time.Now().Add(time.Second)}).parsed(t))
	if err != nil {
		t.Fatal(err)
	}
	if said := r[reasonKey]; said != "windsock agent: killed at its deadline" || r[statusKey] == 0 {
		t.Errorf("got %v", r)
	}
}

func TestCapture(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		writes []string
		want   string
	}{
		"nothing":               {nil, ""},
		"as much as there is":   {[]string{"abcd", "efgh"}, "abcdefgh"},
		"one more":              {[]string{"abcd", "efghi"}, "abcd\n[… 1 bytes are left out …]\nfghi"},
		"many bit by bit":       {strings.Split("abcdefghijklmnopqrstuvwxyz", ""), "abcd\n[… 18 bytes are left out …]\nwxyz"},
		"all at once":           {[]string{"abcdefghijklmnopqrstuvwxyz"}, "abcd\n[… 18 bytes are left out …]\nwxyz"},
		"cut within characters": {[]string{"aaaä", "bbbbbb", "äaaa"}, "aaa\uFFFD\n[… 8 bytes are left out …]\n\uFFFDaaa"},
	} {
		c := &capture{half: 4}
		for _, w := range tc.writes {
			c.Write([]byte(w))
		}
		if got := c.String(); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// What a script prints without end is bounded.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	r, err := hooked(t, nil).run(t.Context(), script("a", "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last").parsed(t))
	said, _ := r[stdoutKey].(string)
	if err != nil || len(said) > maxStream+100 || !strings.HasPrefix(said, "first\n") || !strings.HasSuffix(said, "x\nlast\n") || !strings.Contains(said, "bytes are left out") {
		t.Errorf("%v: got %d bytes, %.20q…%q", err, len(said), said, said[max(0, len(said)-20):])
	}
}

// The inputs and outputs of Heat's own hook, as they were recorded, are those of ours.
func TestScriptAsHeat(t *testing.T) {
	t.Parallel()
	recorded := func(t *testing.T, dir string) {
		given, _ := filepath.Glob(filepath.Join(dir, "*.stdin.json"))
		if len(given) == 0 {
			t.Skipf("nothing recorded is in %s", dir)
		}
		for _, file := range given {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(strings.Replace(file, ".stdin.", ".stdout.", 1))
			if err != nil {
				t.Fatal(err)
			}
			task, err := parseTask(in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := hooked(t, nil).run(t.Context(), task)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parseResult(want).plainly(t), got.plainly(t)); diff != "" {
				t.Errorf("%s: (-recorded +ours)\n%s", file, diff)
			}
		}
	}
	t.Run("ours", func(t *testing.T) { recorded(t, "testdata/heat-hooks") })
	t.Run("shared", func(t *testing.T) { recorded(t, "../../shared/fixtures/heat-hooks") })
}

const playbook = `
- hosts: all
  gather_facts: false
  tasks:
    - name: configure
      copy:
        dest: "{{ heat_outputs_path }}.address"
        content: "{{ db_name }} of {{ replicas | join(',') }}"
    - name: not asked for
      tags: never
      fail: {}
`

func TestAnsible(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ansible-playbook"); err != nil {
		t.Skip("ansible is not installed")
	}
	inputs := []job{{"name": "db_name", "value": "shop"}, {"name": "replicas", "value": []string{"a", "b"}}}
	more := job{"group": "ansible", "inputs": inputs, "outputs": []job{{"name": "address"}}}
	h := hooked(t, nil)
	r, err := h.run(t.Context(), script("a", playbook, more).parsed(t))
	if said, _ := r[stdoutKey].(string); err != nil || r[statusKey] != 0 || r["address"] != "shop of a,b" || !strings.Contains(said, "failed=0") {
		t.Errorf("a playbook: got %v, %v", r, err)
	}
	r, err = h.run(t.Context(), script("b", playbook, more, job{"options": job{"tags": "never"}}).parsed(t))
	if said, _ := r[stdoutKey].(string); err != nil || r[statusKey] == 0 || !strings.Contains(said, "failed=1") {
		t.Errorf("one that fails: got %v, %v", r, err)
	}
	var structure any = []job{{"hosts": "all", "gather_facts": false, "tasks": []job{{"debug": job{"msg": "{{ db_name }}"}}}}}
	r, err = h.run(t.Context(), script("c", "", more, job{"config": structure}).parsed(t))
	if said, _ := r[stdoutKey].(string); err != nil || r[statusKey] != 0 || !strings.Contains(said, `"msg": "shop"`) {
		t.Errorf("one that is a structure: got %v, %v", r, err)
	}
}

func TestAnsibleIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r, err := hooked(t, nil).run(t.Context(), script("a", playbook, job{"group": "ansible"}).parsed(t))
	if said, _ := r[reasonKey].(string); err != nil || !strings.HasPrefix(said, "windsock agent: missing tool: ") || r[statusKey] != 1 {
		t.Errorf("got %v, %v", r, err)
	}
}
