package oidc

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"windsock"
)

const issuerURL = "https://id.example.com/realms/ops"

// An issuer is one in memory: a transport.
type issuer struct {
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fault   func(*http.Request) (*http.Response, error) // instead of an answer
	asked   int                                         // for its keys
	jwksURI string
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	fault, keys, uri := i.fault, i.keys, i.jwksURI
	i.mu.Unlock()
	if fault != nil {
		return fault(r)
	}
	w := httptest.NewRecorder()
	switch r.URL.Path {
	case "/realms/ops/.well-known/openid-configuration":
		// That it would take none and HS256 must not count.
		json.NewEncoder(w).Encode(map[string]any{"issuer": issuerURL, "jwks_uri": uri, "id_token_signing_alg_values_supported": []string{"none", "HS256", "RS256"}})
	case "/keys":
		i.mu.Lock()
		i.asked++
		i.mu.Unlock()
		set := []any{map[string]string{"kty": "OKP", "crv": "Ed448", "kid": "odd"}, jose.JSONWebKey{Key: []byte("symmetric"), KeyID: "shared"}}
		for _, k := range keys {
			set = append(set, k)
		}
		json.NewEncoder(w).Encode(map[string]any{"keys": set})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// A pair signs.
type pair struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

var (
	rsaPair = pair{"rsa", jose.RS256, must(rsa.GenerateKey(rand.Reader, 2048))}
	ecPair  = pair{"ec", jose.ES256, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	edPair  = pair{"ed", jose.EdDSA, func() crypto.Signer { _, k, _ := ed25519.GenerateKey(rand.Reader); return k }()}
	newPair = pair{"new", jose.ES256, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (p pair) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: p.private.Public(), KeyID: p.id, Algorithm: string(p.algorithm), Use: "sig"}
}

// sign makes a token of claims.
func (p pair) sign(t testing.TB, claims map[string]any) windsock.Secret {
	t.Helper()
	return signed(t, jose.SigningKey{Algorithm: p.algorithm, Key: jose.JSONWebKey{Key: p.private, KeyID: p.id}}, claims)
}

func signed(t testing.TB, key jose.SigningKey, claims map[string]any) windsock.Secret {
	t.Helper()
	signer := must(jose.NewSigner(key, nil))
	object := must(signer.Sign(must(json.Marshal(claims))))
	return windsock.Secret(must(object.CompactSerialize()))
}

// claimed is what a good token says but for what is changed; nil takes it out.
func claimed(changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": issuerURL, "aud": "windsock", "sub": "alice", "roles": []string{"report"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

var simple = Config{Issuer: issuerURL, Audience: "windsock"}

// running calls f, in a bubble, with a verifier that runs; log is what it says.
func running(t *testing.T, c Config, f func(t *testing.T, i *issuer, v *Verifier, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{keys: []jose.JSONWebKey{rsaPair.public(), ecPair.public(), edPair.public()}, jwksURI: "https://id.example.com/keys"}
		var log bytes.Buffer
		v := New(c, i, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- v.Run(ctx) }()
		synctest.Wait()
		f(t, i, v, &log)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (v *Verifier) wants(t *testing.T, what string, token windsock.Secret, want windsock.Principal, wantErr error) {
	t.Helper()
	got, err := v.Principal(t.Context(), token)
	if !errors.Is(err, wantErr) || wantErr == nil && got != want {
		t.Errorf("%s: got %+v, %v; want %+v, %v", what, got, err, want, wantErr)
	}
	if err != nil && len(token) > 0 && strings.Contains(err.Error(), string(token)) {
		t.Errorf("%s: the token is in the error: %v", what, err)
	}
}

var alice = windsock.Principal{Name: "oidc:alice", Permission: windsock.MayReport, Scope: windsock.Global}

func TestTokens(t *testing.T) {
	running(t, simple, func(t *testing.T, i *issuer, v *Verifier, log *bytes.Buffer) {
		in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
		for what, c := range map[string]struct {
			changes map[string]any
			err     error
		}{
			"a good one":                      {nil, nil},
			"for several":                     {map[string]any{"aud": []string{"other", "windsock"}}, nil},
			"for another":                     {map[string]any{"aud": "other"}, windsock.ErrUnauthorized},
			"for nobody":                      {map[string]any{"aud": nil}, windsock.ErrUnauthorized},
			"of another issuer":               {map[string]any{"iss": "https://evil.example"}, windsock.ErrUnauthorized},
			"of no issuer":                    {map[string]any{"iss": nil}, windsock.ErrUnauthorized},
			"expired":                         {map[string]any{"exp": in(-2 * time.Minute)}, windsock.ErrUnauthorized},
			"expired by a clock that is fast": {map[string]any{"exp": in(-30 * time.Second)}, nil},
			"that never expires":              {map[string]any{"exp": nil}, windsock.ErrUnauthorized},
			"not yet valid":                   {map[string]any{"nbf": in(2 * time.Minute)}, windsock.ErrUnauthorized},
			"nearly valid":                    {map[string]any{"nbf": in(30 * time.Second)}, nil},
			"valid since":                     {map[string]any{"nbf": in(-time.Hour)}, nil},
			"valid from a word on":            {map[string]any{"nbf": "tomorrow"}, windsock.ErrUnauthorized},
			"of nobody":                       {map[string]any{"sub": nil}, windsock.ErrUnauthorized},
			"of a name over two lines":        {map[string]any{"sub": "alice\nlevel=ERROR"}, windsock.ErrUnauthorized},
			"of a long name":                  {map[string]any{"sub": strings.Repeat("a", 201)}, windsock.ErrUnauthorized},
			"of no role":                      {map[string]any{"roles": nil}, windsock.ErrForbidden},
			"of roles elsewhere":              {map[string]any{"roles": []string{"superuser", "Admin"}}, windsock.ErrForbidden},
		} {
			v.wants(t, what, rsaPair.sign(t, claimed(c.changes)), alice, c.err)
		}
		for _, p := range []pair{rsaPair, ecPair, edPair, {"rsa", jose.PS256, rsaPair.private}} {
			err := error(nil)
			if p.algorithm == jose.PS256 { // of a key for RS256
				err = windsock.ErrUnauthorized
			}
			v.wants(t, string(p.algorithm), p.sign(t, claimed(nil)), alice, err)
		}
		unnamed := pair{"", jose.ES256, ecPair.private}
		v.wants(t, "of a key that it does not name", unnamed.sign(t, claimed(nil)), alice, nil)

		good := string(rsaPair.sign(t, claimed(nil)))
		parts := strings.Split(good, ".")
		b64 := func(v any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))) }
		der := must(x509.MarshalPKIXPublicKey(rsaPair.private.Public()))
		public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		stranger := pair{"rsa", jose.RS256, must(rsa.GenerateKey(rand.Reader, 2048))}
		own := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: stranger.private}, &jose.SignerOptions{EmbedJWK: true}))
		embedded := windsock.Secret(must(must(own.Sign(must(json.Marshal(claimed(nil))))).CompactSerialize()))
		for what, token := range map[string]windsock.Secret{
			"signed by nobody":              windsock.Secret(b64(map[string]string{"alg": "none", "typ": "JWT"}) + "." + parts[1] + "."),
			"whose signature is left out":   windsock.Secret(parts[0] + "." + parts[1] + "."),
			"signed with the public key":    signed(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: public, KeyID: "rsa"}}, claimed(nil)),
			"signed with a shared key":      signed(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: bytes.Repeat([]byte("k"), 32), KeyID: "shared"}}, claimed(nil)),
			"signed by somebody else":       stranger.sign(t, claimed(nil)),
			"signed by the key that it has": embedded,
			"changed":                       windsock.Secret(parts[0] + "." + b64(claimed(map[string]any{"roles": "admin"})) + "." + parts[2]),
			"huge":                          rsaPair.sign(t, claimed(map[string]any{"groups": strings.Repeat("x", 8<<10)})),
			"no JWT":                        "wst_0123456789",
			"of dots":                       "..",
			"whose claims are no object":    windsock.Secret(parts[0] + "." + b64("x") + "." + parts[2]),
			"with two signatures, as JSON":  windsock.Secret(fmt.Sprintf(`{"payload":%q,"signatures":[{"protected":%q,"signature":%q},{"protected":%q,"signature":%q}]}`, parts[1], parts[0], parts[2], parts[0], parts[2])),
			"nothing":                       "",
			"that is not ASCII":             windsock.Secret("ä." + parts[1] + "." + parts[2]),
			"with another part at the end":  windsock.Secret(good + ".x"),
			"of a line feed and a good one": windsock.Secret("\n" + good + "=" + "\x00"),
		} {
			v.wants(t, what, token, alice, windsock.ErrUnauthorized)
		}
		if n := i.count(); n != 1 {
			t.Errorf("the issuer was asked for its keys %d times", n)
		}
		if strings.Contains(log.String(), parts[1]) || strings.Contains(log.String(), "alice") {
			t.Errorf("of tokens the log says\n%s", log)
		}
	})
}

