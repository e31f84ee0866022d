package monitors

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"windsock"
)

// The formats of others, which programs read that know nothing of windsock: each event is
// one request to the monitor's path as it is.
//
//   - Alertmanager's webhook, version 4: github.com/prometheus/alertmanager, notify/webhook
//     and template.
//   - CloudEvents 1.0.2 in structured mode: its JSON format and HTTP binding.
//   - Slack's incoming webhooks, which Mattermost, Rocket.Chat and Discord (at …/slack) take.

var foreign = []windsock.Format{windsock.Alertmanager, windsock.CloudEvents, windsock.Slack}

// rendered is what such a request carries.
type rendered struct {
	contentType string
	body        any
}

// render returns how the monitor is told of n.
func (d *Deliverer) render(t *windsock.Target, n *notice) rendered {
	switch t.Format {
	case windsock.Alertmanager:
		return rendered{"application/json", alertsOf(t, n)}
	case windsock.CloudEvents:
		n.once.Do(n.encode)
		e := &n.Event
		return rendered{"application/cloudevents+json", cloudEvent{
			SpecVersion: "1.0", ID: e.ID, Source: d.Source, Type: "windsock." + string(e.Type), Subject: string(e.Kind) + "/" + e.SubjectID,
			Time: stamp(e.Time), Sequence: sequence(e.Seq), Trace: e.Trace, ContentType: "application/json", Data: n.body,
		}}
	}
	return rendered{"application/json", chat{n.text()}}
}

// pinged returns how the monitor is told nothing.
func (d *Deliverer) pinged(t *windsock.Target, id string, p ping) rendered {
	switch t.Format {
	case windsock.Alertmanager: // who gets alerts may well act on any, so there is none
		return rendered{"application/json", webhook{Version: "4", Receiver: t.ID, Status: "resolved", GroupKey: "{}:{}",
			Alerts: []alert{}, GroupLabels: model.LabelSet{}, CommonLabels: model.LabelSet{}, CommonAnnotations: annotations{}}}
	case windsock.CloudEvents:
		data, _ := json.Marshal(p) // text: it cannot fail
		return rendered{"application/cloudevents+json", cloudEvent{
			SpecVersion: "1.0", ID: id, Source: d.Source, Type: "windsock." + p.Type, Subject: "monitor/" + t.ID,
			Time: p.Time, ContentType: "application/json", Data: data,
		}}
	}
	return rendered{"application/json", chat{":wave: windsock pings this channel: nothing happened."}}
}

// request makes the headers and the body of it.
func (r rendered) request(id, version string) (http.Header, []byte) {
	body, _ := json.Marshal(r.body) // text, numbers, maps of text, and JSON that we made: it cannot fail
	header := plainHeader(ceText(id), version)
	header["Content-Type"] = []string{r.contentType}
	return header, body
}

type cloudEvent struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Subject     string `json:"subject"`
	Time        string `json:"time"`
	Sequence    string `json:"sequence,omitempty"`
	windsock.Trace
	ContentType string          `json:"datacontenttype"`
	Data        json.RawMessage `json:"data"`
}

// webhook is a body of Alertmanager's: one group, and here of one alert.
type webhook struct {
	Version           string         `json:"version"`
	GroupKey          string         `json:"groupKey"`
	TruncatedAlerts   int            `json:"truncatedAlerts"`
	Status            string         `json:"status"`
	Receiver          string         `json:"receiver"`
	GroupLabels       model.LabelSet `json:"groupLabels"`
	CommonLabels      model.LabelSet `json:"commonLabels"`
	CommonAnnotations annotations    `json:"commonAnnotations"`
	ExternalURL       string         `json:"externalURL"`
	Alerts            []alert        `json:"alerts"`
}

type annotations map[string]string

type alert struct {
	Status       string         `json:"status"` // firing or resolved
	Labels       model.LabelSet `json:"labels"`
	Annotations  annotations    `json:"annotations"`
	StartsAt     time.Time      `json:"startsAt"`
	EndsAt       time.Time      `json:"endsAt"` // zero while it fires
	GeneratorURL string         `json:"generatorURL"`
	Fingerprint  string         `json:"fingerprint"`
}

// alertName is what an alert about a subject of a kind is called.
var alertName = map[windsock.Kind]model.LabelValue{
	windsock.KindDeployment: "DeploymentFailed",
	windsock.KindInstance:   "InstanceFailed",
	windsock.KindComponent:  "ComponentFailed",
	windsock.KindProvider:   "ProviderLost",
	windsock.KindMonitor:    "MonitorNotCalled",
	windsock.KindLog:        "EventsLost",
}

