// Package api is HTTP in: detections are posted, monitors added, the model declared and
// shown. Its contract is openapi.yaml.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"windsock"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
)

// A Recorder takes in what was observed: one Outcome for each, in order.
type Recorder interface {
	Record(context.Context, []windsock.Observation) ([]windsock.Outcome, error)
}

// A Model keeps what owners declare and shows it beside what is observed. An id is ours
// or, when that is unique, the provider's.
type Model interface {
	PutDeployment(context.Context, windsock.DeploymentSpec, windsock.Cond) (d windsock.Deployment, created bool, err error)
	PatchDeployment(ctx context.Context, id string, c windsock.Cond, change func(*windsock.DeploymentSpec) error) (windsock.Deployment, error)
	DeleteDeployment(ctx context.Context, id string, c windsock.Cond) error
	Deployment(ctx context.Context, id string) (windsock.Deployment, error)
	Deployments(context.Context, windsock.Filter) ([]windsock.Deployment, error)

	PutInstance(context.Context, windsock.InstanceSpec, windsock.Cond) (i windsock.Instance, created bool, err error)
	PatchInstance(ctx context.Context, id string, c windsock.Cond, change func(*windsock.InstanceSpec) error) (windsock.Instance, error)
	DeleteInstance(ctx context.Context, id string, c windsock.Cond) error
	Instance(ctx context.Context, id string) (windsock.Instance, error)
	Instances(context.Context, windsock.Filter) ([]windsock.Instance, error)

	// Availability has zero times be a day ago, and now.
	Availability(ctx context.Context, of windsock.Subject, from, to time.Time) (windsock.Availability, error)

	ClearEvidence(ctx context.Context, of windsock.Subject, source string) error
	Pools(context.Context) ([]windsock.Pool, error)
	Providers(context.Context) ([]windsock.ProviderStatus, error)
	Summary(context.Context) (windsock.ModelSummary, error)
}

// Monitors keeps who is to be called back.
type Monitors interface {
	AddMonitor(context.Context, windsock.MonitorSpec, windsock.Keys) (windsock.Registration, error)
	RotateSecret(ctx context.Context, id string, given *windsock.Secret) (windsock.Rotation, error) // nil: one that is made
	RemoveMonitor(ctx context.Context, id, address string, port int) error                          // "" and 0 are not compared
	Monitors(ctx context.Context, after string, limit int) ([]windsock.Monitor, error)
	Monitor(ctx context.Context, id string) (windsock.Monitor, error)
	PauseMonitor(ctx context.Context, id string, by windsock.Pause, reason string) (windsock.Monitor, error)
	ResumeMonitor(ctx context.Context, id string, from windsock.Resume) (windsock.Monitor, error)
	ReplayMonitor(ctx context.Context, id string, want windsock.ReplaySpec, dry bool) (windsock.Replayed, error)
	Tries(ctx context.Context, monitorID string, f windsock.TryFilter) (windsock.Tries, error)
	Explain(ctx context.Context, monitorID, event string) (windsock.Explanation, error)
}

// Log is what happened, numbered.
type Log interface {
	Events(ctx context.Context, after int64, limit int, f windsock.EventFilter) ([]windsock.Event, error)
	Head() int64                                 // of the newest event
	Wait(ctx context.Context, after int64) error // until there is an event after that
}

// Store is all that the API asks of the store. *store.Store is one.
type Store interface {
	Recorder
	Model
	Monitors
	Silences
	Log
	Tokens
	Audit
	Finder
	Ping(context.Context) error                           // writes and commits something small
	Replicas(context.Context) ([]windsock.Replica, error) // the processes that share the store
}

// Deliveries tells how the callbacks to monitors go, as far as it knows them.
type Deliveries interface {
	Deliveries(ctx context.Context, monitorIDs []string) map[string]windsock.Delivery
}

