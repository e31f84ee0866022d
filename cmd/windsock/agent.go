package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"windsock"
	"windsock/agent"
)

// AgentCmd is "windsock agent".
type AgentCmd struct {
	Run     AgentRunCmd     `cmd:"" default:"withargs" help:"Run it; so does agent alone."`
	Install AgentInstallCmd `cmd:"" help:"Print what makes an instance run the agent."`
}

// agentSettings are what an agent cannot do without.
type agentSettings struct {
	URL       string `name:"url" required:"" help:"Where windsock answers." placeholder:"URL" env:"WINDSOCK_URL"`
	Instance  string `required:"" help:"Id of this instance." placeholder:"ID" env:"WINDSOCK_INSTANCE"`
	TokenFile string `help:"File with the instance's token, for nobody else to read (default ${default})." placeholder:"FILE" default:"/etc/windsock/token" env:"WINDSOCK_TOKEN_FILE"`
	trust
}

// Validate is called by kong.
func (s *agentSettings) Validate() error {
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return windsock.Invalid("--url", "want a URL such as https://windsock.example")
	}
	return nil
}

// AgentRunCmd is "windsock agent" without more.
type AgentRunCmd struct {
	agentSettings
	Hooks    string        `help:"Folder of hooks: GROUP is run for a component of that group, GROUP.bootstrap once before (default ${default})." placeholder:"DIR" default:"/etc/windsock/hooks" env:"WINDSOCK_HOOKS"`
	State    string        `help:"Folder of the journal (default ${default})." placeholder:"DIR" default:"/var/lib/windsock-agent" env:"WINDSOCK_STATE"`
	Parallel int           `help:"Run so many at a time (default ${default})." placeholder:"N" default:"1" env:"WINDSOCK_PARALLEL"`
	Grace    time.Duration `help:"At the end, wait for what runs (default ${default})." placeholder:"TIME" default:"30s" env:"WINDSOCK_GRACE"`
}

// Run works until ctx ends.
func (c *AgentRunCmd) Run(ctx context.Context, io stdio) error {
	target, err := url.Parse(c.URL)
	if err != nil {
		return err
	}
	transport, err := c.transport()
	if err != nil {
		return err
	}
	transport.Proxy = http.ProxyFromEnvironment
	log := slog.New(slog.NewTextHandler(io.err, nil))
	log.Info("agent", "version", buildVersion(), "instance", c.Instance)
	a := &agent.Agent{
		URL: target, Instance: c.Instance, TokenFile: c.TokenFile, Hooks: c.Hooks, State: c.State,
		Parallel: c.Parallel, Grace: c.Grace, Log: log,
		Client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	return a.Run(ctx)
}
