package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"windsock"
)

// Reports reads what third parties send in forms of their own. reports.Rules is one; in JSON
// it is the rules as they are published.
type Reports interface {
	Read(name string, body []byte, now time.Time) (windsock.Report, error) // ErrNotFound: there is no such rule
}

// Finder is what reports ask of the store.
type Finder interface {
	Find(context.Context, []windsock.Lookup) ([][]string, error) // the ids of all that each names
	NoteUnmatched(context.Context, []windsock.Unmatched) error
	Unmatched(context.Context) ([]windsock.Unmatched, error)
}

// A report is read as a whole before any of it is recorded, and then takes memory many times
// its size.
const (
	maxReport    = 16 << 20 // bytes
	largeReports = 2        // at a time
)

// What came of an item of a report.
const (
	itemRecorded  = "recorded"
	itemIgnored   = "ignored"   // it says nothing
	itemUnmatched = "unmatched" // nobody declared what it names
	itemRefused   = "refused"
)

// reported answers a report.
type reported struct {
	Result    string         `json:"result"`
	DryRun    bool           `json:"dry_run,omitempty"` // this is what would be recorded
	Recorded  int            `json:"recorded"`
	Ignored   int            `json:"ignored"`
	Unmatched int            `json:"unmatched"`
	Refused   int            `json:"refused"`
	Omitted   int64          `json:"omitted,omitempty"` // by the sender, as it says
	Items     []reportedItem `json:"items"`             // in order
}

type reportedItem struct {
	Result     string              `json:"result"`
	Why        string              `json:"why,omitempty"`
	Subject    string              `json:"subject,omitempty"` // as it is named, if that matches nothing
	Detections []reportedDetection `json:"detections,omitempty"`

	reading *windsock.Reading
	unknown windsock.Lookup
}

type reportedDetection struct {
	DeploymentID string         `json:"deployment_id,omitempty"`
	InstanceID   string         `json:"instance_id,omitempty"`
	Word         windsock.Word  `json:"detection"`
	Source       string         `json:"source"`
	Changed      bool           `json:"changed"`
	Observed     windsock.State `json:"observed_state,omitempty"` // absent: not recorded
	EventSeq     *int64         `json:"event_seq,omitempty"`
	Problem      *problem       `json:"problem,omitempty"`

	subject windsock.Subject // with our id
}

// takeReport takes a report by the rule that is named in the path.
func (s *Server) takeReport(w http.ResponseWriter, r *http.Request) error {
	name, err := pathText(r, "name")
	if err != nil {
		return err
	}
	leave, err := enter(r, s.reports)
	if err != nil {
		return err
	}
	defer leave()
	body, _, err := readTyped(w, r, maxReport, typeJSON)
	if err != nil {
		return err
	}
	q := queryOf(r)
	dry := q.flag("dry_run")
	if q.err != nil {
		return q.err
	}
	done, err := s.report(r, name, body, dry != nil && *dry)
	if errors.Is(err, windsock.ErrNotFound) {
		return at("name", err)
	}
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, done)
}

// report reads a report, and records what it says: all of it, or nothing.
func (s *Server) report(r *http.Request, name string, body []byte, dry bool) (*reported, error) {
	if s.Reports == nil {
		return nil, windsock.ErrNotFound
	}
	if own := windsock.PrincipalOf(r.Context()); own.MonitorID != "" { // each item has a source of its own
		return nil, fmt.Errorf("%s is a monitor's, which is the one source of what it reports: %w", own.Name, windsock.ErrForbidden)
	}
	if tooDeep(body) {
		return nil, windsock.Invalid("body", "has more than %d objects and lists in each other", maxDepth)
	}
	read, err := s.Reports.Read(name, body, time.Now())
	if err != nil {
		return nil, err
	}
	done := &reported{Result: success, DryRun: dry, Omitted: read.Omitted, Items: make([]reportedItem, len(read.Readings))}
	for i := range done.Items {
		done.Items[i].reading = &read.Readings[i]
	}
	if err := s.find(r.Context(), done.Items); err != nil {
		return nil, err
	}
	if !dry {
		if err := s.recordItems(r, done.Items); err != nil {
			return nil, err
		}
		if err := s.noteUnmatched(r.Context(), name, done.Items); err != nil {
			return nil, err
		}
	}
	for i := range done.Items {
		done.count(done.Items[i].Result)
		if !dry {
			s.metrics.reports.WithLabelValues(name, done.Items[i].Result).Inc()
		}
	}
	return done, nil
}

func (d *reported) count(result string) {
	switch result {
	case itemRecorded:
		d.Recorded++
	case itemIgnored:
		d.Ignored++
	case itemUnmatched:
		d.Unmatched++
	case itemRefused:
		d.Refused++
	}
}

