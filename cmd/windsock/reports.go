package main

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"windsock"
	"windsock/document"
	"windsock/reports"
)

// rules are those by which reports are read, as the file had them when it was read last.
type rules struct{ now atomic.Pointer[reports.Rules] }

// take has others be the rules; nil: those that windsock comes with.
func (r *rules) take(others reports.Rules) {
	if others == nil {
		others = reports.Builtin()
	}
	r.now.Store(&others)
}

// Read implements api.Reports.
func (r *rules) Read(name string, body []byte, now time.Time) (windsock.Report, error) {
	return r.now.Load().Read(name, body, now)
}

// MarshalJSON writes them as they are published.
func (r *rules) MarshalJSON() ([]byte, error) { return r.now.Load().MarshalJSON() }

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
