// Package readme runs what README.md and the guides in docs tell their readers to run, and
// compares what they would see.
package readme

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var bin string // the folder that windsock is built into

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "windsock-readme")
	if err != nil {
		panic(err)
	}
	bin = dir
	build := exec.Command("go", "build", "-tags", "sqlite_omit_load_extension osusergo netgo", "-o", filepath.Join(bin, "windsock"), "windsock/cmd/windsock")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	status := 1
	if err := build.Run(); err == nil {
		status = m.Run()
	}
	os.RemoveAll(bin)
	os.Exit(status)
}

// A step is a command and what is shown of its answer, where … is anything.
type step struct {
	line    int
	command string
	answer  string
}

// background is what is started and runs on.
var background = regexp.MustCompile(`^(windsock (serve|listen|agent)|python3|\./receiver) .*&$`)

// Each file is read from its beginning, in a folder of its own.
func TestWhatIsWrittenIsTrue(t *testing.T) {
	guides, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, path := range append(guides, "../../README.md") {
		name := path[len("../../"):]
		list := steps(read(t, name))
		commands += len(list)
		t.Run(filepath.Base(name), func(t *testing.T) { isTrue(t, name, list) })
	}
	if commands < 100 {
		t.Errorf("found only %d commands", commands)
	}
}

func isTrue(t *testing.T, name string, list []step) {
	text := read(t, name)
	if _, err := exec.LookPath("python3"); err != nil && strings.Contains(text, "python3") {
		t.Skip("there is no python3 here")
	}
	dir := t.TempDir()
	ports := strings.NewReplacer("8080", freePort(t), "9090", freePort(t), "9091", freePort(t), "9092", freePort(t))
	for name, text := range files(text) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var set []string // what the commands that set variables have set
	for _, s := range list {
		command := ports.Replace(s.command)
		if background.MatchString(s.command) {
			start(t, dir, strings.TrimSuffix(command, " &"), set)
			continue
		}
		variable, _, sets := strings.Cut(strings.TrimPrefix(command, "export "), "=$(")
		if sets = sets && !strings.Contains(variable, " "); sets {
			command += "; echo $" + variable
		}
		run := func() (string, error) {
			bash := exec.Command("bash", "-c", command)
			bash.Dir = dir
			bash.Env = append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")), set...)
			out, err := bash.CombinedOutput()
			return strings.TrimSpace(string(out)), err
		}
		want := pattern(ports.Replace(s.answer))
		got, err := run()
		for try := 0; try < 60 && strings.Contains(command, "--max-time 1 ") && !want.MatchString(got); try++ { // it was cut off too soon
			got, err = run()
		}
		if err != nil {
			t.Errorf("%s:%d: %s: %v\n%s", name, s.line, s.command, err, got)
			continue
		}
		if sets {
			set = append(set, variable+"="+got)
			continue
		}
		if !want.MatchString(got) {
			t.Errorf("%s:%d: %s\nanswers %s\nshown   %s", name, s.line, s.command, got, ports.Replace(s.answer))
		}
	}
}

// steps returns the commands of the console blocks.
func steps(text string) (list []step) {
	inside, more := false, false
	for n, line := range strings.Split(text, "\n") {
		switch command, isCommand := strings.CutPrefix(line, "$ "); {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case isCommand, more:
			if isCommand {
				list = append(list, step{line: n + 1})
			} else {
				command = " " + strings.TrimSpace(line)
			}
			command, more = strings.CutSuffix(command, `\`)
			list[len(list)-1].command += command
		default:
			list[len(list)-1].answer += line + "\n"
		}
	}
	return list
}

// pattern matches what the README shows, where … stands for anything.
func pattern(answer string) *regexp.Regexp {
	parts := strings.Split(strings.TrimSpace(answer), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, `.*`) + `$`)
}

// start runs a command until the test ends, and returns when its address answers.
func start(t *testing.T, dir, command string, set []string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", "exec "+command)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")), set...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(command)
	if addr == "" { // its last word is a port
		addr = "127.0.0.1:" + command[strings.LastIndex(command, " ")+1:]
	}
	for deadline := time.After(time.Minute); ; {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s does not answer at %s", command, addr)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// block is what is shown of a file.
var block = regexp.MustCompile("(?ms)^```(yaml|python|go|sh)\n(.*?)^```$")

// named is how a block begins that is a whole file: with its name, in a comment.
var named = regexp.MustCompile(`^(?:#!.*\n)?(?:#|//) (\S+\.(?:yaml|py|go|sh))\n`)

// files returns the files that are shown whole, by name.
func files(text string) map[string]string {
	list := map[string]string{}
	for _, b := range block.FindAllStringSubmatch(text, -1) {
		if name := named.FindStringSubmatch(b[2]); name != nil {
			list[name[1]] = b[2]
		}
	}
	return list
}

// What is shown of the configuration file are parts of one.
func TestConfigurationFile(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	text := ""
	for _, guide := range []string{"docs/operator.md", "docs/openstack.md"} {
		for _, b := range block.FindAllStringSubmatch(read(t, guide), -1) {
			if b[1] == "yaml" && !named.MatchString(b[2]) {
				text += b[2]
			}
		}
	}
	text = strings.NewReplacer("8080", port, "/var/lib/windsock", dir).Replace(text)
	if err := os.WriteFile(filepath.Join(dir, "windsock.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, dir, "windsock serve --config windsock.yaml --listen 127.0.0.1:"+port, nil)
	resp, err := http.Get("http://127.0.0.1:" + port + "/api/instances/web-1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "healthz") {
		t.Errorf("%s %s %v", resp.Status, body, err)
	}
}

// Every alert has a word in the operator's guide of what to do.
func TestAlertsAreExplained(t *testing.T) {
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(read(t, "deploy/prometheus/alerts.yaml"), -1)
	if len(alerts) < 10 {
		t.Fatalf("found only %d alerts", len(alerts))
	}
	guide := read(t, "docs/operator.md")
	for _, a := range alerts {
		if !strings.Contains(guide, "`"+a[1]+"`") {
			t.Errorf("docs/operator.md does not say what to do about %s", a[1])
		}
	}
}

// The make targets that the README names are there, and CI runs the two it begins with.
func TestMakeTargets(t *testing.T) {
	makefile, ci := read(t, "Makefile"), read(t, ".ci/run")
	names := regexp.MustCompile(`make ([a-z-]+)`).FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(names) < 3 {
		t.Fatalf("found only %v", names)
	}
	for _, m := range names {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:`).MatchString(makefile) {
			t.Errorf("README.md names make %s; the Makefile has no such target", m[1])
		}
	}
	for _, command := range []string{"make test", "make demo"} {
		if !strings.Contains(ci, command) {
			t.Errorf(".ci/run does not run %s", command)
		}
	}
}

// read returns a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