// find says of each item what becomes of it, and of what it is.
func (s *Server) find(ctx context.Context, items []reportedItem) error {
	lookups := make([]windsock.Lookup, 0, len(items)) // mostly one each
	for i := range items {
		lookups = append(lookups, items[i].reading.Named...)
	}
	ids, err := s.Store.Find(ctx, lookups)
	if err != nil {
		return err
	}
	for i := range items {
		it := &items[i]
		read := it.reading
		if read.Ignored != "" {
			it.Result, it.Why = itemIgnored, read.Ignored
			continue
		}
		of := ids[:len(read.Named)]
		ids = ids[len(read.Named):]
		var why string
		it.Detections, why = detectionsOf(read, of)
		switch {
		case len(it.Detections) > 0:
			it.Result = itemRecorded
		case read.Said.Lifts:
			it.Result, it.Why = itemIgnored, "there is nothing of which it could end a failure"
		default:
			it.miss(read.Named[0], why)
		}
		if own, ok := scopeOf(ctx); ok && it.Result == itemUnmatched { // as if it had been declared elsewhere
			it.Result, it.Why = itemRefused, fmt.Sprintf("nothing of this name lies in %s, on which alone this token may report", own)
		}
	}
	return nil
}

// scopeOf is on what alone the caller may report, if it is not on everything.
func scopeOf(ctx context.Context) (own windsock.Scope, ok bool) {
	own = windsock.PrincipalOf(ctx).Scope
	return own, own != "" && own != windsock.Global
}

// miss notes that nothing is known that is named so.
func (it *reportedItem) miss(named windsock.Lookup, why string) {
	it.Result, it.Why, it.Subject, it.unknown = itemUnmatched, why, named.Value, named
}

// detectionsOf is what a reading says of each that it names: the first that only one thing
// has, and all that have the metadata.
func detectionsOf(read *windsock.Reading, ids [][]string) (list []reportedDetection, why string) {
	why = "nothing that is declared is named so"
	seen := map[string]bool{}
	found := false
	for i, l := range read.Named {
		_, many := l.By.Key()
		switch {
		case len(ids[i]) == 0, found && !many:
			continue
		case len(ids[i]) > 1 && !many:
			why = "several have this " + string(l.By)
			continue
		}
		found = found || !many
		for _, id := range ids[i] {
			if seen[id] {
				continue
			}
			seen[id] = true
			d := reportedDetection{Word: read.Word(), Source: read.Said.Source, subject: windsock.Subject{Kind: l.Kind, ID: id}}
			if l.Kind == windsock.KindDeployment {
				d.DeploymentID = id
			} else {
				d.InstanceID = id
			}
			list = append(list, d)
		}
	}
	return list, why
}

// recordItems records what the items say, together.
func (s *Server) recordItems(r *http.Request, items []reportedItem) error {
	said := make([]windsock.Observation, 0, len(items))
	for i := range items {
		for j := range items[i].Detections {
			o := items[i].reading.Said
			o.Subject = items[i].Detections[j].subject
			said = append(said, o)
		}
	}
	if len(said) == 0 {
		return nil
	}
	outs, err := s.Store.Record(r.Context(), said)
	if err != nil {
		return err
	}
	for i := range items {
		n := len(items[i].Detections)
		s.settle(r, &items[i], outs[:n])
		outs = outs[n:]
	}
	return nil
}

// settle says what came of what an item says.
func (s *Server) settle(r *http.Request, it *reportedItem, outs []windsock.Outcome) {
	var gone, no int
	for i := range outs {
		d, out := &it.Detections[i], &outs[i]
		result := unchanged
		switch {
		case out.Err != nil:
			p := s.explain(r, out.Err)
			d.Problem, result = &p, refused
			no++
			if errors.Is(out.Err, windsock.ErrNotFound) { // it was there when we looked
				gone++
			}
		case out.Changed:
			d.Changed, d.Observed, d.EventSeq, result = true, out.State, &out.EventSeq, changed
		default:
			d.Observed = out.State
		}
		s.metrics.detected(d.subject.Kind, d.Word, result)
	}
	switch n := len(outs); {
	case n == 0 || no < n:
	case gone == n:
		it.miss(it.reading.Named[0], "it is not declared any more")
	default:
		it.Result, it.Why = itemRefused, it.Detections[0].Problem.Detail
	}
}

// noteUnmatched keeps what nobody declared, once for each.
func (s *Server) noteUnmatched(ctx context.Context, name string, items []reportedItem) error {
	var list []windsock.Unmatched
	places := map[windsock.Subject]int{}
	for i := range items {
		it := &items[i]
		if it.Result != itemUnmatched {
			continue
		}
		subject := windsock.Subject{Kind: it.unknown.Kind, ID: it.unknown.Value}
		at, again := places[subject]
		if !again {
			at = len(list)
			places[subject] = at
			list = append(list, windsock.Unmatched{Report: name, Kind: subject.Kind, Subject: subject.ID})
		}
		u := &list[at]
		u.Count++
		u.Why, u.Word, u.Reason = it.Why, it.reading.Word(), windsock.Clip(it.reading.Said.Reason)
	}
	if len(list) == 0 {
		return nil
	}
	return s.Store.NoteUnmatched(ctx, list)
}

// listReports shows the rules by which reports are read.
func (s *Server) listReports(w http.ResponseWriter, r *http.Request) error {
	return represent(w, r, http.StatusOK, struct {
		Reports Reports `json:"reports"`
	}{s.Reports})
}

func (s *Server) listUnmatched(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Store.Unmatched(r.Context())
	if err != nil {
		return err
	}
	return represent(w, r, http.StatusOK, struct {
		Unmatched []windsock.Unmatched `json:"unmatched"`
	}{list})
}
