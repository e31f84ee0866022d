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

// A step is a command and what is shown of its answer, where … is anything.
type step struct {
	line    int
	command string
	answer  string
}

var background = regexp.MustCompile(`^windsock (serve|listen) .*&$`)

// Each file is read from its beginning, in a folder of its own.
func TestWhatIsWrittenIsTrue(t *testing.T) {
	bin := t.TempDir()
	build(t, bin)
	guides, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(guides, "../../README.md") {
		name := filepath.Base(path)
		list := steps(read(t, path[len("../../"):]))
		if name == "README.md" && len(list) < 20 {
			t.Fatalf("found only %d commands", len(list))
		}
		t.Run(name, func(t *testing.T) { isTrue(t, bin, path[len("../../"):], list) })
	}
}

func isTrue(t *testing.T, bin, name string, list []step) {
	dir := t.TempDir()
	ports := strings.NewReplacer("8080", freePort(t), "9090", freePort(t))
	_, files := yamlBlocks(read(t, name))
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var set []string // what the commands that set variables have set
	for _, s := range list {
		command := ports.Replace(s.command)
		if background.MatchString(s.command) {
			start(t, bin, dir, strings.TrimSuffix(command, "&"))
			continue
		}
		variable, _, sets := strings.Cut(command, "=$(")
		if sets = sets && !strings.Contains(variable, " "); sets {
			command += "; echo $" + variable
		}
		bash := exec.Command("bash", "-c", command)
		bash.Dir = dir
		bash.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		bash.Env = append(bash.Env, set...)
		out, err := bash.CombinedOutput()
		got := strings.TrimSpace(string(out))
		if err != nil {
			t.Errorf("%s:%d: %s: %v\n%s", name, s.line, s.command, err, got)
			continue
		}
		if sets {
			set = append(set, variable+"="+got)
			continue
		}
		if want := ports.Replace(s.answer); !pattern(want).MatchString(got) {
			t.Errorf("%s:%d: %s\nanswers %s\nshown   %s", name, s.line, s.command, got, want)
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
func start(t *testing.T, bin, dir, command string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", "exec "+command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(command)
	for deadline := time.After(30 * time.Second); ; {
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

// yamlBlocks returns the parts of the configuration file, and the files whose name stands
// in their first line.
func yamlBlocks(readme string) (config string, files map[string]string) {
	files = map[string]string{}
	for _, block := range strings.Split(readme, "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if name := regexp.MustCompile(`^# (\S+\.yaml)\n`).FindStringSubmatch(block); name != nil {
			files[name[1]] = block
		} else {
			config += block
		}
	}
	return config, files
}

// The configuration files of the README are parts of one.
func TestConfigurationFile(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	build(t, dir)
	text, _ := yamlBlocks(read(t, "README.md"))
	text = strings.NewReplacer("8080", port, "/var/lib/windsock", dir).Replace(text)
	if err := os.WriteFile(filepath.Join(dir, "windsock.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, dir, dir, "windsock serve --config windsock.yaml --listen 127.0.0.1:"+port)
	resp, err := http.Get("http://127.0.0.1:" + port + "/api/instances/web-1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "healthz") {
		t.Errorf("%s %s %v", resp.Status, body, err)
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

// build builds windsock into dir.
func build(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-tags", "sqlite_omit_load_extension osusergo netgo", "-o", filepath.Join(dir, "windsock"), "windsock/cmd/windsock")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
