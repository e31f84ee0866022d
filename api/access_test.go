package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"windsock"
	"windsock/api"
)

// callers are who the verifier of a test knows, by their tokens.
type callers map[windsock.Secret]windsock.Principal

func (c callers) Principal(_ context.Context, token windsock.Secret) (windsock.Principal, error) {
	p, ok := c[token]
	if !ok {
		return p, windsock.ErrUnauthorized
	}
	return p, nil
}

// byRole are one of each role, whose token is its name.
func byRole() callers {
	c := callers{}
	for _, role := range windsock.Permissions {
		c[windsock.Secret(role)] = windsock.Principal{Name: "a " + string(role), Permission: role}
	}
	return c
}

func bearing(token string) []string { return []string{"Authorization", "Bearer " + token} }

// Every route is tried by who has no token, one that nobody knows, and one of each role.
func TestEachRouteNeedsItsRole(t *testing.T) {
	s := open(t, func(srv *api.Server) {
		srv.Software, srv.Verifiers = newSoftware(), []api.Verifier{callers{}, byRole()}
	})
	fill := strings.NewReplacer("{source}", "nagios", "{name}", "a.db", "{token}", "no", "monitors/{id}", "monitors/0198c5a2-7b7e-7c3e-9d53-0a8a4c5f9b10", "{id}", "shop")
	open := 0
	for _, need := range api.Needs(s.server) {
		path := fill.Replace(need.Path) + "?nonsense" // so that nothing is done: this is read after the token
		if need.Needs == "" {
			open++
			if got := s.call(need.Method, path, ""); got.status != 400 {
				t.Errorf("%s: got %d %s for who has no token", got.name, got.status, got.body)
			}
			continue
		}
		s.call(need.Method, path, "").refused(401, "unauthorized", "Authorization")
		s.call(need.Method, path, "", bearing("stranger")...).refused(401, "unauthorized", "Authorization")
		for _, role := range windsock.Permissions {
			got := s.call(need.Method, path, "", bearing(string(role))...)
			if role.Allows(need.Needs) {
				got.refused(400, "invalid", "nonsense")
			} else {
				got.refused(403, "forbidden", "")
			}
		}
		if method := need.Method; method == "GET" {
			s.call("HEAD", path, "").want(401)
			s.call("HEAD", path, "", bearing(string(need.Needs))...).want(400)
		}
	}
	if open != 6 {
		t.Errorf("%d routes are open to everybody; want livez, readyz, the contract, and the three that have tokens of their own", open)
	}
}

// What changes something takes more than reading does, and nothing is open by mistake.
func TestRolesFollowTheMethods(t *testing.T) {
	own := map[string]bool{"/livez": true, "/readyz": true, "/openapi.yaml": true, "/api/instances/{id}/components": true, "/api/signal/{token}": true}
	for _, need := range api.Needs(open(t).server) {
		switch {
		case need.Needs == "":
			if !own[need.Path] {
				t.Errorf("%s %s is open to everybody", need.Method, need.Path)
			}
		case need.Needs == windsock.MayRead && need.Method != "GET":
			t.Errorf("%s %s needs read alone", need.Method, need.Path)
		}
	}
}

func TestTokensAreReadStrictly(t *testing.T) {
	s := open(t, func(srv *api.Server) { srv.Verifiers = []api.Verifier{byRole()} })
	for name, tc := range map[string]struct {
		header string
		status int
	}{
		"as usual":             {"Bearer read", 200},
		"any case":             {"bEaReR read", 200},
		"more spaces":          {"Bearer    read  ", 200},
		"empty":                {"", 401},
		"no token":             {"Bearer", 401},
		"blank token":          {"Bearer  ", 401},
		"no scheme":            {"read", 401},
		"another scheme":       {"Basic read", 401},
		"two in one":           {"Bearer read, Bearer admin", 401},
		"two words":            {"Bearer read admin", 401},
		"tab":                  {"Bearer\tread", 401},
		"another case":         {"Bearer Read", 401},
		"10 kB":                {"Bearer " + strings.Repeat("r", 10_000), 401},
		"begins as one":        {"Bearer rea", 401},
		"longer":               {"Bearer readd", 401},
		"not UTF-8":            {"Bearer \xff\xfe", 401},
		"what would be quoted": {`Bearer "read"`, 401},
	} {
		got := s.call("GET", "/api/pools", "", "Authorization", tc.header)
		if got.want(tc.status); tc.status == 401 && got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", name)
		}
	}
	req := must(http.NewRequest("GET", s.http.URL+"/api/pools", nil))
	req.Header["Authorization"] = []string{"Bearer read", "Bearer admin"}
	s.send(req, "").refused(401, "unauthorized", "Authorization")
	if strings.Contains(s.logged.String(), "rrrr") {
		t.Error("a token is in the log")
	}
}

// A verifier that fails is no stranger's luck and no known caller's misfortune.
func TestVerifierThatCannotTell(t *testing.T) {
	broken := verifier(func(context.Context, windsock.Secret) (windsock.Principal, error) {
		return windsock.Principal{}, fmt.Errorf("disk: %w", windsock.ErrUnavailable)
	})
	s := open(t, func(srv *api.Server) { srv.Verifiers = []api.Verifier{broken, byRole()} })
	s.call("GET", "/api/pools", "", bearing("read")...).want(200)
	s.call("GET", "/api/pools", "", bearing("stranger")...).refused(503, "unavailable", "")
}

type verifier func(context.Context, windsock.Secret) (windsock.Principal, error)

func (v verifier) Principal(ctx context.Context, token windsock.Secret) (windsock.Principal, error) {
	return v(ctx, token)
}
