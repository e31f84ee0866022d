package windsock

import (
	"encoding/json"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The bounds of what may be declared or said.
const (
	maxID       = 255
	maxName     = 255
	maxPath     = 1024
	maxMetadata = 64       // entries
	maxValue    = 4096     // bytes of a metadata value
	maxReason   = 4 * 1024 // bytes; a longer reason is cut, not refused: the word matters more
	MaxTTL      = 366 * 24 * time.Hour
)

// DeploymentSpec is what an owner declares of a deployment.
type DeploymentSpec struct {
	ID               string            `json:"id"`
	Name             string            `json:"name,omitempty"`
	Provider         string            `json:"provider,omitempty"`    // default "static"
	ProviderID       string            `json:"provider_id,omitempty"` // the provider's own id for it
	Pool             string            `json:"pool,omitempty"`
	Expected         State             `json:"expected_state,omitempty"`   // default running
	Rule             Rule              `json:"rule,omitempty"`             // default all
	Quorum           int               `json:"quorum,omitempty"`           // distinct sources it takes to believe a failure; default 1
	Flap             string            `json:"flap,omitempty"`             // "on" (default): callbacks wait while it or an instance flaps; "off"
	MaintenanceUntil time.Time         `json:"maintenance_until,omitzero"` // until then no callbacks of it and its instances
	DependsOn        []string          `json:"depends_on,omitempty"`       // the ids of deployments; while one of them is down, that it fails is held back
	Metadata         map[string]string `json:"metadata,omitempty"`         // told in every callback

	Deployable string            `json:"deployable,omitempty"` // the id of the description it is made by
	Parameters map[string]any    `json:"parameters,omitempty"` // of that
	Members    map[string]string `json:"instances,omitempty"`  // by the names of its servers, the ids of those that take their place; is not kept here: they get them as assembly
}

// InstanceSpec is what an owner declares of an instance.
type InstanceSpec struct {
	ID               string            `json:"id"`
	DeploymentID     string            `json:"deployment_id"`
	Name             string            `json:"name,omitempty"`
	Assembly         string            `json:"assembly,omitempty"`    // the part of the deployable it came of
	ProviderID       string            `json:"provider_id,omitempty"` // the provider's own id for it
	Address          string            `json:"address,omitempty"`
	Expected         State             `json:"expected_state,omitempty"`   // default running
	MaintenanceUntil time.Time         `json:"maintenance_until,omitzero"` // until then no callbacks of it
	Metadata         map[string]string `json:"metadata,omitempty"`
	Probe            *Probe            `json:"probe,omitempty"`
}

// ProbeType says how a probe looks.
type ProbeType string

// The probes there are.
const (
	ProbeHTTP ProbeType = "http"
	ProbeTCP  ProbeType = "tcp"
	ProbeExec ProbeType = "exec"
)

// Probe says how to see whether an instance works.
type Probe struct {
	Type     ProbeType `json:"type"`
	Target   string    `json:"target,omitempty"`   // http: a URL; tcp: host:port
	Command  []string  `json:"command,omitempty"`  // exec: a Nagios plugin and its arguments
	Status   int       `json:"status,omitempty"`   // http: the one status that passes; default any of 200–399
	Interval Duration  `json:"interval,omitempty"` // from one look to the next; default 10 s
	Timeout  Duration  `json:"timeout,omitempty"`  // of one look; default 5 s, at most the interval
	Fails    int       `json:"fails,omitempty"`    // failures in a row that make it failed; default 2
	Passes   int       `json:"passes,omitempty"`   // successes in a row that make it running; default 2
}

// MonitorSpec is what a monitor says of itself when it is added.
type MonitorSpec struct {
	Version    string     `json:"version,omitempty"`
	Name       string     `json:"name,omitempty"`
	Scheme     string     `json:"scheme,omitempty"` // http (default) or https
	Address    string     `json:"address"`          // IP or name
	Port       int        `json:"port"`
	Path       string     `json:"path,omitempty"`       // before /api/deployment/…
	Scope      Scope      `json:"scope,omitempty"`      // default global
	Detections Detections `json:"detections,omitempty"` // default the three words
	Subjects   Subjects   `json:"subjects,omitempty"`   // default both
	Echo       bool       `json:"echo,omitempty"`       // call back for what it reported itself
	Parallel   int        `json:"parallel,omitempty"`   // requests under way at once, each about another subject; default 16
	Format     Format     `json:"format,omitempty"`     // default seed
	Backlog    Backlog    `json:"backlog,omitempty"`    // every (default) or latest
	Verify     bool       `json:"verify,omitempty"`     // call back only once it allowed that
	TTL        Duration   `json:"ttl,omitempty"`        // it is removed unless it is added again within it; 0: it stays
}

// Format says how a monitor is told.
type Format string

// The formats.
const (
	Seed         Format = "seed"         // each event by a callback of its own
	Batch        Format = "batch"        // many events by one
	Alertmanager Format = "alertmanager" // each as an alert, as Alertmanager's webhook has it
	CloudEvents  Format = "cloudevents"  // each as a CloudEvent in structured mode
	Slack        Format = "slack"        // each as a line in a chat
)

var formats = []Format{Seed, Batch, Alertmanager, CloudEvents, Slack}

// Duration is a time.Duration that is written as in "90s" and read also as a number
// of seconds.
type Duration time.Duration

// UnmarshalText reads "1m30s" or "90".
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	v, err := time.ParseDuration(s)
	if secs, numErr := strconv.ParseFloat(s, 64); numErr == nil && math.Abs(secs) <= MaxTTL.Seconds() {
		v, err = time.Duration(secs*float64(time.Second)), nil
	}
	if err != nil || v < 0 || v > MaxTTL {
		return Invalid("", "want seconds or a duration such as 90s or 5m, of at most a year; got %q", Clip(s))
	}
	*d = Duration(v)
	return nil
}