func TestClaims(t *testing.T) {
	nested := map[string]any{"realm_access": map[string]any{"roles": []string{"offline", "monitors", "ops"}}}
	for what, c := range map[string]struct {
		config Config
		claims map[string]any
		want   windsock.Principal
		err    error
	}{
		"the greatest of the roles counts":      {Config{}, map[string]any{"roles": []string{"admin", "read"}}, windsock.Principal{Name: "oidc:alice", Permission: "admin", Scope: "global"}, nil},
		"a role may be a word":                  {Config{}, map[string]any{"roles": "read"}, windsock.Principal{Name: "oidc:alice", Permission: "read", Scope: "global"}, nil},
		"or several":                            {Config{RoleClaim: "scope", Roles: map[string]windsock.Permission{"windsock:report": "report"}}, map[string]any{"scope": "openid windsock:report"}, alice, nil},
		"a path":                                {Config{RoleClaim: "realm_access.roles", Roles: map[string]windsock.Permission{"monitors": "report", "viewers": "read"}}, nested, alice, nil},
		"with a mapping our names mean nothing": {Config{Roles: map[string]windsock.Permission{"ops": "admin"}}, map[string]any{"roles": []string{"admin"}}, alice, windsock.ErrForbidden},
		"a claim with dots in its name":         {Config{RoleClaim: "https://windsock.example.com/roles"}, map[string]any{"https://windsock.example.com/roles": []string{"report"}}, alice, nil},
		"roles of another kind":                 {Config{}, map[string]any{"roles": map[string]any{"report": true}}, alice, windsock.ErrForbidden},
		"another name":                          {Config{NameClaim: "email"}, map[string]any{"email": "alice@example.com"}, windsock.Principal{Name: "oidc:alice@example.com", Permission: "report", Scope: "global"}, nil},
		"that is not there":                     {Config{NameClaim: "email"}, nil, alice, windsock.ErrUnauthorized},
		"a scope":                               {Config{ScopeClaim: "windsock.scope"}, map[string]any{"windsock": map[string]any{"scope": "deployment:shop"}}, windsock.Principal{Name: "oidc:alice", Permission: "report", Scope: "deployment:shop"}, nil},
		"without the scope none may report":     {Config{ScopeClaim: "scope"}, nil, alice, windsock.ErrForbidden},
		"nor with one that is none":             {Config{ScopeClaim: "scope"}, map[string]any{"scope": "openid"}, alice, windsock.ErrForbidden},
		"who reports nothing needs none":        {Config{ScopeClaim: "scope"}, map[string]any{"roles": "read"}, windsock.Principal{Name: "oidc:alice", Permission: "read", Scope: "global"}, nil},
	} {
		c.config.Issuer, c.config.Audience = issuerURL, "windsock"
		running(t, c.config, func(t *testing.T, _ *issuer, v *Verifier, _ *bytes.Buffer) {
			v.wants(t, what, ecPair.sign(t, claimed(c.claims)), c.want, c.err)
		})
	}
}

