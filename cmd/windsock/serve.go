package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"windsock"
	"windsock/api"
	"windsock/components"
	"windsock/monitors"
	"windsock/observer"
	"windsock/oidc"
	"windsock/store"
)

// deadAfter is how long a loop may be silent before we are not ready.
const deadAfter = 30 * time.Second

// drain is how long requests and callbacks under way may go on when we are to stop.
const drain = 8 * time.Second

// A heap of a few megabytes may grow to some more before it is collected: a fifth more
// posts a second than with what Go does, for 10 MiB. One that holds a large cloud may not
// grow to several times its size. So the ballast, which is never touched and thus is no
// memory, counts as such when the next collection is decided on (test/load).
const (
	ballast   = 16 << 20
	gcPercent = 60
)

// serve runs the service until ctx ends. It calls ready with the address it answers on
// once it does.
func serve(ctx context.Context, opts ServeOptions, ready func(addr string)) error {
	unused := make([]byte, ballast)
	defer runtime.KeepAlive(unused)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if len(opts.Roles) == 0 {
		opts.Roles = windsock.Roles
	}
	read := new(rules)
	read.take(opts.Reports)
	log := opts.Log
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	tracer, endTraces := exportTraces(ctx, log)
	defer endTraces()

	st, err := store.Open(ctx, opts.DB, store.Options{
		Logger: log, Metrics: store.NewMetrics(reg), Name: processName(), Roles: opts.Roles, Planner: components.Planner{},
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := st.Close(); err != nil {
			log.Error("database not closed cleanly", "error", err)
		}
	}()
	if opts.File && opts.has(windsock.RoleAPI) { // or a start that forgot it would take out all that it declared before
		if err := st.Declare(ctx, opts.Deployments, opts.Instances); err != nil {
			return fmt.Errorf("what the file declares: %w", err)
		}
	}
	old := opts.Keep.retention(st)
	obs := &observer.Observer{Model: st, Log: log, Metrics: observer.NewMetrics(reg), Tracer: tracer, Share: st.Share}
	observed(obs, opts.Providers, log)
	guard := monitors.Guard{Targets: opts.Targets, Others: st.Others}
	dlv := &monitors.Deliverer{
		Log: st, Logger: log, Metrics: monitors.NewMetrics(reg), Version: buildVersion(), ID: st.LogID(), Origin: opts.Origin,
		Tracer: tracer, Grace: drain, Share: st.Share, Era: st.Era, Heir: st.Heir,
	}
	st.Count(dlv.Monitors)
	looks, calls := observing{st, obs}, delivering{st, dlv}
	srv := &api.Server{
		Store: st, Software: st, Checker: looks, Lister: looks, Deliveries: calls, Pinger: calls, Reports: read, Plugins: opts.Plugins, PublicURL: opts.PublicURL,
		Contract: windsock.Contract, Version: buildVersion(), ID: st.LogID(), Mute: !opts.has(windsock.RoleAPI),
		Rate: opts.Edge.RateLimit, Proxies: opts.Edge.proxies(), Origins: opts.Edge.CORSOrigins,
		Tracer: tracer, Logger: log, Registerer: reg, Gatherer: reg, Stop: ctx,
		Ready: []api.Beat{{Name: "store", Beat: st.Beat, Max: deadAfter}},
	}

	at, err := net.ResolveTCPAddr("tcp", opts.Listen)
	if err != nil {
		return err
	}
	if opts.OIDC.Issuer != "" {
		opts.issuer = oidc.New(opts.OIDC, http.DefaultTransport, log)
	}
	if err := opts.restrict(ctx, srv, st, at); err != nil {
		return err
	}
	var cert *certificate // nil: no TLS
	if opts.TLS.Cert != "" {
		if cert, err = openCertificate(opts.TLS, log, reg); err != nil {
			return err
		}
		signal.Notify(cert.hangup, syscall.SIGHUP)
		defer signal.Stop(cert.hangup)
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return err
	}
	answers, scheme := net.Listener(l), "http"
	if cert != nil {
		answers, scheme = tls.NewListener(l, cert.config()), "https"
	}
	addr := l.Addr().(*net.TCPAddr)
	guard.Self = addr.AddrPort()
	dlv.Guard = guard
	if err := st.Announce(ctx, addr.String()); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return st.Run(ctx) })
	g.Go(func() error {
		return st.Lead(ctx, windsock.UnitRetention, old.Run)
	})
	g.Go(func() error { return answerOthers(ctx, st, obs, dlv) })
	if opts.has(windsock.RoleObserver) {
		srv.Ready = append(srv.Ready, api.Beat{Name: "observer", Beat: obs.Beat, Max: deadAfter})
		g.Go(func() error { return obs.Run(ctx) })
	}
	if opts.has(windsock.RoleDeliverer) {
		srv.Ready = append(srv.Ready, api.Beat{Name: "deliverer", Beat: dlv.Beat, Max: deadAfter})
		g.Go(func() error { return dlv.Run(ctx) })
	}
	if opts.has(windsock.RoleAPI) {
		g.Go(func() error { return redeclare(ctx, opts, st, read) })
	}
	handler := srv.Handler()
	if opts.has(windsock.RoleAPI) {
		handler = withPage(handler)
	}
	g.Go(func() error {
		defer srv.Wait()
		return answerOn(ctx, answers, handler, srv.Parked())
	})
	if opts.issuer != nil {
		g.Go(func() error { return opts.issuer.Run(ctx) })
	}
	if cert != nil {
		g.Go(func() error { return cert.Run(ctx) })
	}
	if opts.PublicURL != "" && opts.TLS.ClientCA == "" {
		g.Go(func() error { seekSelf(ctx, opts.PublicURL, st.LogID(), log); return nil })
	}
	log.Info("ready", "address", scheme+"://"+l.Addr().String(), "database", store.Redacted(opts.DB), "version", buildVersion())
	ready(l.Addr().String())
	err = g.Wait() // the first to fail stops the others
	log.Info("stopped")
	return err
}

// buildInfo is a constant 1 that says which windsock this is.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windsock_build_info", Help: "A constant 1, labelled with the version of windsock and of Go.",
		ConstLabels: prometheus.Labels{"version": buildVersion(), "go_version": runtime.Version()},
	}, func() float64 { return 1 })
}

// redeclare takes over what the file declares, and its rules for reports, each time it was read again.
func redeclare(ctx context.Context, opts ServeOptions, st *store.Store, read *rules) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-opts.Reloads:
			if err := st.Declare(ctx, c.Deployments, c.Instances); err != nil {
				opts.Log.Error("what the file declares was not taken over, all stays as it was", "error", err)
				continue
			}
			read.take(c.Reports)
			opts.Log.Info("file read again", "deployments", len(c.Deployments), "instances", len(c.Instances))
		}
	}
}
