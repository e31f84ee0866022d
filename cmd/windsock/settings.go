package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"

	"windsock"
	"windsock/monitors"
	"windsock/oidc"
	"windsock/reports"
)

// ServeCmd is "windsock serve". What neither a flag nor the environment gives is taken
// from the file, and what the file does not give has a default.
type ServeCmd struct {
	Config     string   `help:"YAML file with settings and deployments; read again on SIGHUP." placeholder:"FILE" env:"WINDSOCK_CONFIG"`
	Listen     string   `help:"Address to answer on (default ${listen})." placeholder:"HOST:PORT" env:"WINDSOCK_LISTEN"`
	Roles      []string `help:"What this process does, of api, observer and deliverer; several processes may share a database (default: all)." placeholder:"ROLE" env:"WINDSOCK_ROLES"`
	DB         string   `name:"db" help:"SQLite file, or URL of a PostgreSQL, to keep everything in (default ${db})." placeholder:"FILE|URL" env:"WINDSOCK_DB"`
	LogLevel   string   `help:"debug, info, warn or error (default info)." placeholder:"LEVEL" env:"WINDSOCK_LOG_LEVEL"`
	LogFormat  string   `help:"text or json (default text)." placeholder:"FORMAT" env:"WINDSOCK_LOG_FORMAT"`
	Keep       Age      `help:"Delete events that are older (default ${keep})." placeholder:"AGE" env:"WINDSOCK_KEEP"`
	KeepEvents int64    `help:"Keep no more events than this (default ${keepevents})." placeholder:"N" env:"WINDSOCK_KEEP_EVENTS"`
	Origin     string   `help:"Host name by which monitors that are asked know windsock (default: that of the machine)." placeholder:"HOST" env:"WINDSOCK_ORIGIN"`
	PublicURL  string   `name:"public-url" help:"Where instances reach the API, to signal (default: where each of them asks)." placeholder:"URL" env:"WINDSOCK_PUBLIC_URL"`
	AdminToken string   `name:"admin-token-file" help:"File with the token of an administrator, of at least 32 characters; read again on SIGHUP." placeholder:"FILE" env:"WINDSOCK_ADMIN_TOKEN_FILE"`
	Plugins    []string `help:"Folders whose programs an exec probe declared over HTTP may run (default: where the distributions have the monitoring plugins)." placeholder:"DIR" env:"WINDSOCK_PLUGINS"`

	TLSCert     string `name:"tls-cert" help:"PEM file with a certificate, to answer over TLS; it and the others are read again when they change." placeholder:"FILE" env:"WINDSOCK_TLS_CERT"`
	TLSKey      string `name:"tls-key" help:"PEM file with its key." placeholder:"FILE" env:"WINDSOCK_TLS_KEY"`
	TLSClientCA string `name:"tls-client-ca" help:"PEM file with authorities; who shows no certificate of theirs is not let in." placeholder:"FILE" env:"WINDSOCK_TLS_CLIENT_CA"`

	RateLimit      int       `help:"Requests a second that each token may make, and each address but those of loopback (default ${ratelimit})." placeholder:"N" env:"WINDSOCK_RATE_LIMIT"`
	TrustedProxies []Network `name:"trusted-proxy" help:"Proxies whose X-Forwarded-For is believed." placeholder:"CIDR" env:"WINDSOCK_TRUSTED_PROXY"`
	CORSOrigins    []string  `name:"cors-origin" help:"Origins of web pages that may use the API (default: none)." placeholder:"ORIGIN" env:"WINDSOCK_CORS_ORIGIN"`

	Targets monitors.Profile `help:"Addresses callbacks may go to: internal (private ones, too) or strict (the Internet only; default internal)." placeholder:"PROFILE" env:"WINDSOCK_TARGETS"`
	Allow   []monitors.Rule  `name:"allow-target" help:"More addresses callbacks may go to." placeholder:"CIDR[:PORT]" env:"WINDSOCK_ALLOW_TARGET"`
	Deny    []monitors.Rule  `name:"deny-target" help:"Addresses callbacks may never go to, allowed or not." placeholder:"CIDR[:PORT]" env:"WINDSOCK_DENY_TARGET"`
}