// alertsOf makes an alert of an event. Its labels are what the subject is and never how,
// so that the one that is resolved has the fingerprint of the one that fired, and starts
// when that did.
func alertsOf(t *windsock.Target, n *notice) webhook {
	e := &n.Event
	labels := model.LabelSet{"alertname": alertName[e.Kind]}
	for name, value := range map[model.LabelName]string{"deployment": e.DeploymentID, "provider": e.Provider, "pool": e.Pool} {
		if value != "" {
			labels[name] = model.LabelValue(value)
		}
	}
	labels[model.LabelName(e.Kind)] = model.LabelValue(e.SubjectID)
	a := alert{
		Status: "resolved", Labels: labels, StartsAt: e.Time.UTC(), EndsAt: e.Time.UTC(), Fingerprint: labels.Fingerprint().String(),
		Annotations: annotations{"summary": n.summary(), "type": string(e.Type), "seq": fmt.Sprint(e.Seq)},
	}
	if fires(e) {
		a.Status, a.EndsAt = "firing", time.Time{}
	} else if !e.PreviousSince.IsZero() {
		a.StartsAt = e.PreviousSince.UTC()
	}
	for name, value := range map[string]string{
		"description": e.Reason, "source": e.Source, "detection": string(e.Word),
		"observed_state": string(e.State), "previous_state": string(e.Previous), "expected_state": string(e.Expected),
		"instances": strings.Join(e.Instances, ", "), "affected": strings.Join(e.Affected, ", "),
	} {
		if value != "" {
			a.Annotations[name] = value
		}
	}
	for key, value := range e.Metadata {
		a.Annotations["metadata_"+key] = value
	}
	group := model.LabelSet{"alertname": labels["alertname"], model.LabelName(e.Kind): labels[model.LabelName(e.Kind)]}
	return webhook{
		Version: "4", GroupKey: "{}:" + group.String(), Status: a.Status, Receiver: t.ID,
		GroupLabels: group, CommonLabels: labels, CommonAnnotations: a.Annotations, Alerts: []alert{a},
	}
}

// trouble are the events without a state that somebody should look after.
var troubling = []windsock.EventType{windsock.MonitorPaused, windsock.MonitorExpiring, windsock.MonitorExpired, windsock.LogGap, windsock.ProviderLost}

// fires reports whether something is wrong since the event.
func fires(e *windsock.Event) bool {
	if c := e.Component; c != nil {
		return c.State == windsock.ComponentFailed || c.State == windsock.ComponentTimedOut
	}
	return windsock.Heard(e.State) == windsock.FailDetected || slices.Contains(troubling, e.Type)
}

type chat struct {
	Text string `json:"text"`
}

// badge is what a line begins with.
var badge = map[windsock.Word]string{
	windsock.StartDetected: ":large_green_circle:",
	windsock.FailDetected:  ":red_circle:",
	windsock.StopDetected:  ":black_circle:",
}

// unmarked takes from a text what Slack would read as a mention or a link, as
// api.slack.com/reference/surfaces/formatting has it.
var unmarked = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// text says in a line of a chat what happened.
func (n *notice) text() string {
	e := &n.Event
	mark, word := badge[e.Word], string(e.Word)
	if mark == "" {
		mark, word = ":information_source:", string(e.Type)
		if fires(e) {
			mark = ":warning:"
		}
	}
	text := fmt.Sprintf("%s *%s* %s", mark, word, n.summary())
	if e.Source != "" && e.Source != windsock.RollupSource {
		text += " (" + e.Source + ")"
	}
	return unmarked.Replace(text)
}

// some names the first of them.
func some(what string, ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	named := ids[:min(len(ids), 5)]
	text := "; " + what + ": " + strings.Join(named, ", ")
	if more := len(ids) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// summary says in a line what the event is about, and why it is so.
func (n *notice) summary() string {
	e := &n.Event
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.Kind, e.SubjectID)
	if e.Kind == windsock.KindInstance {
		fmt.Fprintf(&b, " of %s", e.DeploymentID)
	}
	if e.State != "" {
		fmt.Fprintf(&b, " is %s", e.State)
	}
	if c := e.Component; c != nil {
		fmt.Fprintf(&b, " is %s", strings.ReplaceAll(string(c.State), "_", " "))
	}
	if e.Previous != "" && e.Previous != e.State {
		fmt.Fprintf(&b, ", was %s", e.Previous)
		if !e.PreviousSince.IsZero() {
			fmt.Fprintf(&b, " for %s", e.Time.Sub(e.PreviousSince).Round(time.Second))
		}
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	b.WriteString(some("failing", e.Instances))
	b.WriteString(some("affected", e.Affected))
	if e.Lost > 0 {
		fmt.Fprintf(&b, "; %d events were lost", e.Lost)
	}
	if n.oldest != nil {
		fmt.Fprintf(&b, "; the newest of %d events", n.stands)
	}
	return b.String()
}
