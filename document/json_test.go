package document

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v4"
)

func TestJSONIsReadAsYAMLReadsIt(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `"a"`, "\n\n 7", `null`,
		"{\n\"a\": [1, -2.5, 0, 1e3, 12345678901234567890.5],\r\n\"b\": {\"c\": true, \"d\":\n\nfalse}, \"e\": null\n}\n",
		`{"a": 1, "a": 2, "yes": "no", "": "", "<<": "<<", "~": "~", "1": "1"}`,
		`[[[{"a": [[]]}]], "tab\t line\n quote\" slash\/ \\ \u00e9 é 😀"]`,
	} {
		got, ok := readJSON([]byte(text))
		var want yaml.Node
		if err := yaml.Load([]byte(text), &want); err != nil || !ok {
			t.Errorf("%s: is JSON: %t; YAML: %v", text, ok, err)
			continue
		}
		if diff := cmp.Diff(want.Content[0], got, cmpopts.IgnoreFields(yaml.Node{}, "Column", "Style"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: YAML has -, JSON +:\n%s", text, diff)
		}
	}
}

// What is no JSON may be YAML.
func TestWhatJSONIsNot(t *testing.T) {
	for _, text := range []string{``, `# a`, `{a: 1}`, `{"a": 1} # b`, `["a",]`, `{"a"}`, `[1, 2}`, `{"a": 01}`, `{} {}`, `"\ud800"`} {
		if root, ok := readJSON([]byte(text)); ok || root != nil {
			t.Errorf("%s: was read, json.Valid says %t", text, json.Valid([]byte(text)))
		}
	}
}