// Help is shown by windsock serve --help.
func (*ServeCmd) Help() string {
	return `What neither a flag nor its variable gives is taken from the file, which has more: deployments, providers, reports,
oidc. SIGHUP has it read again: what it declares, its rules for reports, the log's level, certificates and the
administrator's token change at once, the rest at the next start. SIGTERM and SIGINT end it once what is under way is done; a second one, at once.`
}

// The defaults of what somebody has to say.
const (
	defaultListen = "127.0.0.1:8080"
	defaultDB     = "windsock.db"
)

// defaults are how the help names them.
var defaults = kong.Vars{
	"listen": defaultListen, "db": defaultDB,
	"ratelimit": strconv.Itoa(defaultRate),
	"keep":      defaultKeep.Age.String(), "keepevents": strconv.FormatInt(defaultKeep.Events, 10),
}

// defaultPlugins are where Debian, Arch and the Red Hat family have the monitoring plugins.
var defaultPlugins = []string{"/usr/lib/nagios/plugins", "/usr/lib/monitoring-plugins", "/usr/lib64/nagios/plugins"}

// ServeOptions is what serve works with.
type ServeOptions struct {
	Listen      string
	DB          string
	Roles       []windsock.Role // none: all
	Plugins     []string
	Targets     monitors.Targets
	Origin      string
	PublicURL   string // "": that at which the API is asked
	AdminToken  string // the file with it; "": none
	Admin       *AdminToken
	TLS         TLSConfig
	Edge        EdgeConfig
	OIDC        oidc.Config
	issuer      *oidc.Verifier // of that; nil: there is none
	Keep        KeepConfig
	Providers   []ProviderConfig
	Reports     reports.Rules
	File        bool                      // there is one
	Deployments []windsock.DeploymentSpec // as it declares them
	Instances   []windsock.InstanceSpec
	Reloads     <-chan Config // the file, each time it was read again; may be nil
	Log         *slog.Logger
}

// Run serves until ctx ends.
func (c *ServeCmd) Run(ctx context.Context, io stdio) error {
	file, err := c.load()
	if err != nil {
		return err
	}
	if err := (KeepConfig{Age: c.Keep, Events: c.KeepEvents}).check(); err != nil {
		return err
	}
	if c.Origin != "" {
		if err := windsock.CheckOrigin(c.Origin); err != nil {
			return err
		}
	}
	if c.PublicURL != "" {
		if err := windsock.CheckPublicURL(c.PublicURL); err != nil {
			return err
		}
	}
	opts := c.options(file)
	if err := windsock.CheckRoles(opts.Roles); err != nil {
		return err
	}
	if err := cmp.Or(opts.TLS.check(), opts.Edge.check()); err != nil {
		return err
	}
	level := new(slog.LevelVar)
	log, err := c.logger(io.err, level, file)
	if err != nil {
		return err
	}
	if opts.Admin, err = ReadAdminToken(opts.AdminToken); err != nil {
		return fmt.Errorf("the admin token: %w", err)
	}
	reloads := make(chan Config)
	opts.Reloads, opts.Log = reloads, log

	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	g, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	g.Go(func() error {
		defer cancel()
		return serve(ctx, opts, func(string) { tellSystemd(ctx, log) })
	})
	g.Go(func() error {
		c.reload(ctx, hangup, reloads, opts.Admin, level, log)
		return nil
	})
	return g.Wait()
}

// load reads the file, if there is one.
func (c *ServeCmd) load() (Config, error) {
	if c.Config == "" {
		return Config{}, nil
	}
	return LoadConfig(c.Config)
}

