package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"windsock"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// detection is what a monitor posts of one subject.
type detection struct {
	Version    string             `json:"version"`
	State      string             `json:"state"`
	Source     string             `json:"source"`
	MonitorID  string             `json:"monitor_id"`
	Reason     string             `json:"reason"`
	DetectedAt string             `json:"detected_at"`
	TTL        *windsock.Duration `json:"ttl"`
	Intent     string             `json:"intent"`
}

// requested is the one intent: somebody asked for what was detected.
const requested = "requested"

// unnamed is the source of who names none.
const unnamed = "unnamed"

// recorded answers a detection.
type recorded struct {
	Result       string         `json:"result"`
	Changed      bool           `json:"changed"`
	Observed     windsock.State `json:"observed_state"`
	EventSeq     *int64         `json:"event_seq"` // null: unchanged
	DeploymentID string         `json:"deployment_id,omitempty"`
	InstanceID   string         `json:"instance_id,omitempty"`
}

// success is the result of a call of the monitor API that was done.
const success = "success"

// detect takes one detection for the subject in the path.
func (s *Server) detect(kind windsock.Kind) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var d detection
		out, err := s.recordOne(w, r, kind, &d)
		s.count(r, kind, d, out, err)
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, recordedOf(out))
	}
}

func (s *Server) recordOne(w http.ResponseWriter, r *http.Request, kind windsock.Kind, d *detection) (windsock.Outcome, error) {
	id, err := pathText(r, "id")
	if err != nil {
		return windsock.Outcome{}, err
	}
	if err := decode(w, r, d, typeForm); err != nil {
		return windsock.Outcome{}, err
	}
	o, err := s.observation(r.Context(), *d, windsock.Subject{Kind: kind, ID: id})
	if err != nil {
		return windsock.Outcome{}, err
	}
	outs, err := s.Store.Record(r.Context(), []windsock.Observation{o})
	if err != nil {
		return windsock.Outcome{}, err
	}
	return outs[0], refusal("id", outs[0].Err)
}

// observation returns what the detection says, or why it cannot be.
func (s *Server) observation(ctx context.Context, d detection, subject windsock.Subject) (windsock.Observation, error) {
	o := windsock.Observation{
		Subject:   subject,
		Origin:    windsock.FromMonitor,
		Reason:    windsock.CutReason(d.Reason),
		Requested: d.Intent == requested,
	}
	if err := windsock.CheckVersion(d.Version); err != nil {
		return o, err
	}
	word, err := windsock.ParseWord("state", d.State)
	if err != nil {
		return o, err
	}
	o.State = word.State()
	if err := windsock.CheckReason(d.Reason); err != nil {
		return o, err
	}
	if d.DetectedAt != "" {
		if o.ObservedAt, err = parseTime("detected_at", d.DetectedAt); err != nil {
			return o, err
		}
	}
	if d.TTL != nil {
		if o.TTL = time.Duration(*d.TTL); o.TTL <= 0 || o.TTL > windsock.MaxTTL {
			return o, windsock.Invalid("ttl", "want more than 0 and at most a year, got %v", o.TTL)
		}
	}
	if d.Intent != "" && d.Intent != requested {
		return o, windsock.Invalid("intent", "want %s or nothing, got %q", requested, windsock.Clip(d.Intent))
	}
	o.Source, err = s.source(ctx, d)
	return o, err
}

// source returns who says so: a monitor that is known by its token, whatever it calls itself.
func (s *Server) source(ctx context.Context, d detection) (string, error) {
	own := windsock.PrincipalOf(ctx).MonitorID
	switch {
	case own != "":
		return windsock.MonitorSource(own), nil
	case d.MonitorID != "" && d.Source != "":
		return "", windsock.Invalid("source", "is given by monitor_id already")
	case d.MonitorID != "":
		if err := windsock.ValidID("monitor_id", d.MonitorID); err != nil {
			return "", err
		}
		_, err := s.Store.Monitor(ctx, d.MonitorID)
		return windsock.MonitorSource(d.MonitorID), at("monitor_id", err)
	case d.Source != "":
		return d.Source, windsock.CheckSource(d.Source)
	}
	return unnamed, nil
}

// refusal says which field made the store refuse a detection: the one with the id of
// the subject, unless too many sources speak of that.
func refusal(id string, err error) error {
	if errors.Is(err, windsock.ErrTooMany) {
		return at("source", err)
	}
	return at(id, err)
}

func recordedOf(out windsock.Outcome) recorded {
	answer := recorded{Result: success, Changed: out.Changed, Observed: out.State}
	if out.EventSeq != 0 {
		answer.EventSeq = &out.EventSeq
	}
	if out.Subject.Kind == windsock.KindDeployment {
		answer.DeploymentID = out.Subject.ID
	} else {
		answer.InstanceID = out.Subject.ID
	}
	return answer
}