// UnmarshalJSON reads a string as UnmarshalText does, or a number of seconds.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) != nil {
		s = string(data)
	}
	return d.UnmarshalText([]byte(s))
}

// MarshalText writes it as in "1m30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Complete fills in the defaults and returns a FieldError when the deployment cannot be.
func (s *DeploymentSpec) Complete() error {
	setDefault(&s.Provider, "static")
	setDefault(&s.Expected, Running)
	setDefault(&s.Rule, "all")
	setDefault(&s.Quorum, 1)
	setDefault(&s.Flap, "on")
	if s.Flap != "on" && s.Flap != "off" {
		return Invalid("flap", "want on or off, got %q", Clip(s.Flap))
	}
	if _, ok := s.Rule.atLeast(1); !ok {
		return Invalid("rule", "want all, any or min:k with a k above 0; got %q", Clip(string(s.Rule)))
	}
	if s.Quorum < 1 || s.Quorum > 100 {
		return Invalid("quorum", "want 1 to 100, got %d", s.Quorum)
	}
	return firstError(
		ValidID("id", s.ID),
		checkText("name", s.Name, 0, maxName),
		checkText("provider", s.Provider, 0, maxID),
		checkText("provider_id", s.ProviderID, 0, maxID),
		checkText("pool", s.Pool, 0, maxID),
		checkExpected(s.Expected),
		completeMaintenance(&s.MaintenanceUntil),
		checkDepends(s.ID, s.DependsOn),
		checkMetadata(s.Metadata),
		s.checkSoftware(),
	)
}

// completeMaintenance brings a time into the form in which it is kept.
func completeMaintenance(until *time.Time) error {
	if !until.IsZero() && (until.Year() < 2000 || until.Year() > 9999) {
		return Invalid("maintenance_until", "want a time of this age")
	}
	*until = until.UTC().Truncate(time.Microsecond)
	return nil
}

// Complete fills in the defaults and returns a FieldError when the instance cannot be.
func (s *InstanceSpec) Complete() error {
	setDefault(&s.Expected, Running)
	err := firstError(
		ValidID("id", s.ID),
		ValidID("deployment_id", s.DeploymentID),
		checkText("name", s.Name, 0, maxName),
		checkText("assembly", s.Assembly, 0, maxName),
		checkText("provider_id", s.ProviderID, 0, maxID),
		checkText("address", s.Address, 0, maxName),
		checkExpected(s.Expected),
		completeMaintenance(&s.MaintenanceUntil),
		checkMetadata(s.Metadata),
	)
	if err != nil || s.Probe == nil {
		return err
	}
	return s.Probe.Complete()
}

