package windsock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// eachSeed asks for a property a thousand times, each time by another chance. A failure
// prints the seed; rand.New(rand.NewPCG(seed, 0)) gives the same case again.
func eachSeed(t *testing.T, property func(r *rand.Rand) error) {
	t.Helper()
	for seed := range uint64(1000) {
		if err := property(rand.New(rand.NewPCG(seed, 0))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// pick returns one of several.
func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func TestHeard(t *testing.T) {
	for next, want := range map[State]Word{
		Running:   StartDetected,
		Failed:    FailDetected,
		Degraded:  FailDetected,
		Stopped:   StopDetected,
		Suspended: StopDetected,
		Gone:      StopDetected,
		Starting:  "", // for the timeline only
		Stopping:  "",
		Unknown:   "",
	} {
		if got := Heard(next); got != want {
			t.Errorf("Heard(%s) = %q, want %q", next, got, want)
		}
	}
}

func TestWordSaysWhatIsHeard(t *testing.T) {
	for _, w := range Words {
		if got := Heard(w.State()); got != w {
			t.Errorf("%q says %q, of which one hears %q", w, w.State(), got)
		}
	}
	for _, w := range []Word{"", "all", "start detected", "START_DETECTED", "START DETECTED ", "BOOM DETECTED"} {
		if got := w.State(); got != "" {
			t.Errorf("%q is no word, but says %q", w, got)
		}
	}
}

func TestEveryStateBelongsToASubject(t *testing.T) {
	const instance, deployment = 1, 2
	subjects := map[State]int{}
	for _, s := range InstanceStates {
		subjects[s] |= instance
	}
	for _, s := range DeploymentStates {
		subjects[s] |= deployment
	}
	for _, s := range []State{Unknown, Starting, Running, Stopping, Stopped, Failed, Gone} {
		if subjects[s] != instance|deployment {
			t.Errorf("%s is not said of both, instances and deployments", s)
		}
	}
	if subjects[Suspended] != instance {
		t.Error("suspended is said of instances, and of them alone")
	}
	if subjects[Degraded] != deployment {
		t.Error("degraded is said of deployments, and of them alone")
	}
	if len(subjects) != 9 {
		t.Errorf("there are %d states, want 9: %v", len(subjects), subjects)
	}
}

func TestDown(t *testing.T) {
	for _, s := range InstanceStates {
		want := s == Failed || s == Stopped || s == Suspended || s == Gone
		if s.Down() != want {
			t.Errorf("%s counts against its deployment: %t, want %t", s, s.Down(), want)
		}
	}
}

const password = "whsec_hunter2"

// shown are all the ways by which a secret might get out.
func shown(t *testing.T, v any) map[string]string {
	t.Helper()
	texts := map[string]string{"error": fmt.Errorf("target %v: %w", v, ErrConflict).Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		texts[verb] = fmt.Sprintf(verb, v)
	}
	js, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	texts["JSON"] = string(js)
	var text, lines bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("told", "v", v)
	slog.New(slog.NewJSONHandler(&lines, nil)).Info("told", "v", v)
	texts["slog text"], texts["slog JSON"] = text.String(), lines.String()
	return texts
}

func TestSecretShowsItselfToNobody(t *testing.T) {
	target := Target{Secret: password}
	for name, v := range map[string]any{
		"alone":         Secret(password),
		"in a target":   target,
		"by a pointer":  &target,
		"in a list":     []Secret{password},
		"below a key":   map[string]Secret{"secret": password},
		"in an unnamed": struct{ S Secret }{password},
	} {
		t.Run(name, func(t *testing.T) {
			for how, text := range shown(t, v) {
				hex := fmt.Sprintf("%x", password)
				if strings.Contains(text, "hunter2") || strings.Contains(text, hex) {
					t.Errorf("%s shows it: %s", how, text)
				}
				if strings.Contains(how, "slog") && !strings.Contains(text, "secret") {
					t.Errorf("%s does not even say that there is one: %s", how, text)
				}
			}
		})
	}
}

func TestSecretShowsItselfToNoWrongVerb(t *testing.T) {
	for _, verb := range []string{"%d", "%t", "%f"} {
		if text := fmt.Sprintf(verb, Secret(password)); strings.Contains(text, "hunter2") {
			t.Errorf("%s shows it: %s", verb, text)
		}
	}
}

func TestSecretCanBeRead(t *testing.T) {
	var in struct{ Secret Secret }
	if err := json.Unmarshal([]byte(`{"secret":"`+password+`"}`), &in); err != nil {
		t.Fatal(err)
	}
	if string(in.Secret) != password {
		t.Errorf("read %q", string(in.Secret))
	}
}

func TestFieldErrorIsFoundBelowItsWrapping(t *testing.T) {
	err := fmt.Errorf("entry 3: %w", Invalid("port", "want 1 to 65535, got %d", 0))
	var field *FieldError
	if !errors.As(err, &field) || field.Field != "port" {
		t.Fatalf("no FieldError for port in %v", err)
	}
	if got, want := err.Error(), "entry 3: port: want 1 to 65535, got 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// sources parses the package as it is built, without its tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	if files["windsock.go"] == nil || files["merge.go"] == nil {
		t.Fatalf("these are not the sources of the package: %d files", len(files))
	}
	return files
}

func TestImportsOnlyTheStandardLibrary(t *testing.T) {
	for name, file := range sources(t) {
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			root, _, _ := strings.Cut(path, "/")
			if strings.Contains(root, ".") || root == "windsock" || root == "C" {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

func TestReadsNoClockAndDoesNoIO(t *testing.T) {
	clock := map[string]bool{"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true,
		"AfterFunc": true, "Tick": true, "NewTimer": true, "NewTicker": true}
	for name, file := range sources(t) {
		for _, spec := range file.Imports {
			switch path := strings.Trim(spec.Path.Value, `"`); path {
			case "os", "io", "net/http", "database/sql", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand":
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && clock[sel.Sel.Name] {
					t.Errorf("%s uses time.%s", name, sel.Sel.Name)
				}
			}
			return true
		})
	}
}
