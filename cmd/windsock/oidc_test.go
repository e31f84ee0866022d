package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"windsock/oidc"
)

// newIssuer starts an issuer that has one key, with which sign makes tokens.
func newIssuer(t *testing.T) (url string, sign func(claims map[string]any) string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"issuer": srv.URL, "jwks_uri": srv.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "1", Use: "sig"}}})
	})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return srv.URL, func(claims map[string]any) string {
		if claims["iss"] == nil {
			claims["iss"] = srv.URL
		}
		claims["aud"], claims["exp"] = "windsock", time.Now().Add(time.Hour).Unix()
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signer.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		compact, err := token.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
}

func TestServeBelievesAnIssuer(t *testing.T) {
	t.Parallel()
	issuer, sign := newIssuer(t)
	base := "http://" + serveWith(t, ServeOptions{OIDC: oidc.Config{Issuer: issuer, Audience: "windsock", RoleClaim: "realm_access.roles"}})
	as := func(role string) string {
		return "Bearer " + sign(map[string]any{"sub": "alice", "realm_access": map[string]any{"roles": []string{role}}})
	}
	put := func(authorization string) (*http.Response, string) {
		t.Helper()
		return call(t, http.DefaultClient, "PUT", base+"/api/deployments/shop", "{}", "Content-Type", "application/json", "Authorization", authorization)
	}
	for name, c := range map[string]struct {
		authorization string
		status        int
		say           string
	}{
		"an admin":        {as("admin"), 201, "shop"},
		"one who reads":   {as("read"), 403, "oidc:alice"},
		"one of no role":  {as("cook"), 403, "no role here"},
		"a forged token":  {as("admin")[:100] + "AAAA" + as("admin")[104:], 401, "not one of the issuer"},
		"one without":     {"", 401, "Bearer"},
		"one of windsock": {"Bearer wst_secret", 401, "no such token"},
	} {
		if resp, body := put(c.authorization); resp.StatusCode != c.status || !strings.Contains(body, c.say) {
			t.Errorf("%s: %s %s; want %d and %q", name, resp.Status, body, c.status, c.say)
		}
	}
}

// windsock starts while the issuer is away, and lets nobody in meanwhile.
func TestServeStartsWithoutItsIssuer(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	base := "http://" + serveWith(t, ServeOptions{OIDC: oidc.Config{Issuer: gone.URL, Audience: "windsock"}})
	if resp, body := call(t, http.DefaultClient, "GET", base+"/api/pools", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s %s", resp.Status, body)
	}
	_, sign := newIssuer(t)
	if resp, body := call(t, http.DefaultClient, "GET", base+"/api/pools", "", "Authorization", "Bearer "+sign(map[string]any{"iss": gone.URL})); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("with a token of it: %s %s", resp.Status, body)
	}
	if resp, _ := call(t, http.DefaultClient, "GET", base+"/readyz", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("it is not ready: %s", resp.Status)
	}
}

func TestTheFileNamesAnIssuer(t *testing.T) {
	t.Parallel()
	file, err := LoadConfig(writeConfig(t, `
oidc:
  issuer: https://id.example.com/realms/ops
  audience: windsock
  role_claim: realm_access.roles
  roles: {ops: admin, monitoring: report}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := parseServe(t).options(file).OIDC; got.Issuer == "" || got.Audience != "windsock" || got.RoleClaim != "realm_access.roles" || got.Roles["monitoring"] != "report" {
		t.Errorf("got %+v", got)
	}
	for text, want := range map[string]string{
		"oidc: {issuer: \"http://id.example.com\", audience: windsock}":          ":1: oidc.issuer: want a URL",
		"oidc:\n  issuer: https://id.example.com":                                "oidc.audience: is missing",
		"oidc: {issuer: \"https://a.example\", audience: w, roles: {ops: root}}": ":1: oidc.roles: ",
	} {
		if _, err := LoadConfig(writeConfig(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