// Complete fills in the defaults and returns a FieldError, of "probe.…", when it cannot be.
func (p *Probe) Complete() error {
	setDefault(&p.Interval, Duration(10*time.Second))
	setDefault(&p.Timeout, min(Duration(5*time.Second), p.Interval))
	setDefault(&p.Fails, 2)
	setDefault(&p.Passes, 2)
	switch {
	case p.Interval < Duration(100*time.Millisecond) || p.Interval > Duration(24*time.Hour):
		return Invalid("probe.interval", "want 100ms to 24h, got %s", time.Duration(p.Interval))
	case p.Timeout < Duration(time.Millisecond) || p.Timeout > p.Interval:
		return Invalid("probe.timeout", "want 1ms to the interval, %s; got %s", time.Duration(p.Interval), time.Duration(p.Timeout))
	case p.Fails < 1 || p.Fails > 100:
		return Invalid("probe.fails", "want 1 to 100, got %d", p.Fails)
	case p.Passes < 1 || p.Passes > 100:
		return Invalid("probe.passes", "want 1 to 100, got %d", p.Passes)
	case p.Status != 0 && (p.Type != ProbeHTTP || p.Status < 100 || p.Status > 599):
		return Invalid("probe.status", "want an HTTP status, for an http probe; got %d", p.Status)
	case p.Type != ProbeExec && len(p.Command) > 0:
		return Invalid("probe.command", "only an exec probe has one")
	case p.Type == ProbeExec && p.Target != "":
		return Invalid("probe.target", "an exec probe has none")
	}
	switch p.Type {
	case ProbeHTTP:
		u, err := url.Parse(p.Target)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || !(u.Port() == "" || isPort(u.Port())) {
			return Invalid("probe.target", "want an http or https URL without a user")
		}
	case ProbeTCP:
		host, port, err := net.SplitHostPort(p.Target)
		if err != nil || host == "" || !isPort(port) {
			return Invalid("probe.target", "want host:port, got %q", Clip(p.Target))
		}
	case ProbeExec:
		if len(p.Command) == 0 || !strings.HasPrefix(p.Command[0], "/") || len(p.Command) > 100 {
			return Invalid("probe.command", "want the absolute path of a plugin and its arguments, at most 100")
		}
		for _, arg := range p.Command {
			if err := checkText("probe.command", arg, 0, maxValue); err != nil {
				return err
			}
		}
	default:
		return Invalid("probe.type", "want http, tcp or exec; got %q", Clip(string(p.Type)))
	}
	return checkText("probe.target", p.Target, 0, maxValue)
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 1 && n <= 65535
}

// Complete fills in the defaults, brings the address into its one form, and returns a
// FieldError when the monitor cannot be.
func (s *MonitorSpec) Complete() error {
	setDefault(&s.Scheme, "http")
	setDefault(&s.Scope, Global)
	setDefault(&s.Subjects, Both)
	setDefault(&s.Parallel, 16)
	setDefault(&s.Format, Seed)
	setDefault(&s.Backlog, Every)
	switch {
	case s.Scheme != "http" && s.Scheme != "https":
		return Invalid("scheme", "want http or https, got %q", Clip(s.Scheme))
	case s.Port < 1 || s.Port > 65535:
		return Invalid("port", "want 1 to 65535, got %d", s.Port)
	case s.Parallel < 1 || s.Parallel > 64:
		return Invalid("parallel", "want 1 to 64, got %d", s.Parallel)
	case !slices.Contains(formats, s.Format):
		return Invalid("format", "want seed, batch, alertmanager, cloudevents or slack; got %q", Clip(string(s.Format)))
	case s.Backlog != Every && s.Backlog != Latest:
		return Invalid("backlog", "want every or latest, got %q", Clip(string(s.Backlog)))
	case s.Subjects != Both && s.Subjects != OnlyDeployments && s.Subjects != OnlyInstances:
		return Invalid("subjects", "want deployments, instances or both; got %q", Clip(string(s.Subjects)))
	}
	err := firstError(
		CheckVersion(s.Version),
		checkAddress(s.Address),
		checkPath(s.Path),
		checkText("name", s.Name, 0, maxName),
		s.Scope.Validate(),
		s.Detections.Validate(),
		checkLease(s.TTL),
	)
	s.Version = Version
	s.Address = CanonicalAddress(s.Address)
	s.Path = strings.TrimRight(s.Path, "/")
	return err
}