// Server answers HTTP requests. Every field but Software, Checker, Lister, Deliveries,
// Pinger, Reports, Verifiers, Open, Rate, Tracer, Proxies, Origins, Ready, Plugins, PublicURL and ID has to be set.
type Server struct {
	Store      Store
	Software   Software       // nil: this process keeps none
	Checker    Checker        // nil: this process observes nothing
	Lister     Lister         // nil: as well
	Deliveries Deliveries     // nil: this process delivers nothing
	Pinger     Pinger         // nil: as well
	Verifiers  []Verifier     // who know the callers; none: nobody is asked who he is
	Open       Open           // nil: everybody is, if there are verifiers
	Rate       int            // requests a second of each caller, and of each address; 0: any number
	Tracer     trace.Tracer   // shows requests as spans; nil: nobody does
	Proxies    []netip.Prefix // that are believed when they say for whom they ask
	Origins    []string       // of web pages that may use the API
	Mute       bool           // this process has not the role api: it says how it is, and no more
	Ready      []Beat         // the loops without which this process is not ready
	Reports    Reports        // nil: no reports are taken
	Plugins    []string       // the folders, absolute, whose programs an exec probe that is declared over HTTP may run
	PublicURL  string         // at which instances reach the API; "": at what each of them asks
	Contract   []byte         // openapi.yaml
	Version    string         // of this program
	ID         string         // of this windsock, as its own callbacks carry it; "": none does
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	Stop       context.Context // long polls and streams end with it

	metrics *metrics
	lot     *lot // nil: nobody is parked
	origin  *http.CrossOriginProtection
	limits  *limits // nil: nobody is limited

	complained atomic.Int64 // in which second a refusal was last logged

	signals, deployables, reports places // for large ones
	notified                      notified

	digest digest
	tail   tail
}

// A handler answers a request or returns why it cannot.
type handler func(http.ResponseWriter, *http.Request) error

type route struct {
	method, path string
	needs        windsock.Permission
	query        []string // the query parameters it takes
	serve        handler
}

// isAPI reports whether it is about more than this process.
func (rt *route) isAPI() bool {
	return strings.HasPrefix(rt.path, "/api/") || strings.HasPrefix(rt.path, "/v1/")
}

