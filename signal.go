package windsock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode"
)

// SignalStatus is what a signal says.
type SignalStatus string

// What a signal can say.
const (
	SignalStarted SignalStatus = "started" // progress alone
	SignalSuccess SignalStatus = "success"
	SignalFailure SignalStatus = "failure"
)

// A Signal is what comes back of a component that runs, or to a condition.
type Signal struct {
	Status  SignalStatus
	Reason  string         // for people; "": there was none
	ID      string         // of a condition: one with the same id takes the place of the one before; "": the next number
	Data    any            // of a condition
	Outputs map[string]any // all that was said: deploy_stdout, deploy_stderr, deploy_status_code, what the component declares, and what it does not
}

// SignalOutcome answers a Signal.
type SignalOutcome struct {
	DeploymentID string         `json:"deployment_id"`
	Component    string         `json:"component"`
	State        ComponentState `json:"state"`
	Changed      bool           `json:"changed"`
}

// signalWords are what status and deploy_status can say, in capitals.
var signalWords = map[string]SignalStatus{
	"SUCCESS": SignalSuccess, "FAILURE": SignalFailure, "STARTED": SignalStarted,
	"COMPLETE": SignalSuccess, "FAILED": SignalFailure, "IN_PROGRESS": SignalStarted,
}

// ParseSignal reads what Heat's tools and people with curl send: the outputs of a software
// deployment, what a wait condition takes (natively, or as CloudFormation writes it), a
// form of either, what was printed, or nothing, which is a success. Text that is not UTF-8
// is mended; whoever runs in an instance could not send it again in another way.
func ParseSignal(contentType string, body []byte) (Signal, error) {
	said, err := readSignal(contentType, body)
	if err != nil {
		return Signal{}, err
	}
	s := Signal{Status: SignalSuccess}
	if code := said["deploy_status_code"]; code != nil {
		s.Reason = signalText(said["deploy_status_reason"])
		if text := strings.TrimSpace(signalText(code)); text != "0" {
			s.Status = SignalFailure
			if s.Reason == "" {
				s.Reason = "deploy_status_code : " + Clip(text)
			}
		}
	} else {
		if s.Status, err = signalStatus(said); err != nil {
			return Signal{}, err
		}
		if s.ID, err = signalID(said); err != nil {
			return Signal{}, err
		}
		_, reason := firstSaid(said, "reason", "Reason", "deploy_status_reason")
		_, data := firstSaid(said, "data", "Data")
		s.Reason, s.Data = signalText(reason), plainNumbers(data)
	}
	s.Reason = CutReason(strings.Map(printable, s.Reason))
	if len(said) > 0 {
		s.Outputs = plainNumbers(said).(map[string]any)
	}
	return s, nil
}

// readSignal returns what the members of an object, or the fields of a form, say. What
// begins as an object is taken for one whatever the header says, as it is form that curl
// claims to send.
func readSignal(contentType string, body []byte) (map[string]any, error) {
	const (
		form = "application/x-www-form-urlencoded"
		text = "text/plain"
	)
	kind, _, _ := mime.ParseMediaType(contentType)
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return nil, nil
	}
	if trimmed[0] == '{' {
		said, err := readObject(trimmed)
		if err == nil || kind != text {
			return said, err
		}
	}
	switch {
	case kind == text:
		return map[string]any{"deploy_stdout": strings.ToValidUTF8(string(body), "\uFFFD")}, nil
	case kind == form && bytes.ContainsRune(trimmed, '='): // or a bare FAILURE would be a field without a value
		return readFields(string(trimmed))
	}
	return nil, Invalid("body", "want a JSON object, a form as in status=SUCCESS, what was printed as text/plain, or nothing")
}

func readObject(data []byte) (map[string]any, error) {
	var said map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&said); err != nil {
		return nil, Invalid("body", "is not JSON: %v", err)
	}
	if int(dec.InputOffset()) < len(data) {
		return nil, Invalid("body", "goes on after its JSON object")
	}
	return said, nil
}

func readFields(text string) (map[string]any, error) {
	fields, err := url.ParseQuery(text)
	if err != nil {
		return nil, Invalid("body", "is no form: it has a ; or a %% that is not escaped; curl does that with --data-urlencode")
	}
	said := make(map[string]any, len(fields))
	for name, values := range fields {
		if len(values) > 1 {
			return nil, Invalid(strings.ToValidUTF8(Clip(name), "\uFFFD"), "is given twice")
		}
		said[strings.ToValidUTF8(name, "\uFFFD")] = strings.ToValidUTF8(values[0], "\uFFFD")
	}
	return said, nil
}

// firstSaid returns the first of the names that says something.
func firstSaid(said map[string]any, names ...string) (name string, value any) {
	for _, name := range names {
		if said[name] != nil {
			return name, said[name]
		}
	}
	return "", nil
}

func signalStatus(said map[string]any) (SignalStatus, error) {
	name, value := firstSaid(said, "status", "Status", "deploy_status")
	if value == nil {
		return SignalSuccess, nil
	}
	text := signalText(value)
	if status := signalWords[strings.ToUpper(text)]; status != "" {
		return status, nil
	}
	return "", Invalid(name, "want SUCCESS, FAILURE or STARTED; got %q", Clip(text))
}

func signalID(said map[string]any) (string, error) {
	name, value := firstSaid(said, "id", "UniqueId")
	switch value.(type) {
	case nil:
		return "", nil
	case string, json.Number:
		id := signalText(value)
		return id, checkText(name, id, 1, maxID)
	}
	return "", Invalid(name, "want text")
}

// signalText is text as it is, and anything else as JSON.
func signalText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

// plainNumbers has numbers as encoding/json has them, but for whole ones that a float64
// cannot hold: an id is not to end as another.
func plainNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = plainNumbers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil && (n > 1<<53 || n < -1<<53) {
			return n
		}
		f, err := v.Float64()
		if err != nil { // out of all range
			return v.String()
		}
		return f
	}
	return value
}

// printable has what no terminal bears be visible.
func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return unicode.ReplacementChar
	}
	return r
}