// CheckVersion returns a FieldError unless v is a version of the monitoring API that
// is supported; none is the current one.
func CheckVersion(v string) error {
	if v != "" && v != Version {
		return Invalid("version", "supported is %q; got %q", Version, Clip(v))
	}
	return nil
}

// ParseWord returns the word, or a FieldError.
func ParseWord(field, s string) (Word, error) {
	if w := Word(s); w.State() != "" {
		return w, nil
	}
	if s == "" {
		return "", Invalid(field, "is required: one of %s", nameWords())
	}
	return "", Invalid(field, "want one of %s; got %q", nameWords(), Clip(s))
}

// CheckSource returns a FieldError when a reporter may not call itself that.
func CheckSource(s string) error {
	for _, own := range [...]string{"probe", string(FromProvider), string(FromMonitor), RollupSource} {
		if s == own || strings.HasPrefix(s, own+":") {
			return Invalid("source", "%q is reserved", Clip(s))
		}
	}
	return checkText("source", s, 1, maxID)
}

// CutReason returns a reason of a length that is kept.
func CutReason(s string) string {
	if len(s) <= maxReason {
		return s
	}
	return strings.ToValidUTF8(s[:maxReason-len("…")], "") + "…"
}

// CheckReason returns a FieldError when s is no text.
func CheckReason(s string) error { return checkText("reason", s, 0, 1<<20) }

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~:@+-]{0,254}$`)

// ValidID returns a FieldError unless id can be one of ours: such ids need no escape
// in a URL, a shell or a table.
func ValidID(field, id string) error {
	switch {
	case id == "":
		return Invalid(field, "is required")
	case !idPattern.MatchString(id):
		return Invalid(field, "want a letter or digit and up to 254 more of those or ._~:@+-; got %q", Clip(id))
	}
	return nil
}

// LookupID returns a FieldError unless id can be ours or a provider's.
func LookupID(field, id string) error { return checkText(field, id, 1, maxID) }

var hostPattern = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?$`)

// CanonicalAddress returns the one form of an IP or a DNS name, so that the same monitor
// is found again however its address was written.
func CanonicalAddress(s string) string {
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(s, "."))
}

// checkAddress takes an IP or a DNS name. A name whose last label starts with a digit
// is refused (RFC 3696, section 2): it is an IP gone wrong, such as 10.0.0.300, or one
// that resolvers read in their own ways, such as 0x7f.1.
func checkAddress(s string) error {
	if s == "" {
		return Invalid("address", "is required")
	}
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		return nil
	}
	if len(s) > 253 || !hostPattern.MatchString(s) {
		return Invalid("address", "want an IP address or a DNS name, got %q", Clip(s))
	}
	return nil
}

func checkPath(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || s[0] != '/' || strings.HasPrefix(s, "//") || u.Host != "" || strings.ContainsAny(s, "?#\\ ") {
		return Invalid("path", "want a path that starts with one slash, without query or fragment")
	}
	for seg := range strings.SplitSeq(u.Path, "/") {
		if seg == "." || seg == ".." {
			return Invalid("path", "want no . or .. in it")
		}
	}
	return checkText("path", s, 1, maxPath)
}

func checkExpected(s State) error {
	if s != Running && s != Stopped && s != Gone {
		return Invalid("expected_state", "want running, stopped or gone; got %q", Clip(string(s)))
	}
	return nil
}

func checkMetadata(m map[string]string) error {
	if len(m) > maxMetadata {
		return Invalid("metadata", "at most %d entries, got %d", maxMetadata, len(m))
	}
	for k, v := range m {
		if err := checkText("metadata", k, 1, maxID); err != nil {
			return err
		}
		if err := checkText("metadata."+k, v, 0, maxValue); err != nil {
			return err
		}
	}
	return nil
}

// checkText takes text of least to most bytes that any database and terminal bears:
// UTF-8 without control characters other than line breaks and tabs.
func checkText(field, s string, least, most int) error {
	switch {
	case len(s) < least:
		return Invalid(field, "is required")
	case len(s) > most:
		return Invalid(field, "at most %d bytes, got %d", most, len(s))
	case !utf8.ValidString(s):
		return Invalid(field, "is not UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }):
		return Invalid(field, "holds a control character")
	}
	return nil
}

// Clip shortens what a stranger sent, to be shown to him again.
func Clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:61], "") + "…"
	}
	return s
}

func firstError(errs ...error) error {
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