// options puts together what was given and what the file says.
func (c *ServeCmd) options(file Config) ServeOptions {
	opts := ServeOptions{
		Listen:  cmp.Or(c.Listen, file.Listen, defaultListen),
		DB:      cmp.Or(c.DB, file.DB, defaultDB),
		Plugins: c.Plugins,
		Targets: monitors.Targets{Profile: cmp.Or(c.Targets, file.Targets.Profile), Allow: c.Allow, Deny: c.Deny},
		Origin:  cmp.Or(c.Origin, file.Origin, hostName()),

		PublicURL:  cmp.Or(c.PublicURL, file.PublicURL),
		AdminToken: cmp.Or(c.AdminToken, file.AdminToken),
		TLS: TLSConfig{
			Cert:     cmp.Or(c.TLSCert, file.TLS.Cert),
			Key:      cmp.Or(c.TLSKey, file.TLS.Key),
			ClientCA: cmp.Or(c.TLSClientCA, file.TLS.ClientCA),
		},
		OIDC: file.OIDC,
		Edge: EdgeConfig{cmp.Or(c.RateLimit, file.Edge.RateLimit, defaultRate), c.TrustedProxies, c.CORSOrigins},
		Keep: KeepConfig{
			Age:     cmp.Or(c.Keep, file.Keep.Age),
			Events:  cmp.Or(c.KeepEvents, file.Keep.Events),
			Horizon: file.Keep.Horizon,
		},
		File:        c.Config != "",
		Providers:   file.Providers,
		Reports:     file.Reports,
		Deployments: file.Deployments,
		Instances:   file.Instances,
	}
	for _, role := range c.Roles {
		opts.Roles = append(opts.Roles, windsock.Role(role))
	}
	if len(opts.Roles) == 0 {
		opts.Roles = file.Roles
	}
	if len(opts.Plugins) == 0 {
		opts.Plugins = file.Plugins
	}
	if len(opts.Plugins) == 0 {
		opts.Plugins = defaultPlugins
	}
	if len(opts.Edge.TrustedProxies) == 0 {
		opts.Edge.TrustedProxies = file.Edge.TrustedProxies
	}
	if len(opts.Edge.CORSOrigins) == 0 {
		opts.Edge.CORSOrigins = file.Edge.CORSOrigins
	}
	if len(opts.Targets.Allow) == 0 {
		opts.Targets.Allow = file.Targets.Allow
	}
	if len(opts.Targets.Deny) == 0 {
		opts.Targets.Deny = file.Targets.Deny
	}
	return opts
}

// hostName returns what the machine is called, or "" if that is no name to be known by.
func hostName() string {
	name, err := os.Hostname()
	if err != nil || windsock.CheckOrigin(name) != nil {
		return ""
	}
	return name
}

// logger returns the logger that was asked for; level is where it takes its level from.
func (c *ServeCmd) logger(w io.Writer, level *slog.LevelVar, file Config) (*slog.Logger, error) {
	if err := c.setLevel(level, file); err != nil {
		return nil, err
	}
	handler, err := logHandler(cmp.Or(c.LogFormat, file.Log.Format, "text"), w, level)
	if err != nil {
		return nil, err
	}
	return slog.New(handler), nil
}

func (c *ServeCmd) setLevel(level *slog.LevelVar, file Config) error {
	l, err := logLevel(cmp.Or(c.LogLevel, file.Log.Level, "info"))
	if err == nil {
		level.Set(l)
	}
	return err
}

func logLevel(s string) (l slog.Level, err error) {
	if err := l.UnmarshalText([]byte(s)); err != nil {
		return 0, windsock.Invalid("log.level", "want debug, info, warn or error; got %q", s)
	}
	return l, nil
}

func logHandler(format string, w io.Writer, level slog.Leveler) (slog.Handler, error) {
	opts := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.NewTextHandler(w, opts), nil
	case "json":
		return slog.NewJSONHandler(w, opts), nil
	}
	return nil, windsock.Invalid("log.format", "want text or json; got %q", format)
}

// reload reads the token of the administrator and the file again at each hangup, and hands
// on what that says, until ctx ends. A file that is no good changes nothing. What is not
// declared stays what it is until the next start, but for the level of the log and the rules
// for reports.
func (c *ServeCmd) reload(ctx context.Context, hangup <-chan os.Signal, to chan<- Config, admin *AdminToken, level *slog.LevelVar, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		}
		if admin != nil {
			if err := admin.Read(); err != nil {
				log.Error("admin token not read again, the one before is valid", "error", err)
			} else {
				log.Info("admin token read again")
			}
		}
		switch {
		case c.Config != "":
		case admin != nil:
			continue
		default:
			log.Info("there is no file to read again: none was given at the start")
			continue
		}
		file, err := c.load()
		if err == nil {
			err = c.setLevel(level, file)
		}
		if err != nil {
			log.Error("file not read again, all stays as it was", "error", err)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case to <- file:
		}
	}
}