func (s *Server) routes() []route {
	deployments, instances := s.deployments(), s.instances()
	return []route{
		{"POST", "/api/monitors/add", admin, nil, s.addMonitor},
		{"POST", "/api/monitors/remove", admin, nil, s.removeMonitor},
		{"GET", "/api/monitors/list", read, []string{"version", "limit", "after"}, s.listMonitors},
		{"GET", "/api/monitors/{id}", read, nil, s.showMonitor},
		{"POST", "/api/monitors/{id}/secret", admin, nil, s.rotateSecret},
		{"POST", "/api/monitors/{id}/ping", admin, nil, s.pingMonitor},
		{"POST", "/api/monitors/{id}/pause", admin, nil, s.pauseMonitor},
		{"POST", "/api/monitors/{id}/resume", admin, nil, s.resumeMonitor},
		{"POST", "/api/monitors/{id}/replay", admin, nil, s.replayMonitor},
		{"GET", "/api/monitors/{id}/deliveries", read, []string{"result", "event", "deployment", "instance", "since", "limit", "after"}, s.listTries},
		{"GET", "/api/monitors/{id}/explain", read, []string{"event"}, s.explainEvent},
		{"POST", "/api/monitors/deployment/{id}", report, nil, s.detect(windsock.KindDeployment)},
		{"POST", "/api/monitors/deployment/instance/{id}", report, nil, s.detect(windsock.KindInstance)},
		{"POST", "/api/monitors/detections", report, nil, s.detectMany},

		{"GET", "/api/reports", read, nil, s.listReports},
		{"GET", "/api/reports/unmatched", read, nil, s.listUnmatched},
		{"POST", "/api/reports/{name}", report, []string{"dry_run"}, s.takeReport},
		{"POST", "/v1/notifications", report, nil, s.notify},
		{"POST", "/v1/{project}/notifications", report, nil, s.notify},
		{"PATCH", "/v1/{project}/stacks/{stack}/{stack_id}/resources/{resource}", report, nil, s.markUnhealthy},

		{"GET", "/api/deployments", read, []string{"state", "drift", "stale", "provider", "pool", "limit", "after"}, deployments.list},
		{"POST", "/api/deployments", admin, nil, deployments.create},
		{"GET", "/api/deployments/{id}", read, []string{"await", "timeout"}, deployments.show},
		{"PUT", "/api/deployments/{id}", admin, nil, deployments.put},
		{"PATCH", "/api/deployments/{id}", admin, nil, deployments.patch},
		{"DELETE", "/api/deployments/{id}", admin, nil, deployments.remove},
		{"GET", "/api/deployments/{id}/instances", read, []string{"state", "drift", "stale", "assembly", "limit", "after"}, s.listMembers(instances)},
		{"DELETE", "/api/deployments/{id}/evidence/{source}", admin, nil, deployments.clear},
		{"POST", "/api/deployments/{id}/check", report, nil, s.checkDeployment},
		{"GET", "/api/deployments/{id}/availability", read, []string{"from", "to"}, s.availability(windsock.KindDeployment)},

		{"GET", "/api/instances", read, []string{"state", "drift", "stale", "provider", "pool", "deployment", "assembly", "limit", "after"}, instances.list},
		{"GET", "/api/instances/{id}", read, []string{"await", "timeout"}, instances.show},
		{"PUT", "/api/instances/{id}", admin, nil, instances.put},
		{"PATCH", "/api/instances/{id}", admin, nil, instances.patch},
		{"DELETE", "/api/instances/{id}", admin, nil, instances.remove},
		{"DELETE", "/api/instances/{id}/evidence/{source}", admin, nil, instances.clear},
		{"POST", "/api/instances/{id}/check", report, nil, s.checkInstance},
		{"GET", "/api/instances/{id}/availability", read, []string{"from", "to"}, s.availability(windsock.KindInstance)},

		{"GET", "/api/deployables", read, []string{"limit", "after"}, s.software(s.listDeployables)},
		{"POST", "/api/deployables", admin, []string{"name"}, s.software(s.addDeployable)},
		{"GET", "/api/deployables/{id}", read, nil, s.software(s.showDeployable)},
		{"DELETE", "/api/deployables/{id}", admin, nil, s.software(s.removeDeployable)},
		{"GET", "/api/deployments/{id}/components", read, []string{"state", "instance"}, s.software(s.listComponents)},
		{"GET", "/api/deployments/{id}/components/{name}", read, nil, s.software(s.component(Components.Component))},
		{"POST", "/api/deployments/{id}/components/{name}/retry", admin, nil, s.software(s.component(Components.RetryComponent))},
		{"POST", "/api/deployments/{id}/components/{name}/cancel", admin, nil, s.software(s.component(Components.CancelComponent))},
		{"GET", "/api/deployments/{id}/outputs", read, nil, s.software(s.showOutputs)},
		{"GET", "/api/deployments/{id}/handles", admin, nil, s.software(s.showHandles)},
		{"POST", "/api/instances/{id}/token", admin, nil, s.software(s.issueToken)},
		{"GET", workPath, anyone, []string{"wait"}, s.guarded(s.software(s.work))},
		{"POST", signalPath + "{token}", anyone, nil, s.guarded(s.software(s.signal))},
		{"PUT", signalPath + "{token}", anyone, nil, s.guarded(s.software(s.signal))},

		{"GET", "/api/silences", read, []string{"limit", "after"}, s.listSilences},
		{"POST", "/api/silences", admin, nil, s.addSilence},
		{"GET", "/api/silences/{id}", read, nil, s.showSilence},
		{"DELETE", "/api/silences/{id}", admin, nil, s.endSilence},

		{"GET", "/api/providers", read, nil, s.listProviders},
		{"GET", "/api/providers/{id}", read, []string{"dry_run", "limit"}, s.showProvider},
		{"GET", "/api/pools", read, nil, s.listPools},
		{"GET", "/api/summary", read, nil, s.showSummary},
		{"GET", "/api/events", read, []string{"after", "before", "limit", "wait", "deployment", "instance", "provider", "pool", "kind", "type", "detection"}, s.events},

		{"GET", "/api/replicas", read, nil, s.listReplicas},
		{"GET", "/api/whoami", read, nil, s.showCaller},
		{"GET", "/api/tokens", admin, nil, s.listTokens},
		{"POST", "/api/tokens", admin, nil, s.addToken},
		{"DELETE", "/api/tokens/{id}", admin, nil, s.revokeToken},
		{"GET", "/api/audit", admin, []string{"limit", "after"}, s.listActs},

		{"GET", "/livez", anyone, nil, s.livez},
		{"GET", "/readyz", anyone, nil, s.readyz},
		{"GET", "/metrics", read, nil, s.showMetrics()},
		{"GET", "/openapi.yaml", anyone, nil, s.showContract},
	}
}

