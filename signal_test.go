package windsock

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const (
	signalJSON = "application/json"
	signalForm = "application/x-www-form-urlencoded"
)

func TestWhatASignalSays(t *testing.T) {
	type outputs = map[string]any
	for name, c := range map[string]struct {
		contentType, body string
		want              Signal
	}{
		"nothing is a success":      {"", "", Signal{Status: "success"}},
		"nor does a header say any": {signalForm, " \n", Signal{Status: "success"}},
		"an empty object":           {signalJSON, "{}", Signal{Status: "success"}},

		"outputs of a deployment":         {signalJSON, `{"deploy_stdout":"hi\n","deploy_stderr":"","deploy_status_code":0,"address":"10.0.0.7"}`, Signal{Status: "success", Outputs: outputs{"deploy_stdout": "hi\n", "deploy_stderr": "", "deploy_status_code": 0.0, "address": "10.0.0.7"}}},
		"outputs without a code":          {signalJSON, `{"address":"10.0.0.7"}`, Signal{Status: "success", Outputs: outputs{"address": "10.0.0.7"}}},
		"a code as text":                  {signalJSON, `{"deploy_status_code":"0"}`, Signal{Status: "success", Outputs: outputs{"deploy_status_code": "0"}}},
		"no code":                         {signalJSON, `{"deploy_status_code":null}`, Signal{Status: "success", Outputs: outputs{"deploy_status_code": nil}}},
		"a code that is not 0":            {signalJSON, `{"deploy_status_code":3}`, Signal{Status: "failure", Reason: "deploy_status_code : 3", Outputs: outputs{"deploy_status_code": 3.0}}},
		"another one as text":             {signalJSON, `{"deploy_status_code":"127"}`, Signal{Status: "failure", Reason: "deploy_status_code : 127", Outputs: outputs{"deploy_status_code": "127"}}},
		"a code that is nonsense":         {signalJSON, `{"deploy_status_code":true,"deploy_status_reason":"why"}`, Signal{Status: "failure", Reason: "why", Outputs: outputs{"deploy_status_code": true, "deploy_status_reason": "why"}}},
		"an output whose name is status":  {signalJSON, `{"deploy_status_code":0,"status":"up","id":7}`, Signal{Status: "success", Outputs: outputs{"deploy_status_code": 0.0, "status": "up", "id": 7.0}}},
		"outputs with a status":           {signalJSON, `{"deploy_stdout":"x","status":"FAILURE"}`, Signal{Status: "failure", Outputs: outputs{"deploy_stdout": "x", "status": "FAILURE"}}},
		"progress by the draft":           {signalJSON, `{"deploy_status":"IN_PROGRESS","deploy_status_reason":"begun"}`, Signal{Status: "started", Reason: "begun", Outputs: outputs{"deploy_status": "IN_PROGRESS", "deploy_status_reason": "begun"}}},
		"whole numbers keep their digits": {signalJSON, `{"n":[9007199254740993],"f":1.5,"far":1e999}`, Signal{Status: "success", Outputs: outputs{"n": []any{int64(9007199254740993)}, "f": 1.5, "far": "1e999"}}},

		"a wait condition":         {signalJSON, `{"status":"SUCCESS","reason":"ready","data":{"n":1},"id":"a"}`, Signal{Status: "success", Reason: "ready", ID: "a", Data: map[string]any{"n": 1.0}, Outputs: outputs{"status": "SUCCESS", "reason": "ready", "data": map[string]any{"n": 1.0}, "id": "a"}}},
		"that failed":              {signalJSON, `{"status":"FAILURE"}`, Signal{Status: "failure", Outputs: outputs{"status": "FAILURE"}}},
		"one of CloudFormation":    {"", `{"Status":"SUCCESS","Reason":"ready","Data":"d","UniqueId":"b"}`, Signal{Status: "success", Reason: "ready", ID: "b", Data: "d", Outputs: outputs{"Status": "SUCCESS", "Reason": "ready", "Data": "d", "UniqueId": "b"}}},
		"progress":                 {signalJSON, `{"status":"started"}`, Signal{Status: "started", Outputs: outputs{"status": "started"}}},
		"progress in capitals":     {signalJSON, `{"status":"Started"}`, Signal{Status: "started", Outputs: outputs{"status": "Started"}}},
		"null is as if not there":  {signalJSON, `{"status":null,"reason":null,"data":null,"id":null}`, Signal{Status: "success", Outputs: outputs{"status": nil, "reason": nil, "data": nil, "id": nil}}},
		"a number as id":           {signalJSON, `{"id":9007199254740993}`, Signal{Status: "success", ID: "9007199254740993", Outputs: outputs{"id": int64(9007199254740993)}}},
		"a reason that is no text": {signalJSON, `{"reason":{"a":[1]}}`, Signal{Status: "success", Reason: `{"a":[1]}`, Outputs: outputs{"reason": map[string]any{"a": []any{1.0}}}}},

		"a form":                       {signalForm, "status=FAILURE&reason=disk+full&id=a", Signal{Status: "failure", Reason: "disk full", ID: "a", Outputs: outputs{"status": "FAILURE", "reason": "disk full", "id": "a"}}},
		"a form with outputs":          {signalForm + "; charset=utf-8", "deploy_status_code=0&address=10.0.0.7", Signal{Status: "success", Outputs: outputs{"deploy_status_code": "0", "address": "10.0.0.7"}}},
		"JSON by curl -d":              {signalForm, `{"status": "FAILURE", "data": "100%&a;b"}`, Signal{Status: "failure", Data: "100%&a;b", Outputs: outputs{"status": "FAILURE", "data": "100%&a;b"}}},
		"JSON that says it is text":    {"text/plain", ` {"status":"FAILURE"} `, Signal{Status: "failure", Outputs: outputs{"status": "FAILURE"}}},
		"JSON that says it is nothing": {"", `{"status":"FAILURE"}`, Signal{Status: "failure", Outputs: outputs{"status": "FAILURE"}}},
		"JSON in a header of nonsense": {";;", `{}`, Signal{Status: "success"}},
		"what was printed":             {"text/plain; charset=utf-8", "{done}\n", Signal{Status: "success", Outputs: outputs{"deploy_stdout": "{done}\n"}}},

		"text in another alphabet": {"text/plain; charset=latin1", "caf\xe9", Signal{Status: "success", Outputs: outputs{"deploy_stdout": "caf\uFFFD"}}},
		"JSON that is not UTF-8":   {signalJSON, "{\"status\":\"FAILURE\",\"reason\":\"caf\xe9 \\u0007\"}", Signal{Status: "failure", Reason: "caf\uFFFD \uFFFD", Outputs: outputs{"status": "FAILURE", "reason": "caf\uFFFD \a"}}},
		"a form that is not UTF-8": {signalForm, "reason=caf%E9", Signal{Status: "success", Reason: "caf\uFFFD", Outputs: outputs{"reason": "caf\uFFFD"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSignal(c.contentType, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%q: (-want +got) %s", c.body, d)
			}
		})
	}
}

// What might be a failure is never taken for a success.
func TestWhatIsNoSignal(t *testing.T) {
	for name, c := range map[string]struct{ contentType, body, field string }{
		"a bare word":                  {signalForm, "FAILURE", "body"},
		"a form that says it is none":  {"", "status=FAILURE", "body"},
		"a list":                       {signalJSON, `[{"status":"FAILURE"}]`, "body"},
		"half an object":               {signalJSON, `{"status":"FAILURE"`, "body"},
		"two objects":                  {signalJSON, `{"status":"SUCCESS"}{"status":"FAILURE"}`, "body"},
		"a form that is not escaped":   {signalForm, "status=FAILURE&reason=100%", "body"},
		"a form with a semicolon":      {signalForm, "status=FAILURE;reason=x", "body"},
		"a form that says it twice":    {signalForm, "status=SUCCESS&status=FAILURE", "status"},
		"no word of ours":              {signalJSON, `{"status":"error"}`, "status"},
		"no word of CloudFormation":    {signalJSON, `{"Status":"error","address":"10.0.0.7"}`, "Status"},
		"an empty word":                {signalForm, "status=", "status"},
		"a word that is no text":       {signalJSON, `{"status":false}`, "status"},
		"an id that is no text":        {signalJSON, `{"id":["a"]}`, "id"},
		"an id of great length":        {signalJSON, `{"UniqueId":"` + strings.Repeat("x", 256) + `"}`, "UniqueId"},
		"an empty id":                  {signalJSON, `{"id":""}`, "id"},
		"an id that no terminal bears": {signalJSON, `{"id":"\u0000"}`, "id"},
		"a file":                       {"application/octet-stream", "\x7fELF", "body"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSignal(c.contentType, []byte(c.body))
			var invalid *FieldError
			if !errors.As(err, &invalid) || invalid.Field != c.field {
				t.Errorf("%q: got %+v, %v; want an error for %s", c.body, got, err, c.field)
			}
		})
	}
}

