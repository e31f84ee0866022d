// Package oidc knows who carries a token of an OpenID Connect issuer: a JWT that it has
// signed, for us.
package oidc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	lru "github.com/hashicorp/golang-lru/v2"

	"windsock"
)

const (
	skew     = time.Minute // by which the issuer's clock may differ from ours
	maxToken = 8 << 10     // bytes
	maxName  = 200         // bytes
	maxKnown = 10_000      // tokens that need not be checked once more
)

// algorithms are those of which nobody who can check a token could make one.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// A Verifier is an api.Verifier. It knows nobody until Run has read the issuer's keys.
type Verifier struct {
	Config
	client *http.Client
	log    *slog.Logger
	keys   *keyring
	known  *lru.Cache[[sha256.Size]byte, known] // by a digest of the token; empty after keys were read
}

// known is who carries a token, while that is valid.
type known struct {
	windsock.Principal
	until time.Time
}

// New returns the verifier of an issuer, which is asked by the transport.
func New(c Config, transport http.RoundTripper, log *slog.Logger) *Verifier {
	remembered, _ := lru.New[[sha256.Size]byte, known](maxKnown) // it fails for sizes below 1 only
	return &Verifier{c, newClient(transport), log, newKeyring(), remembered}
}

// errToken is all that is told of why a token is not believed: what is in it is not for
// logs, and who made it up shall not learn how.
var errToken = fmt.Errorf("the token is not one of the issuer for this service, or is not valid now: %w", windsock.ErrUnauthorized)

// Principal returns who carries a token: ErrUnauthorized when it is not one of the issuer
// for us, ErrForbidden when it is, but says of no role, ErrUnavailable when the issuer's
// keys are not known now.
func (v *Verifier) Principal(ctx context.Context, bearer windsock.Secret) (p windsock.Principal, err error) {
	if len(bearer) > maxToken || strings.Count(string(bearer), ".") != 2 {
		return p, errToken
	}
	digest := sha256.Sum256([]byte(bearer))
	if k, is := v.known.Get(digest); is && time.Now().Before(k.until) {
		return k.Principal, nil
	}
	claims, until, err := v.check(ctx, string(bearer))
	if err != nil {
		return p, err
	}
	if p, err = v.principal(claims); err == nil {
		v.known.Add(digest, known{p, until})
	}
	return p, err
}

// check returns what a token claims, and until when, if it is one of the issuer for us.
func (v *Verifier) check(ctx context.Context, text string) (claims map[string]any, until time.Time, err error) {
	token, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return nil, until, errToken
	}
	var said struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(token.UnsafePayloadWithoutVerification(), &said) != nil || said.Issuer != v.Issuer {
		return nil, until, errToken // before the issuer is asked for anything
	}
	header := token.Signatures[0].Header
	keys, err := v.keys.of(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, until, err
	}
	checked, err := oidc.NewVerifier(v.Issuer, &oidc.StaticKeySet{PublicKeys: keys}, &oidc.Config{
		ClientID: v.Audience, SupportedSigningAlgs: []string{header.Algorithm},
		SkipExpiryCheck: true, // its skew is none for exp, and five minutes for nbf
	}).Verify(ctx, text)
	if err != nil || checked.Claims(&claims) != nil {
		return nil, until, errToken
	}
	now := time.Now()
	if until = checked.Expiry.Add(skew); !now.Before(until) {
		return nil, until, errToken
	}
	if notBefore, has := claims["nbf"]; has {
		seconds, is := notBefore.(float64)
		if !is || now.Add(skew).Before(time.Unix(int64(seconds), 0)) {
			return nil, until, errToken
		}
	}
	return claims, until, nil
}

// principal is what the claims say.
func (v *Verifier) principal(claims map[string]any) (p windsock.Principal, err error) {
	name, _ := claim(claims, cmp.Or(v.NameClaim, "sub")).(string)
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return p, errToken
	}
	p = windsock.Principal{Name: "oidc:" + name, Scope: windsock.Global}
	roleClaim := cmp.Or(v.RoleClaim, "roles")
	for _, value := range words(claim(claims, roleClaim)) {
		role := windsock.Permission(value)
		if v.Roles != nil {
			role = v.Roles[value]
		}
		if role.Allows(cmp.Or(p.Permission, windsock.MayRead)) {
			p.Permission = role
		}
	}
	if p.Permission == "" {
		return p, fmt.Errorf("%s has no role here: none is in the claim %s of the token: %w", p.Name, roleClaim, windsock.ErrForbidden)
	}
	if v.ScopeClaim != "" && p.Permission == windsock.MayReport {
		scope, _ := claim(claims, v.ScopeClaim).(string)
		if p.Scope = windsock.Scope(scope); p.Scope.Validate() != nil {
			return p, fmt.Errorf("%s has no scope here: none is in the claim %s of the token: %w", p.Name, v.ScopeClaim, windsock.ErrForbidden)
		}
	}
	return p, nil
}

// claim finds one by its path. A name may have dots of its own.
func claim(in map[string]any, path string) any {
	if v, has := in[path]; has {
		return v
	}
	for i, r := range path {
		if r != '.' {
			continue
		}
		if inner, is := in[path[:i]].(map[string]any); is {
			if v := claim(inner, path[i+1:]); v != nil {
				return v
			}
		}
	}
	return nil
}

// words are those of a text, or the texts of a list.
func words(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		for _, item := range v {
			if s, is := item.(string); is {
				list = append(list, s)
			}
		}
	}
	return list
}

// Run keeps the issuer's keys until ctx ends.
func (v *Verifier) Run(ctx context.Context) error {
	v.keys.run(ctx, v.fetch, func(err error) {
		if err == nil {
			v.known.Purge() // some may be signed with a key that was withdrawn
			v.log.Info("the issuer's keys are read", "issuer", v.Issuer)
		} else if !errors.Is(err, context.Canceled) {
			v.log.Warn("the issuer's keys cannot be read, those from before stay", "issuer", v.Issuer, "error", fmt.Sprintf("%.300s", err)) // the answer is in it
		}
	})
	return nil
}