// count notes a detection, unless it is our fault that nothing came of it.
func (s *Server) count(r *http.Request, kind windsock.Kind, d detection, out windsock.Outcome, err error) {
	result := unchanged
	if errors.Is(err, windsock.ErrForbidden) {
		s.refused(r, refusedScope, windsock.PrincipalOf(r.Context()).Name)
	}
	switch {
	case err != nil && problemOf(err).Status >= http.StatusInternalServerError:
		return
	case err != nil:
		result = refused
	case out.Changed:
		result = changed
	}
	s.metrics.detected(kind, windsock.Word(d.State), result)
}

// maxBatch is how many detections one request holds at most.
const maxBatch = 1000

// entry is one detection of a batch.
type entry struct {
	DeploymentID string `json:"deployment_id"`
	InstanceID   string `json:"instance_id"`
	detection
}

// entries keeps the detections of a batch unread, so that a bad one spoils no other.
type entries []jsontext.Value

// UnmarshalJSONFrom reads a list of values, whatever they are.
func (e *entries) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '[' {
		return windsock.Invalid("", "want a list of detections")
	}
	dec.ReadToken()
	for dec.PeekKind() != ']' {
		if len(*e) == maxBatch {
			return windsock.Invalid("", "want at most %d detections", maxBatch)
		}
		var raw jsontext.Value
		err := json.UnmarshalDecode(dec, &raw, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		*e = append(*e, raw)
	}
	_, err := dec.ReadToken()
	return err
}

// detectMany takes up to maxBatch detections and answers each of them. They are recorded
// together, in order.
func (s *Server) detectMany(w http.ResponseWriter, r *http.Request) error {
	batch, err := readBatch(w, r)
	if err != nil {
		return err
	}
	var (
		results = make([]any, len(batch))
		read    = make([]entry, len(batch))
		sound   []windsock.Observation
		places  []int // of the sound ones in the batch
	)
	refuse := func(i int, err error) {
		s.count(r, read[i].kind(), read[i].detection, windsock.Outcome{}, err)
		results[i] = s.explain(r, err)
	}
	for i, raw := range batch {
		o, err := s.readEntry(r.Context(), raw, &read[i])
		switch {
		case errors.Is(err, windsock.ErrUnavailable):
			return err
		case err != nil:
			refuse(i, err)
		default:
			sound, places = append(sound, o), append(places, i)
		}
	}
	if len(sound) > 0 {
		outs, err := s.Store.Record(r.Context(), sound)
		if err != nil {
			return err
		}
		for j, out := range outs {
			i := places[j]
			if out.Err != nil {
				refuse(i, refusal(string(sound[j].Subject.Kind)+"_id", out.Err))
				continue
			}
			s.count(r, sound[j].Subject.Kind, read[i].detection, out, nil)
			results[i] = recordedOf(out)
		}
	}
	return answer(w, http.StatusOK, struct {
		Result  string `json:"result"`
		Results []any  `json:"results"`
	}{success, results})
}

// readBatch reads {"version": …, "detections": […]} or the bare list.
func readBatch(w http.ResponseWriter, r *http.Request) (entries, error) {
	body, _, err := readBody(w, r, typeJSON)
	if err != nil {
		return nil, err
	}
	var batch struct {
		Version    string  `json:"version"`
		Detections entries `json:"detections"`
	}
	if bytes.TrimSpace(body)[0] == '[' {
		err = decodeJSON(body, &batch.Detections)
	} else {
		err = decodeJSON(body, &batch)
	}
	if err == nil {
		err = windsock.CheckVersion(batch.Version)
	}
	if err == nil && len(batch.Detections) == 0 {
		err = windsock.Invalid("detections", "want 1 to %d", maxBatch)
	}
	return batch.Detections, err
}

func (s *Server) readEntry(ctx context.Context, raw []byte, e *entry) (windsock.Observation, error) {
	if err := decodeJSON(raw, e); err != nil {
		return windsock.Observation{}, err
	}
	subject := windsock.Subject{Kind: e.kind(), ID: e.DeploymentID + e.InstanceID}
	field := string(subject.Kind) + "_id"
	if e.DeploymentID != "" && e.InstanceID != "" {
		return windsock.Observation{}, windsock.Invalid(field, "want a deployment_id or an instance_id, not both")
	}
	if err := windsock.LookupID(field, subject.ID); err != nil {
		return windsock.Observation{}, err
	}
	return s.observation(ctx, e.detection, subject)
}

func (e *entry) kind() windsock.Kind {
	if e.DeploymentID != "" {
		return windsock.KindDeployment
	}
	return windsock.KindInstance
}