func TestKeysAreReadAgain(t *testing.T) {
	running(t, simple, func(t *testing.T, i *issuer, v *Verifier, _ *bytes.Buffer) {
		after := func(d time.Duration) {
			time.Sleep(d) // of the bubble
			synctest.Wait()
		}
		old, fresh := ecPair.sign(t, claimed(map[string]any{"exp": time.Now().Add(time.Hour).Unix()})), newPair.sign(t, claimed(map[string]any{"exp": time.Now().Add(time.Hour).Unix()}))
		v.wants(t, "by a key that is not there yet", fresh, alice, windsock.ErrUnauthorized)
		i.set(func() { i.keys = append(i.keys, newPair.public()) })
		v.wants(t, "by a new key, right after they were read", fresh, alice, windsock.ErrUnauthorized)
		if n := i.count(); n != 1 {
			t.Errorf("they were read %d times, want once", n)
		}
		after(apart)
		v.wants(t, "by a new key", fresh, alice, nil)
		v.wants(t, "by the old one", old, alice, nil)
		if n := i.count(); n != 2 {
			t.Errorf("they were read %d times, want twice", n)
		}
		unknown := pair{"unknown", jose.ES256, newPair.private}.sign(t, claimed(map[string]any{"exp": time.Now().Add(time.Hour).Unix()}))
		var asking sync.WaitGroup
		for range 100 { // in a second each, for a minute
			for range 20 {
				asking.Go(func() { v.wants(t, "by an unknown key", unknown, alice, windsock.ErrUnauthorized) })
			}
			after(600 * time.Millisecond)
		}
		asking.Wait()
		if n := i.count(); n < 7 || n > 9 {
			t.Errorf("within a minute of unknown keys they were read %d times, want one every %s", n-2, apart)
		}

		i.set(func() { i.keys = []jose.JSONWebKey{newPair.public()} })
		after(refresh + apart)
		v.wants(t, "by a key that was withdrawn", old, alice, windsock.ErrUnauthorized)
		v.wants(t, "by the other", fresh, alice, nil)
	})
}

