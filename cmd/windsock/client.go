package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"windsock"
)

// client is what the commands that ask windsock have in common.
type client struct {
	URL       string `name:"url" help:"Where windsock answers (default http://${listen})." placeholder:"URL" default:"http://${listen}" env:"WINDSOCK_URL"`
	TokenFile string `help:"File with the token of who asks (default: the token in WINDSOCK_TOKEN, if any)." placeholder:"FILE" env:"WINDSOCK_TOKEN_FILE"`
	trust
}

// subject is what the commands that ask about something have in common.
type subject struct {
	client
	Kind string `arg:"" enum:"deployment,instance" help:"deployment or instance."`
	ID   string `arg:"" name:"id" help:"Its id."`
	JSON bool   `name:"json" help:"Print what windsock answers."`
}

// Validate refuses a URL that nothing can be asked at.
func (c *client) Validate() error {
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return windsock.Invalid("--url", "want a URL such as http://127.0.0.1:8080")
	}
	return nil
}

// answered is what windsock answered, as far as the commands look at it.
type answered struct {
	status int
	body   []byte

	Type     string         `json:"type"` // of a problem
	Title    string         `json:"title"`
	Detail   string         `json:"detail"`
	Observed windsock.State `json:"observed_state"`
}

// call asks windsock about the subject.
func (s *subject) call(ctx context.Context, method, what string) (*answered, error) {
	return s.do(ctx, method, "/api/"+s.Kind+"s/"+url.PathEscape(s.ID)+what, nil)
}

// token is that of who asks; "" if he has none.
func (c *client) token() (string, error) {
	if c.TokenFile == "" {
		return os.Getenv("WINDSOCK_TOKEN"), nil
	}
	text, err := os.ReadFile(c.TokenFile)
	return strings.TrimSpace(string(text)), err
}

// do asks windsock; a body is JSON.
func (c *client) do(ctx context.Context, method, path string, body []byte) (*answered, error) {
	target := strings.TrimSuffix(c.URL, "/") + path
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	transport.DisableKeepAlives = true
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answered{status: resp.StatusCode}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(a.body, a); err != nil && a.status != http.StatusNoContent {
		return nil, fmt.Errorf("%s %s: %s is no answer of windsock", method, target, resp.Status)
	}
	return a, nil
}

// refusal is why windsock did not do it.
func (a *answered) refusal() string {
	if a.Detail != "" {
		return a.Detail
	}
	return a.Title
}

// say prints the line, or what was answered instead if that is wanted and there is any.
func (s *subject) say(io stdio, a *answered, format string, args ...any) {
	line := fmt.Sprintf("%s %s ", s.Kind, s.ID) + fmt.Sprintf(format, args...)
	switch {
	case !s.JSON:
		fmt.Fprintln(io.out, printable(line))
	case a != nil:
		fmt.Fprintf(io.out, "%s\n", bytes.TrimSpace(a.body))
	default:
		fmt.Fprintln(io.err, printable(line))
	}
}
