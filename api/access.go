package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"windsock"
)

// A Verifier knows who carries a token. It is asked at every request, and again while one
// lasts, so it should remember what it knows, for a second or two.
type Verifier interface {
	// Principal returns ErrUnauthorized itself for a token that is none of its own, and
	// wraps it, saying why, for one that is not valid.
	Principal(ctx context.Context, bearer windsock.Secret) (windsock.Principal, error)
}

// Open says whether nobody is asked who he is although there are verifiers.
type Open func(context.Context) (bool, error)

// What a route needs of who calls.
const (
	anyone windsock.Permission = "" // nothing, or it asks for a token of its own
	read                       = windsock.MayRead
	report                     = windsock.MayReport
	admin                      = windsock.MayAdmin
)

// maxToken is how long a token may be, in bytes.
const maxToken = 8 << 10

// again is how soon it is noticed that who waits, or is sent a stream, may not any more.
const again = 5 * time.Second

// Why callers are refused, as the metrics have it.
const (
	refusedMissing = "missing" // there is no token, or nothing that can be read as one
	refusedUnknown = "unknown" // it is nobody's, or has expired
	refusedRole    = "role"    // its role is too small
	refusedScope   = "scope"   // it may not report on this subject
)

// admit returns the request with who makes it in its context, if he may.
func (s *Server) admit(rt route, r *http.Request) (*http.Request, error) {
	if rt.needs == anyone || len(s.Verifiers) == 0 {
		return r, nil
	}
	if s.Open != nil {
		open, err := s.Open(r.Context())
		if err != nil || open {
			return r, err
		}
	}
	token, err := bearer(r)
	if err != nil {
		s.refused(r, refusedMissing, "")
		return r, err
	}
	if err := s.limits.try(r, string(token)); err != nil {
		return r, err
	}
	p, err := s.principal(r.Context(), token)
	s.limits.tried(r, string(token), err)
	switch {
	case errors.Is(err, windsock.ErrUnauthorized):
		s.refused(r, refusedUnknown, "")
		return r, at("Authorization", err)
	case err != nil:
		return r, err
	case !p.Permission.Allows(rt.needs):
		s.refused(r, refusedRole, p.Name)
		return r, fmt.Errorf("%s has the role %s; this takes %s: %w", p.Name, p.Permission, rt.needs, windsock.ErrForbidden)
	}
	ctx := windsock.WithPrincipal(r.Context(), p)
	if rt.needs == read { // it may wait, and then has to be known still
		ctx = context.WithValue(ctx, tokenKey{}, token)
	}
	return r.WithContext(ctx), nil
}

// principal asks the verifiers, one after the other. One that cannot tell now does not keep
// another from knowing.
func (s *Server) principal(ctx context.Context, token windsock.Secret) (p windsock.Principal, err error) {
	answer := fmt.Errorf("this token is nobody's: %w", windsock.ErrUnauthorized)
	for _, v := range s.Verifiers {
		p, err := v.Principal(ctx, token)
		if err == nil {
			return p, nil
		}
		switch {
		case !errors.Is(err, windsock.ErrUnauthorized):
			answer = err
		case err != windsock.ErrUnauthorized && errors.Is(answer, windsock.ErrUnauthorized):
			answer = err // it says why
		}
	}
	return windsock.Principal{}, answer
}

// bearer returns the token that a request carries.
func bearer(r *http.Request) (windsock.Secret, error) {
	refuse := func(why string) (windsock.Secret, error) {
		return "", at("Authorization", fmt.Errorf("%s: %w", why, windsock.ErrUnauthorized))
	}
	given, keystone := r.Header.Values("Authorization"), r.Header.Values("X-Auth-Token")
	if len(given) == 0 && len(keystone) == 1 { // as clients of OpenStack's services say it
		given = []string{"Bearer " + keystone[0]}
	}
	if len(given) != 1 || len(keystone) > 1 {
		return refuse("want one header Authorization: Bearer and a token")
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	token = strings.TrimSpace(token)
	switch {
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return refuse("want Bearer and a token")
	case len(token) > maxToken:
		return refuse(fmt.Sprintf("want a token of at most %d KiB", maxToken>>10))
	}
	return windsock.Secret(token), nil
}

type tokenKey struct{}

// known returns why the caller may go on no more: his token was revoked, or has expired.
// While nobody can tell he may.
func (s *Server) known(ctx context.Context) error {
	token, ok := ctx.Value(tokenKey{}).(windsock.Secret)
	if !ok {
		return nil // nobody asked for one
	}
	if _, err := s.principal(ctx, token); errors.Is(err, windsock.ErrUnauthorized) {
		return at("Authorization", err)
	}
	return nil
}

// refused notes that somebody was sent away. Only one a second is logged, as strangers
// must not fill the disk.
func (s *Server) refused(r *http.Request, why, name string) {
	s.metrics.refused.WithLabelValues(why).Inc()
	if now := time.Now().Unix(); s.complained.Swap(now) != now {
		s.Logger.Warn("refused", "why", why, "name", name, "method", r.Method, "path", loggedPath(r), "address", clientOf(r))
	}
}

// whileKnown cancels soon after the caller is not known any more, if ctx does not end before.
func (s *Server) whileKnown(ctx context.Context, cancel context.CancelFunc) {
	if ctx.Value(tokenKey{}) == nil {
		return
	}
	time.AfterFunc(again, func() {
		switch {
		case ctx.Err() != nil:
		case s.known(ctx) != nil:
			cancel()
		default:
			s.whileKnown(ctx, cancel)
		}
	})
}
