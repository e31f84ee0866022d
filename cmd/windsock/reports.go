package main

import (
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"windsock"
	"windsock/document"
	"windsock/reports"
)

// reports are the rules that windsock comes with, changed and added to by the file; nil when
// it says nothing of them.
func (f *fileConfig) reports(doc *document.Document) (reports.Rules, error) {
	if len(f.Reports) == 0 {
		return nil, nil
	}
	rules := reports.Builtin()
	for i, written := range f.Reports {
		at := jsontext.Pointer("/reports").AppendToken(strconv.Itoa(i))
		var of struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(written, &of) != nil || of.Name == "" {
			return nil, locate(doc, at, windsock.Invalid("name", "want the name of a rule"))
		}
		var err error
		var wrong *json.SemanticError
		switch rules, err = rules.Add(of.Name, written); {
		case errors.As(err, &wrong):
			return nil, explain(doc, at, err)
		case err != nil:
			return nil, locate(doc, at, err)
		}
	}
	return rules, nil
}