func FuzzParseSignal(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `{"deploy_status_code":1,"deploy_stdout":"\ud800"}`, `{"status":"started","id":1e400}`, `{"Status":"FAILURE","UniqueId":"x"}`,
		`{"data":[[[{"a":-9223372036854775808}]]],"reason":{}}`, "status=FAILURE&reason=%ff", "a=1&a=2", "text", `{"a":1}x`, "\xff", `{"reason":"\u0000"}`,
	} {
		f.Add(signalJSON, []byte(body))
		f.Add(signalForm, []byte(body))
		f.Add("text/plain", []byte(body))
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		s, err := ParseSignal(contentType, body)
		if err != nil {
			var invalid *FieldError
			if !errors.As(err, &invalid) || !utf8.ValidString(err.Error()) {
				t.Errorf("got %v", err)
			}
			return
		}
		if s.Status != SignalStarted && s.Status != SignalSuccess && s.Status != SignalFailure {
			t.Errorf("status %q", s.Status)
		}
		if !utf8.ValidString(s.Reason+s.ID) || strings.ContainsRune(s.Reason+s.ID, 0) || len(s.Reason) > 4096 || len(s.ID) > 255 {
			t.Errorf("reason %q, id %q", s.Reason, s.ID)
		}
		if _, err := json.Marshal([]any{s.Outputs, s.Data}); err != nil {
			t.Errorf("cannot be kept: %v", err)
		}
	})
}