// Handler returns the API. It registers the metrics, so it is called once.
func (s *Server) Handler() http.Handler {
	s.metrics = newMetrics(s.Registerer)
	s.signals, s.deployables = make(places, largeBodies), make(places, largeBodies)
	s.reports = make(places, largeReports)
	s.origin = http.NewCrossOriginProtection()
	s.limits = newLimits(s.Rate, s.Registerer)
	mux := chi.NewRouter()
	mux.Use(middleware.GetHead, s.addressed())
	for _, rt := range s.routes() {
		mux.Method(rt.method, pattern(rt.path), s.endpoint(rt))
	}
	lost := s.endpoint(route{method: other, path: other, needs: anyone, serve: s.lost(mux)}).ServeHTTP
	mux.NotFound(lost)
	mux.MethodNotAllowed(lost)
	return s.shared(mux)
}

// other is what the metrics call the methods and paths that there are not, whatever they
// were: strangers must not make series.
const other = "other"

// pattern is path as chi reads it. The ids of monitors are UUIDs, so that no monitor is
// called add, remove or list, and a GET of those is a wrong method.
func pattern(path string) string {
	return strings.Replace(path, "/api/monitors/{id}", "/api/monitors/{id:[0-9a-f-]{36}}", 1)
}

// endpoint wraps what all routes have in common around one of them.
func (s *Server) endpoint(rt route) http.Handler {
	served := s.metrics.route(rt.method, rt.path)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		r, span := s.begin(rt, r)
		s.metrics.inFlight.Inc()
		defer func() {
			s.metrics.inFlight.Dec()
			if rec.status != 0 { // or it was parked
				served(rec.status, time.Since(start), span.SpanContext())
			}
			finish(span, rec.status)
		}()
		defer func() {
			if reason := recover(); reason != nil {
				s.recovered(rec, r, reason)
			}
		}()
		rec.Header().Set("X-Content-Type-Options", "nosniff")
		hurry(w, r)
		if err := s.serve(rt, rec, r); err != nil {
			s.fail(rec, r, err)
		}
	})
}

func (s *Server) serve(rt route, w *recorder, r *http.Request) error {
	if s.origin.Check(r) != nil { // or any web page could post forms to a windsock on loopback
		return errCrossOrigin
	}
	if s.ID != "" && r.Header.Get(windsock.IDHeader) == s.ID && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return errLoop
	}
	if s.Mute && rt.isAPI() && rt.path != "/api/replicas" {
		return errNoAPI
	}
	if err := s.limits.address(w, r); err != nil {
		return err
	}
	r, err := s.admit(rt, r)
	if err != nil {
		return err
	}
	if err := s.limits.caller(w, r); err != nil {
		return err
	}
	if r.URL.RawQuery != "" && rt.path != other {
		if err := checkQuery(r, rt.query); err != nil {
			return err
		}
	}
	return s.act(rt, w, r)
}

// lost answers what no route serves.
func (s *Server) lost(mux *chi.Mux) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		path := r.URL.EscapedPath()
		var allowed []string
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if mux.Match(chi.NewRouteContext(), method, path) {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			return errNoPath
		}
		if allowed[0] == "GET" {
			allowed = append(allowed, "HEAD")
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return errMethod
	}
}

// recorder notes the status that was answered, for the metrics.
type recorder struct {
	http.ResponseWriter
	status int // 0: nothing yet
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (s *Server) showMetrics() handler {
	h := promhttp.HandlerFor(s.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}) // which has exemplars
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

func (s *Server) showContract(w http.ResponseWriter, r *http.Request) error {
	return show(w, r, http.StatusOK, "application/yaml", s.Contract)
}