func TestIssuerAway(t *testing.T) {
	refused := errors.New("connection refused")
	down := func(*http.Request) (*http.Response, error) { return nil, refused }
	i := &issuer{keys: []jose.JSONWebKey{ecPair.public()}, fault: down, jwksURI: "https://id.example.com/keys"}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		v := New(simple, i, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- v.Run(ctx) }()
		synctest.Wait()
		token := func() windsock.Secret { return ecPair.sign(t, claimed(nil)) }
		v.wants(t, "at the start", token(), alice, windsock.ErrUnavailable)
		v.wants(t, "which says nothing of what is no token of it", "wst_0123456789", alice, windsock.ErrUnauthorized)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "level=WARN"); n < 14 || n > 20 {
			t.Errorf("in ten minutes it was tried %d times:\n%s", n, &log)
		}
		v.wants(t, "later", token(), alice, windsock.ErrUnavailable)
		i.set(func() { i.fault = nil })
		time.Sleep(maxRetry)
		synctest.Wait()
		v.wants(t, "when it is back", token(), alice, nil)

		i.set(func() { i.fault = down })
		time.Sleep(2 * refresh)
		synctest.Wait()
		v.wants(t, "when it is away again", token(), alice, nil)
		v.wants(t, "by a key that may be new", newPair.sign(t, claimed(nil)), alice, windsock.ErrUnavailable)

		// One that hangs holds up nobody for long, and nobody whose key is known.
		i.set(func() {
			i.fault = func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
		})
		time.Sleep(maxRetry + fetchTime/2)
		synctest.Wait()
		begun := time.Now()
		v.wants(t, "when it hangs", token(), alice, nil)
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("who is known waited for %s", waited)
		}
		v.wants(t, "when it hangs, by a key that may be new", newPair.sign(t, claimed(nil)), alice, windsock.ErrUnavailable)
		if waited := time.Since(begun); waited > patience {
			t.Errorf("waited for %s", waited)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A token that was checked is not checked again, but ends when it ends.
func TestKnownTokensEnd(t *testing.T) {
	running(t, simple, func(t *testing.T, i *issuer, v *Verifier, _ *bytes.Buffer) {
		token := ecPair.sign(t, claimed(map[string]any{"exp": time.Now().Add(2 * time.Minute).Unix()}))
		for range 3 {
			v.wants(t, "a good one", token, alice, nil)
		}
		if v.known.Len() != 1 {
			t.Errorf("%d tokens are known", v.known.Len())
		}
		time.Sleep(2*time.Minute + skew - time.Second)
		v.wants(t, "nearly expired", token, alice, nil)
		time.Sleep(time.Second)
		v.wants(t, "expired", token, alice, windsock.ErrUnauthorized)
	})
}

// What an issuer answers is not believed blindly, and is not read without end.
func TestIssuersThatMakeNoSense(t *testing.T) {
	answer := func(body string, status int) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(status)
			w.WriteString(body)
			return w.Result(), nil
		}
	}
	for what, change := range map[string]func(*issuer){
		"another issuer": func(i *issuer) {
			i.fault = answer(`{"issuer":"https://evil.example","jwks_uri":"https://evil.example/keys"}`, 200)
		},
		"a redirect":                func(i *issuer) { i.fault = answer("", 302) },
		"HTML":                      func(i *issuer) { i.fault = answer("<html>", 200) },
		"an endless answer":         func(i *issuer) { i.fault = answer(`{"issuer":"`+issuerURL+`","x":"`+strings.Repeat("x", 2<<20), 200) },
		"keys that anybody changes": func(i *issuer) { i.jwksURI = "http://id.example.com/keys" },
		"keys nowhere":              func(i *issuer) { i.jwksURI = "" },
		"keys that are not there":   func(i *issuer) { i.jwksURI = "https://id.example.com/elsewhere" },
	} {
		synctest.Test(t, func(t *testing.T) {
			i := &issuer{keys: []jose.JSONWebKey{ecPair.public()}, jwksURI: "https://id.example.com/keys"}
			change(i)
			var log bytes.Buffer
			v := New(simple, i, slog.New(slog.NewTextHandler(&log, nil)))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- v.Run(ctx) }()
			synctest.Wait()
			v.wants(t, what, ecPair.sign(t, claimed(nil)), alice, windsock.ErrUnavailable)
			cancel()
			<-ended
			if n := strings.Count(log.String(), "cannot be read"); n != 1 || log.Len() > 1000 {
				t.Errorf("%s: the log says\n%.2000s", what, &log)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	for what, c := range map[string]struct {
		config Config
		field  string // at fault
	}{
		"none":                      {Config{}, ""},
		"the least":                 {simple, ""},
		"on loopback":               {Config{Issuer: "http://127.0.0.1:8081", Audience: "w"}, ""},
		"over the net in plain":     {Config{Issuer: "http://id.example.com", Audience: "w"}, "oidc.issuer"},
		"no URL":                    {Config{Issuer: "id.example.com", Audience: "w"}, "oidc.issuer"},
		"for anything":              {Config{Issuer: issuerURL}, "oidc.audience"},
		"without an issuer":         {Config{Audience: "w"}, "oidc.issuer"},
		"a role that there is not":  {Config{Issuer: issuerURL, Audience: "w", Roles: map[string]windsock.Permission{"ops": "root"}}, "oidc.roles"},
		"a password in the address": {Config{Issuer: "https://u:p@id.example.com", Audience: "w"}, "oidc.issuer"},
	} {
		err := c.config.Check()
		var field *windsock.FieldError
		if errors.As(err, &field); (err == nil) != (c.field == "") || err != nil && field.Field != c.field {
			t.Errorf("%s: %v, want %q", what, err, c.field)
		}
	}
}

// What a token costs each request that carries it.
func BenchmarkPrincipal(b *testing.B) {
	for _, p := range []pair{rsaPair, ecPair, edPair} {
		b.Run(string(p.algorithm), func(b *testing.B) {
			v := New(simple, nil, slog.New(slog.DiscardHandler))
			v.keys.end([]jose.JSONWebKey{p.public()}, nil, apart)
			token := p.sign(b, claimed(nil))
			for b.Loop() {
				v.known.Purge()
				if _, err := v.Principal(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("known", func(b *testing.B) {
		v := New(simple, nil, slog.New(slog.DiscardHandler))
		v.keys.end([]jose.JSONWebKey{rsaPair.public()}, nil, apart)
		token := rsaPair.sign(b, claimed(nil))
		for b.Loop() {
			if _, err := v.Principal(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
}
