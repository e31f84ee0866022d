package api_test

import (
	"testing"

	"windsock"
	"windsock/api"
)

// Who may report on something may have it looked at, and nothing else.
func TestLooksByToken(t *testing.T) {
	e := eyes{"web-1": {running}, "shop": {running}, "db-1": {running}, "other": {running}}
	s := open(t, func(srv *api.Server) {
		srv.Checker = e
		srv.Verifiers = []api.Verifier{callers{
			"shop":  {Name: "shop's", Permission: windsock.MayReport, Scope: "deployment:shop"},
			"all":   {Name: "all", Permission: windsock.MayReport, Scope: windsock.Global},
			"read":  {Name: "page", Permission: windsock.MayRead},
			"admin": {Name: "ops", Permission: windsock.MayAdmin},
		}}
	})
	s.call("PUT", "/api/deployments/other", `{}`, bearing("admin")...).want(201)
	s.call("PUT", "/api/instances/db-1", `{"deployment_id":"other"}`, bearing("admin")...).want(201)
	for _, own := range []string{"/api/instances/web-1/check", "/api/deployments/shop/check"} {
		s.call("POST", own, "", bearing("shop")...).want(200)
		s.call("POST", own, "", bearing("read")...).refused(403, "forbidden", "")
	}
	for _, others := range []string{"/api/instances/db-1/check", "/api/deployments/other/check"} {
		s.call("POST", others, "", bearing("shop")...).refused(403, "forbidden", "id")
		s.call("POST", others, "", bearing("all")...).want(200)
	}
}
