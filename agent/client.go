package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	longPoll   = 30 * time.Second
	timeout    = time.Minute // of a request, beyond what it is to wait
	maxAnswer  = 64 << 20
	maxBackoff = time.Minute
	maxAsked   = 10 * time.Minute // that windsock may have us wait
)

// A list is what windsock has for us to run.
type list struct {
	asked time.Time
	etag  string
	tasks []*task
	bad   []error // why some of it is not understood
}

// ask returns once windsock has another list than that with the etag; nil, when it has
// not for now.
func (a *Agent) ask(ctx context.Context, etag string) (*list, error) {
	token, err := readToken(a.TokenFile)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, longPoll+timeout)
	defer cancel()
	target := a.URL.JoinPath("api", "instances", url.PathEscape(a.Instance), "components")
	target.RawQuery = "wait=" + longPoll.String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	l := &list{asked: time.Now()}
	resp, err := a.Client.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return nil, nil
	case http.StatusOK:
	default:
		return nil, &refusal{resp.StatusCode, askedWait(resp.Header)}
	}
	var work struct {
		Components []json.RawMessage `json:"components"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&work); err != nil {
		return nil, fmt.Errorf("what windsock answers makes no sense: %w", err)
	}
	l.etag = resp.Header.Get("ETag")
	for _, raw := range work.Components {
		t, err := parseTask(raw)
		if err != nil {
			l.bad = append(l.bad, err)
			continue
		}
		t.DeadlineAt = ours(t.DeadlineAt, resp.Header)
		l.tasks = append(l.tasks, t)
	}
	return l, nil
}

// ours is a time of windsock by our clock, which may be set wrong.
func ours(at time.Time, header http.Header) time.Time {
	sent, err := http.ParseTime(header.Get("Date"))
	ahead := time.Until(sent)
	if err != nil || at.IsZero() || ahead.Abs() < 5*time.Second { // a Date has no fractions
		return at
	}
	return at.Add(-ahead)
}

// signal returns nil when windsock has taken it.
func (a *Agent) signal(ctx context.Context, signalURL string, body []byte, within time.Duration) error {
	target, err := a.signalURL(signalURL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return plain(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.Client.Do(req)
	if err != nil {
		return plain(err)
	}
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil
	}
	return &refusal{resp.StatusCode, askedWait(resp.Header)}
}

// signalURL is where we reach what windsock calls by that URL: at the address that we
// were given, as its own may be none for us, behind a proxy or NAT.
func (a *Agent) signalURL(theirs string) (string, error) {
	u, err := url.Parse(theirs)
	if err != nil {
		return "", errors.New("the URL to signal to makes no sense")
	}
	path := u.EscapedPath()
	if i := strings.LastIndex(path, "/api/signal/"); i > 0 {
		path = path[i:] // what is before it is the way that others take
	}
	mine := a.URL.JoinPath(path)
	mine.RawQuery = u.RawQuery
	return mine.String(), nil
}

// A refusal is an answer that does not do what was asked.
type refusal struct {
	status int
	wait   time.Duration // that was asked for
}

func (r *refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("windsock answers %d %s", r.status, http.StatusText(r.status)))
}

// status is that of the refusal, or 0.
func status(err error) int {
	if r := new(refusal); errors.As(err, &r) {
		return r.status
	}
	return 0
}

// backoff is how long to wait after so many tries in vain, the last with this error.
func backoff(tries int, err error) time.Duration {
	if r := new(refusal); errors.As(err, &r) && r.wait > 0 {
		return r.wait
	}
	wait := min(time.Second<<min(tries, 10), maxBackoff)
	return wait - wait/4 + rand.N(wait/2)
}

// askedWait is what a Retry-After in seconds asks for.
func askedWait(header http.Header) time.Duration {
	secs, err := strconv.ParseUint(header.Get("Retry-After"), 10, 32)
	if err != nil {
		return 0
	}
	return min(max(time.Duration(secs)*time.Second, time.Second), maxAsked)
}

// plain is the error without the URL, which is a secret where signals go to.
func plain(err error) error {
	if u := new(url.Error); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// readToken reads the token each time anew, as it may be replaced. Nobody else may read it.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("%s has mode %04o: others may read or write it; chmod 600 %[1]s", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s has no token", path)
	}
	return token, nil
}
