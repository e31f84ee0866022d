package reports

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"windsock"
)

// An item is one thing that a report tells of.
type item struct {
	body  any
	value any
	at    string // where it stands in the body, as errors name that
}

// Read reads a report. It returns a FieldError when the whole is to be refused: a report is
// understood, or it says nothing.
func (r *Rule) Read(body []byte, now time.Time) (windsock.Report, error) {
	var report windsock.Report
	var whole any
	if err := json.Unmarshal(body, &whole); err != nil {
		return report, notJSON(err)
	}
	if r.Omitted != nil {
		text, _ := textOf(r.Omitted.in(&item{body: whole, value: whole}))
		report.Omitted, _ = strconv.ParseInt(text, 10, 64)
	}
	items, err := r.items(whole)
	if err != nil {
		return report, err
	}
	report.Readings = make([]windsock.Reading, len(items))
	for i := range items {
		if report.Readings[i], err = r.read(&items[i], now); err != nil {
			return windsock.Report{}, err
		}
	}
	return report, nil
}

func notJSON(err error) error {
	var wrong *jsontext.SyntacticError
	if !errors.As(err, &wrong) {
		return windsock.Invalid("body", "is not JSON")
	}
	field := cmp.Or(windsock.Clip(strings.Join(slices.Collect(wrong.JSONPointer.Tokens()), ".")), "body")
	if wrong.Err == jsontext.ErrDuplicateName {
		return windsock.Invalid(field, "is given twice")
	}
	return windsock.Invalid(field, "is not JSON, at byte %d: %v", wrong.ByteOffset, wrong.Err)
}

// items returns what the report tells of.
func (r *Rule) items(whole any) ([]item, error) {
	paths := r.Items
	if len(paths) == 0 {
		paths = []Path{{}}
	}
	root := item{body: whole, value: whole}
	for i := range paths {
		value := paths[i].in(&root)
		if value == nil {
			continue
		}
		at := ""
		if len(paths[i].steps) > 0 {
			at = paths[i].field(&root)
		}
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		items := make([]item, len(list))
		for j := range list {
			items[j] = item{body: whole, value: list[j], at: at}
			if ok {
				items[j].at = strings.TrimPrefix(at+"."+strconv.Itoa(j), ".")
			}
			if _, ok := list[j].(map[string]any); !ok {
				return nil, windsock.Invalid(cmp.Or(items[j].at, "body"), "want an object")
			}
		}
		return items, nil
	}
	return nil, windsock.Invalid(paths[0].field(&root), "is required")
}

// read reads one item.
func (r *Rule) read(it *item, now time.Time) (windsock.Reading, error) {
	if err := r.Require.demand(it); err != nil {
		return windsock.Reading{}, err
	}
	for i := range r.Cases {
		if c := &r.Cases[i]; c.When.hold(it) {
			return r.readAs(it, c, now)
		}
	}
	return windsock.Reading{Ignored: "no case of the rule is for it"}, nil
}

func (r *Rule) readAs(it *item, c *Case, now time.Time) (said windsock.Reading, err error) {
	word, why := c.word(it)
	if word == None {
		return windsock.Reading{Ignored: why}, nil
	}
	reads := c.over(r.Reads)
	if said.Named = reads.named(it); len(said.Named) == 0 {
		return windsock.Reading{Ignored: "it names nothing that could be looked up"}, nil
	}
	o := &said.Said
	*o = windsock.Observation{
		Origin: windsock.FromMonitor, State: word.State(), Source: reads.Source.of(it), Requested: c.Requested, Lifts: c.Lifts,
		Reason: windsock.CutReason(printable(reads.Reason.of(it))), TTL: time.Duration(reads.TTL),
	}
	if o.Source == "" {
		o.Source = r.Name
	}
	if err := windsock.CheckSource(o.Source); err != nil {
		return said, windsock.Invalid(reads.Source.field(it), "%v", err.(*windsock.FieldError).Detail)
	}
	if o.ObservedAt, err = reads.At.time(it); err != nil {
		return said, err
	}
	if o.Since, err = reads.Since.time(it); err != nil {
		return said, err
	}
	ends, err := reads.Ends.time(it)
	if left := ends.Sub(now); !ends.IsZero() && left > 0 {
		o.TTL = min(left, windsock.MaxTTL)
	}
	return said, err
}

// word returns what an item of this case says, or None and why.
func (c *Case) word(it *item) (word windsock.Word, why string) {
	if word = c.Word; word == "" {
		of := c.Of.of(it)
		known := false
		switch word, known = c.Words[of]; {
		case of == "":
			return None, "it has nothing that tells the word"
		case !known:
			return None, fmt.Sprintf("%q is no word of the rule", windsock.Clip(printable(of)))
		}
		why = fmt.Sprintf("%q says nothing", of)
	}
	if c.Why != "" {
		why = c.Why
	}
	if why == "" {
		why = "such items say nothing"
	}
	return word, why
}

// over returns what the case has, and what the rule has of all that it has not.
func (c *Case) over(rule Reads) Reads {
	reads := c.Reads
	for _, t := range [...][2]*Text{{&reads.Source, &rule.Source}, {&reads.Reason, &rule.Reason}, {&reads.At, &rule.At}, {&reads.Since, &rule.Since}, {&reads.Ends, &rule.Ends}} {
		if t[0].IsZero() {
			*t[0] = *t[1]
		}
	}
	if len(reads.Subject) == 0 {
		reads.Subject = rule.Subject
	}
	if reads.TTL == 0 {
		reads.TTL = rule.TTL
	}
	return reads
}

// named returns by what the subject of an item is looked up.
func (r *Reads) named(it *item) (list []windsock.Lookup) {
	for i := range r.Subject {
		s := &r.Subject[i]
		kind := s.Kind
		if kind == "" {
			kind = windsock.KindInstance
		}
		add := func(by windsock.By, value string) {
			if value != "" && windsock.LookupID("", value) == nil {
				list = append(list, windsock.Lookup{Kind: kind, By: by, Value: value})
			}
		}
		add(windsock.ByID, s.ID.of(it))
		add(windsock.ByProviderID, s.ProviderID.of(it))
		add(windsock.ByName, s.Name.of(it))
		if address := s.Address.of(it); address != "" {
			add(windsock.ByAddress, address)
			if host, _, err := net.SplitHostPort(address); err == nil {
				add(windsock.ByAddress, host)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(s.Metadata)) {
			text := s.Metadata[key]
			add(windsock.ByMetadata(key), text.of(it))
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

// layouts are how times are written, beside seconds since 1970. Those without a zone are
// in UTC.
var layouts = [...]string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999-0700",
}

// time reads a time. One before 1970 is none, as Go's zero time is sent for that.
func (t *Text) time(it *item) (time.Time, error) {
	text := t.of(it)
	if text == "" {
		return time.Time{}, nil
	}
	if at, ok := parseTime(text); ok {
		if at.Unix() <= 0 {
			return time.Time{}, nil
		}
		return at.UTC().Truncate(time.Microsecond), nil
	}
	return time.Time{}, windsock.Invalid(t.field(it), "want a time, got %q", windsock.Clip(text))
}

func parseTime(text string) (time.Time, bool) {
	if !utf8.ValidString(text) {
		return time.Time{}, false
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, at.Year() <= 9999
		}
	}
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanos, fracErr := strconv.ParseUint((fraction + "000000000")[:9], 10, 32)
	if err != nil || fracErr != nil || seconds < 0 || seconds > 253402300799 {
		return time.Time{}, false
	}
	return time.Unix(seconds, int64(nanos)), true
}
