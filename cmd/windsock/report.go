package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"windsock"
	"windsock/document"
	"windsock/spool"
)

// ReportCmd is "windsock report".
type ReportCmd struct {
	Detection ReportDetectionCmd `cmd:"" help:"Report a detection."`
	Body      ReportBodyCmd      `cmd:"" help:"Report what another program sends, by a rule."`
	Nagios    ReportNagiosCmd    `cmd:"" help:"Report a state of Nagios or Icinga, as an event handler or of passive checks."`
	Pacemaker ReportPacemakerCmd `cmd:"" help:"Report an alert of Pacemaker, as its alert agent, or what crm_mon shows."`
	Drain     ReportDrainCmd     `cmd:"" help:"Send what is still kept."`
}

// Help is shown by windsock report --help,
func (*ReportCmd) Help() string { return new(sending).Help() }

// and by that of each of its commands.
func (*sending) Help() string {
	return `What is reported is kept on disk first, then all that is kept is sent, for no longer than the timeout. Ends with 0 once
it is taken or kept, 1 when windsock refused it, or it could not be kept.`
}

// The bounds of what is kept.
const (
	spoolBytes = 16 << 20
	spoolFiles = 4096
)

// sending is what the commands that report have in common.
type sending struct {
	URL       string        `name:"url" help:"Where windsock answers (default http://${listen})." placeholder:"URL" default:"http://${listen}" env:"WINDSOCK_URL"`
	TokenFile string        `help:"File with a token that may report." placeholder:"FILE" env:"WINDSOCK_TOKEN_FILE"`
	Spool     string        `help:"Folder to keep in what is not taken yet (default ${default})." placeholder:"DIR" default:"/var/lib/windsock-report" env:"WINDSOCK_SPOOL"`
	Timeout   time.Duration `help:"Try to send for so long (default ${default})." placeholder:"TIME" default:"5s" env:"WINDSOCK_TIMEOUT"`
	trust
}

// Validate is called by kong.
func (c *sending) Validate() error {
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return windsock.Invalid("--url", "want a URL such as https://windsock.example")
	}
	return nil
}

func (c *sending) spool() *spool.Spool {
	return &spool.Spool{Dir: c.Spool, Bytes: spoolBytes, Files: spoolFiles}
}

// report keeps a body about a subject, and sends all that is kept. One that is about all
// subjects takes the place of the one before.
func (c *sending) report(ctx context.Context, io stdio, subject, path string, body any, whole bool) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	keep, done := context.WithTimeout(context.WithoutCancel(ctx), max(c.Timeout, time.Second)) // for others who keep something
	defer done()
	if err := c.spool().Add(keep, subject, spool.Entry{Path: path, Body: data}, whole); err != nil {
		return fmt.Errorf("not kept: %w", err)
	}
	return c.drain(ctx, io)
}

// drain sends all that is kept. What windsock refuses is told and dropped: it would refuse it
// again.
func (c *sending) drain(ctx context.Context, io stdio) error {
	refused := false
	_, err := c.spool().Drain(ctx, func(ctx context.Context, e spool.Entry) error {
		err := c.send(ctx, e)
		if r := (*refusal)(nil); errors.As(err, &r) {
			fmt.Fprintf(io.err, "windsock: %s is refused: %s\n", e.Path, printable(r.why))
			refused = true
			return nil
		}
		return err
	})
	switch {
	case err != nil && ctx.Err() == nil:
		fmt.Fprintf(io.err, "windsock: kept, to be sent later: %s\n", printable(err.Error()))
	case err != nil:
		fmt.Fprintln(io.err, "windsock: kept, to be sent later: there was no time")
	}
	if refused {
		return exit(1)
	}
	return nil
}

// A refusal is an answer that will not be another the next time.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func (c *sending) send(ctx context.Context, e spool.Entry) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+e.Path, bytes.NewReader(e.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.TokenFile != "" {
		token, err := document.ReadFile(c.TokenFile, 64<<10)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	transport, err := c.transport()
	if err != nil {
		return err
	}
	transport.Proxy = http.ProxyFromEnvironment
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err // where it was to go is known
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	var a answered
	json.Unmarshal(text, &a)
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return &refusal{cmp.Or(a.refusal(), resp.Status)}
	}
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	return fmt.Errorf("%s: %s", resp.Status, a.refusal())
}

// ReportDetectionCmd is "windsock report detection".
type ReportDetectionCmd struct {
	sending
	Kind   string `arg:"" enum:"deployment,instance" help:"deployment or instance."`
	ID     string `arg:"" name:"id" help:"Its id."`
	Word   string `arg:"" help:"START, FAIL or STOP."`
	Source string `help:"Who says so (default ${default})." default:"report"`
	Reason string `help:"Why, for people."`
	TTL    string `name:"ttl" help:"What it says ends after this time, unless it is said again." placeholder:"TIME"`
	Asked  bool   `help:"Somebody asked for a stop: it is no fault."`
}

// Run reports it, as of now, however late it is sent.
func (c *ReportDetectionCmd) Run(ctx context.Context, io stdio) error {
	word := windsock.Word(strings.TrimSuffix(strings.ToUpper(c.Word), " DETECTED") + " DETECTED")
	if word.State() == "" {
		return windsock.Invalid("word", "want START, FAIL or STOP; got %q", windsock.Clip(c.Word))
	}
	body := map[string]string{"state": string(word), "source": c.Source, "detected_at": now()}
	for name, value := range map[string]string{"reason": c.Reason, "ttl": c.TTL} {
		if value != "" {
			body[name] = value
		}
	}
	if c.Asked {
		body["intent"] = "requested"
	}
	path := "/api/monitors/deployment/"
	if c.Kind == string(windsock.KindInstance) {
		path += "instance/"
	}
	return c.report(ctx, io, c.Kind+" "+c.ID, path+url.PathEscape(c.ID), body, false)
}

func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

// ReportBodyCmd is "windsock report body".
type ReportBodyCmd struct {
	sending
	Rule    string `arg:"" help:"Name of the rule by which it is read."`
	File    string `arg:"" optional:"" help:"JSON, as another program sends it (default: standard input)."`
	Subject string `help:"What is reported under the same one is sent in order (default: the rule)."`
}

// Run reports it.
func (c *ReportBodyCmd) Run(ctx context.Context, io stdio) error {
	data, err := document.ReadFile(cmp.Or(c.File, os.Stdin.Name()), spoolBytes)
	if err != nil {
		return err
	}
	if !json.Valid(data) {
		return windsock.Invalid("file", "is not JSON")
	}
	return c.report(ctx, io, cmp.Or(c.Subject, c.Rule), reportPath(c.Rule), json.RawMessage(data), false)
}

func reportPath(rule string) string { return "/api/reports/" + url.PathEscape(rule) }

// ReportDrainCmd is "windsock report drain".
type ReportDrainCmd struct {
	sending
	Every time.Duration `help:"Go on, and look again after each such time." placeholder:"TIME"`
}

// Run sends what is kept, once or until ctx ends.
func (c *ReportDrainCmd) Run(ctx context.Context, io stdio) error {
	for {
		once, cancel := context.WithTimeout(ctx, c.Timeout)
		err := c.drain(once, io)
		cancel()
		if c.Every <= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}
