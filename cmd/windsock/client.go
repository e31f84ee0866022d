package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"windsock"
)

// subject is what the commands that ask about something have in common.
type subject struct {
	Kind string `arg:"" enum:"deployment,instance" help:"deployment or instance."`
	ID   string `arg:"" name:"id" help:"Its id."`
	URL  string `name:"url" help:"Where windsock answers (default http://${listen})." placeholder:"URL" default:"http://${listen}" env:"WINDSOCK_URL"`
	JSON bool   `name:"json" help:"Print what windsock answers."`
}

// Validate refuses a URL that nothing can be asked at.
func (s *subject) Validate() error {
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
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
	target := strings.TrimSuffix(s.URL, "/") + "/api/" + s.Kind + "s/" + url.PathEscape(s.ID) + what
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy
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
	if err := json.Unmarshal(a.body, a); err != nil {
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
