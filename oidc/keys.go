package oidc

import (
	"context"
	"crypto"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"windsock"
)

const (
	refresh   = 10 * time.Minute // after which keys are read again, so that those withdrawn are gone
	apart     = 10 * time.Second // at least, however often tokens name keys that are not known
	retry     = time.Second      // after the first failure; doubled each time,
	maxRetry  = time.Minute      // up to that
	fetchTime = 10 * time.Second // for all that a reading takes
	patience  = 3 * time.Second  // of a request for a reading under way
	maxAnswer = 1 << 20          // bytes
	maxKeys   = 100
)

var errAway = fmt.Errorf("the keys of the token's issuer cannot be read now: %w", windsock.ErrUnavailable)

// A keyring holds the keys as they were last read. Only run reads, so that no stranger has
// us ask the issuer more often than pleases it.
type keyring struct {
	wanted chan struct{} // somebody has a token whose key is not known

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	err     error         // of the last reading
	reading bool          // one is under way
	next    time.Time     // when they may be read again
	done    chan struct{} // closed when the reading under way, or the next one, is done
}

func newKeyring() *keyring {
	return &keyring{wanted: make(chan struct{}, 1), done: make(chan struct{})}
}

// of returns the public keys that a token with this key id and algorithm may be signed
// with. One that is not known may be new, so they are read again, unless they just were.
func (k *keyring) of(ctx context.Context, id, algorithm string) ([]crypto.PublicKey, error) {
	found, due, done, err := k.look(id, algorithm)
	if len(found) > 0 {
		return found, nil
	}
	if !due {
		return nil, err
	}
	select {
	case k.wanted <- struct{}{}:
	default: // so does somebody else
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		return nil, errAway
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if found, _, _, err = k.look(id, algorithm); len(found) > 0 {
		return found, nil
	}
	return nil, err
}

// look returns what there is now; if that is nothing, whether it may be there when done is
// closed, and why it is not now.
func (k *keyring) look(id, algorithm string) (found []crypto.PublicKey, due bool, done <-chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.keys {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			found = append(found, key.Key)
		}
	}
	err = errToken
	if k.err != nil {
		err = errAway
	}
	return found, k.reading || !time.Now().Before(k.next), k.done, err
}

// run reads the keys, again and again, until ctx ends.
func (k *keyring) run(ctx context.Context, read func(context.Context) ([]jose.JSONWebKey, error), tell func(error)) {
	for wait := retry; ctx.Err() == nil; {
		k.begin()
		keys, err := read(ctx)
		soonest, latest := apart, refresh
		if err != nil {
			soonest, latest, wait = wait, wait, min(2*wait, maxRetry)
		} else {
			wait = retry
		}
		k.end(keys, err, soonest)
		tell(err)
		select {
		case <-ctx.Done():
		case <-time.After(soonest):
		}
		select {
		case <-ctx.Done():
		case <-k.wanted:
		case <-time.After(latest - soonest):
		}
	}
}

func (k *keyring) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reading = true
	select {
	case <-k.wanted: // it is under way
	default:
	}
}

// end keeps what was read. After a failure what was read before stays.
func (k *keyring) end(keys []jose.JSONWebKey, err error, again time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err = err; err == nil {
		k.keys = keys
	}
	k.reading, k.next = false, time.Now().Add(again)
	close(k.done)
	k.done = make(chan struct{})
}

// fetch asks the issuer where its keys are, and reads them.
func (v *Verifier) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, v.client), v.Issuer)
	if err != nil {
		return nil, err
	}
	var told struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&told); err != nil {
		return nil, err
	}
	if u, err := url.Parse(told.Keys); err != nil || !isSafe(u) {
		return nil, fmt.Errorf("the issuer names %q as the place of its keys", windsock.Clip(told.Keys))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, told.Keys, nil)
	if err != nil {
		return nil, err
	}
	resp, err := v.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", told.Keys, resp.Status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		return nil, fmt.Errorf("%s: %w", told.Keys, err)
	}
	return usable(set.Keys), nil
}

// usable are the keys that sign, of those kinds that we know.
func usable(set []json.RawMessage) (keys []jose.JSONWebKey) {
	for _, text := range set[:min(len(set), maxKeys)] {
		var key jose.JSONWebKey
		if json.Unmarshal(text, &key) != nil || !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// newClient returns a client that reads no more than it has to, from nowhere else.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     bounded{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}
