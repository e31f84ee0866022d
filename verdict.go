package windsock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// What is kept of one output: of what a hook wrote its beginning and its end, of any other
// value as much as a text may have.
const (
	keptLog    = 256 << 10
	keptOutput = 1 << 20
)

// The outputs that every component has.
const (
	outputStdout = "deploy_stdout"
	outputStderr = "deploy_stderr"
	outputStatus = "deploy_status_code"
)

// Kept is what is kept of the outputs of a signal.
type Kept struct {
	Values map[string]json.RawMessage
	Cut    map[string]int // of those that were cut, how many bytes there were
}

// Keep returns what is kept of the outputs of a signal, each shortened if it is too long.
func (s *Signal) Keep() (Kept, error) {
	k := Kept{Values: make(map[string]json.RawMessage, len(s.Outputs)), Cut: map[string]int{}}
	for name, v := range s.Outputs {
		most := keptOutput
		if name == outputStdout || name == outputStderr {
			most = keptLog
		}
		if text, ok := v.(string); ok && len(text) > most {
			v, k.Cut[name] = cut(text, most), len(text)
		}
		data, err := json.Marshal(v)
		if err != nil {
			return k, Invalid(name, "%v", err)
		}
		if _, text := v.(string); !text && len(data) > most {
			k.Cut[name] = len(data)
			data, _ = json.Marshal(cut(string(data), most)) // a text
		}
		k.Values[name] = data
	}
	return k, nil
}

// cut leaves out the middle of a text, so that the rest is no longer than most, and says
// between the two ends how much it was.
func cut(text string, most int) string {
	head, tail := most/2, len(text)-most/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", text[:head], tail-head, text[tail:])
}

// Judge says what a signal means for a component that declares these outputs, and drops of
// what is to be kept what it does not declare. As with Heat, a status code other than 0 is
// a failure, and so is any output that stands for an error and is not empty.
func (s *Signal) Judge(declared []Output, k Kept) (SignalStatus, string) {
	status, reasons := s.Status, []string{}
	for _, o := range declared {
		if v := k.Values[o.Name]; o.Error && !empty(v) {
			status = SignalFailure
			reasons = append(reasons, o.Name+" : "+asText(v))
		}
	}
	reason := cmp.Or(strings.Join(reasons, ", "), s.Reason)
	if code := asText(k.Values[outputStatus]); code != "" && code != "0" {
		status = SignalFailure
		reason = cmp.Or(reason, "exit status "+code) // what it wrote may be secret
	}
	maps.DeleteFunc(k.Values, func(name string, _ json.RawMessage) bool {
		return name != outputStdout && name != outputStderr && name != outputStatus &&
			!slices.ContainsFunc(declared, func(o Output) bool { return o.Name == name })
	})
	for _, name := range slices.Sorted(maps.Keys(k.Cut)) {
		if k.Values[name] != nil && name != outputStdout && name != outputStderr {
			reason = strings.TrimPrefix(fmt.Sprintf("%s; output %s is kept only in part, it has %d bytes", reason, name, k.Cut[name]), "; ")
		}
	}
	return cmp.Or(status, SignalSuccess), CutReason(reason)
}

// empty reports whether a value is as good as none.
func empty(v json.RawMessage) bool {
	switch string(v) {
	case "", "null", `""`, "0", "false", "[]", "{}":
		return true
	}
	return false
}

// asText is a value as text.
func asText(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) != nil {
		return string(v)
	}
	return strings.TrimSpace(text)
}
