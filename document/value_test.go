package document

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func value(t testing.TB, text string) any {
	t.Helper()
	d, err := Parse("t.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	v, err := d.Value()
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// TestADashIsText has the usual delimiter of names in list_join.
func TestADashIsText(t *testing.T) {
	got := value(t, "é: '-, é'\njoin: [-, [a, -], {b: -}, -]\nscript: |\n  [ -, - ]\nlist:\n- -\n- [-, -, --]\n")
	want := map[string]any{
		"é":      "-, é",
		"join":   []any{"-", []any{"a", "-"}, map[string]any{"b": "-"}, "-"},
		"script": "[ -, - ]\n",
		"list":   []any{[]any{nil}, []any{"-", "-", "--"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var wrong *Error
	if _, err := Parse("t.yaml", []byte("a: [-,\n  - b]\n")); !errors.As(err, &wrong) || wrong.Line != 2 {
		t.Errorf("a dash before a space in a list: %v, want an error on line 2", err)
	}
}

// TestScalarsAreThoseOfPyYAML has what PyYAML 6.0.3 makes of plain words, but that dates
// and numbers that do not fit are text here.
func TestScalarsAreThoseOfPyYAML(t *testing.T) {
	for text, want := range map[string]any{
		"yes": true, "Yes": true, "YES": true, "yEs": "yEs", "no": false, "on": true, "OFF": false, "y": "y", "n": "n",
		"true": true, "False": false, "tRUE": "tRUE",
		"~": nil, "null": nil, "Null": nil, "": nil, "nULL": "nULL", "none": "none",
		"0": int64(0), "-17": int64(-17), "+5": int64(5), "1_000": int64(1000), "0644": int64(420), "0o644": "0o644", "0x1F": int64(31),
		"0b101": int64(5), "08": "08", "-0x10": int64(-16), "12:30": int64(750), "1:30:00": int64(5400), "-1:30": int64(-90), "0:30": "0:30", "12:60": "12:60",
		"9223372036854775807": int64(9223372036854775807), "9223372036854775808": "9223372036854775808",
		"1.0": 1.0, "1.": 1.0, ".5": .5, "-.5": "-.5", "1e3": "1e3", "1.0e3": "1.0e3", "1.0e+3": 1000.0, "1.5e-3": .0015, "685_230.15": 685230.15,
		"1:30.5": 90.5, "1.2.3": "1.2.3", "1-2": "1-2", "...": "...", ".": ".", "-": "-", "0.1": .1, "08.5": 8.5,
		"2013-05-23": "2013-05-23", "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
		"<<": "<<", "=": "=", "windsock": "windsock",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q is %T(%v), want %T(%v)", text, got, got, want, want)
		}
	}
}

func TestValueIsWhatStandsThere(t *testing.T) {
	got := value(t, `
version: 2013-05-23
quoted: ["yes", '5', "2013-05-23"]
tagged: [!!str 5, !!int "5", !!float "0.5", !!bool "on", !!timestamp 2013-05-23]
anchors: &a {x: 1, y: [no]}
again: *a
merged: {<<: *a, x: 2}
1: keys are text
on: so is this
`)
	want := map[string]any{
		"version": "2013-05-23",
		"quoted":  []any{"yes", "5", "2013-05-23"},
		"tagged":  []any{"5", int64(5), .5, true, "2013-05-23"},
		"anchors": map[string]any{"x": int64(1), "y": []any{false}},
		"again":   map[string]any{"x": int64(1), "y": []any{false}},
		"merged":  map[string]any{"x": int64(2), "y": []any{false}},
		"1":       "keys are text",
		"on":      "so is this",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestJSONIsReadAsJSON(t *testing.T) {
	got := value(t, "{\n\t\"a\": 1e3,\n\t\"b\": \"\\ud83d\\ude00 \\\\ud83d \\u00e9 \\/\",\n\t\"c\": [1.0, -2, true, null, \"yes\"]\n}")
	want := map[string]any{"a": 1000.0, "b": "😀 \\ud83d é /", "c": []any{1.0, int64(-2), true, nil, "yes"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestBadValuesSayWhere(t *testing.T) {
	bomb := "a0: &a0 [x]\n"
	for i := range 30 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9))
	}
	for name, c := range map[string]struct{ text, want string }{
		"a tag of somebody":      {"a: 1\nb: !Sub x\n", "t.yaml:2: the tag !Sub means nothing here"},
		"a tag of a list":        {"a: !!set [b]\n", "t.yaml:1: the tag !!set means nothing here"},
		"a tag of a mapping":     {"a: !!python/object:os.system {b: c}\n", "t.yaml:1: the tag !!python/object:os.system means nothing here"},
		"bytes":                  {"a: !!binary aGk=\n", "t.yaml:1: the tag !!binary means nothing here"},
		"a tag that does not":    {"a: !!int five\n", `t.yaml:1: "five" is no !!int`},
		"infinity":               {"a:\n- .inf\n", "t.yaml:2: .inf is no value here"},
		"a key twice":            {"a: 1\nb: 2\na: 3\n", "t.yaml:3: a stands on line 1 already"},
		"a bomb":                 {bomb, "too large, with all aliases followed"},
		"an alias within itself": {"a: &a [*a]\n", "an alias within what it stands for"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Parse("t.yaml", []byte(c.text))
			if err == nil {
				_, err = d.Value()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}

func TestMembersAreInOrderAndKnowTheirLines(t *testing.T) {
	d, err := Parse("", []byte("z: 1\na: &a\n  k:\n    - x\n    - y\nm:\n  <<: *a\n  l: 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, m := range d.Root().Members() {
		got += fmt.Sprint(m.Key, m.Line, " ")
		for _, m := range m.Members() {
			got += fmt.Sprint(m.Key, m.Line, " ")
		}
	}
	if want := "z1 a2 k3 m6 l8 k3 "; got != want {
		t.Errorf("members %q, want %q", got, want)
	}
	for line, path := range map[int][]string{1: {"z"}, 5: {"a", "k", "1"}, 3: {"m", "k", "7"}, 6: {"m", "none", "x"}} {
		if got := d.Root().At(path...).Line; got != line {
			t.Errorf("%v is on line %d, want %d", path, got, line)
		}
	}
}

func TestTheLastOfRepeatedKeysCounts(t *testing.T) {
	d, err := Parse("", []byte("a: 1\nb: &b {c: 2, d: 3, c: 4}\na:\n  <<: *b\n  <<: {e: 5}\n  e: 6\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Repeated{{"a", 3, 1, 0, ""}, {"c", 2, 2, 1, "b"}}, d.DropRepeated()); diff != "" {
		t.Errorf("repeated (-want +got):\n%s", diff)
	}
	v, err := d.Value()
	b := map[string]any{"c": int64(4), "d": int64(3)}
	want := map[string]any{"a": map[string]any{"c": int64(4), "d": int64(3), "e": int64(6)}, "b": b}
	if diff := cmp.Diff(want, v); err != nil || diff != "" {
		t.Errorf("%v, read (-want +got):\n%s", err, diff)
	}
}
