package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	web1     = "/api/monitors/deployment/instance/web-1"
	add      = "/api/monitors/add"
	noID     = "0198c5a2-7b7e-7c3e-9d53-0a8a4c5f9b10"
	goodAdd  = `"address":"127.0.0.1","port":9000`
	goodFail = `"state":"FAIL DETECTED"`
)

// Whatever is wrong is told with the field at fault, and nothing of it is stored.
func TestBadInputIsRefusedAndNotStored(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	deepObject := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
	site := open(t)
	before := site.everything()
	for name, c := range map[string]struct {
		method, path, body, contentType string
		status                          int
		kind, field                     string
	}{
		"unknown instance":                {"POST", "/api/monitors/deployment/instance/web-9", `{` + goodFail + `}`, jsonType, 404, "not-found", "id"},
		"unknown deployment":              {"POST", "/api/monitors/deployment/shop-9", `{` + goodFail + `}`, jsonType, 404, "not-found", "id"},
		"an instance is no deployment":    {"POST", "/api/monitors/deployment/web-1", `{` + goodFail + `}`, jsonType, 404, "not-found", "id"},
		"unknown monitor that reports":    {"POST", web1, `{` + goodFail + `,"monitor_id":"` + noID + `"}`, jsonType, 404, "not-found", "monitor_id"},
		"unknown monitor to remove":       {"POST", "/api/monitors/remove", `{"monitor_id":"` + noID + `"}`, jsonType, 404, "not-found", "monitor_id"},
		"unknown monitor to show":         {"GET", "/api/monitors/" + noID, "", "", 404, "not-found", "id"},
		"unknown instance to show":        {"GET", "/api/instances/web-9", "", "", 404, "not-found", "id"},
		"unknown instance to await":       {"GET", "/api/instances/web-9?await=running", "", "", 404, "not-found", "id"},
		"unknown instance to patch":       {"PATCH", "/api/instances/web-9", `{"name":"x"}`, patchType, 404, "not-found", "id"},
		"unknown instance to delete":      {"DELETE", "/api/instances/web-9", "", "", 404, "not-found", "id"},
		"unknown instance to check":       {"POST", "/api/instances/web-9/check", "", "", 404, "not-found", "id"},
		"unknown deployment's instances":  {"GET", "/api/deployments/shop-9/instances", "", "", 404, "not-found", "id"},
		"unknown source to clear":         {"DELETE", "/api/instances/web-1/evidence/nobody", "", "", 404, "not-found", "source"},
		"unknown instance to clear":       {"DELETE", "/api/instances/web-9/evidence/nobody", "", "", 404, "not-found", "id"},
		"unknown deployment to join":      {"PUT", "/api/instances/web-9", `{"deployment_id":"shop-9"}`, jsonType, 400, "invalid", "deployment_id"},
		"unknown path":                    {"GET", "/api/nothing", "", "", 404, "no-such-path", ""},
		"unknown path below":              {"GET", "/api/instances/web-1/nothing", "", "", 404, "no-such-path", ""},
		"unknown version":                 {"POST", web1, `{` + goodFail + `,"version":"2"}`, jsonType, 400, "invalid", "version"},
		"unknown version to add":          {"POST", add, `{` + goodAdd + `,"version":"0"}`, jsonType, 400, "invalid", "version"},
		"unknown version to remove":       {"POST", "/api/monitors/remove", `{"version":"0","monitor_id":"` + noID + `"}`, jsonType, 400, "invalid", "version"},
		"unknown version to list":         {"GET", "/api/monitors/list?version=2", "", "", 400, "invalid", "version"},
		"unknown version of many":         {"POST", "/api/monitors/detections", `{"version":"2","detections":[{` + goodFail + `,"instance_id":"web-1"}]}`, jsonType, 400, "invalid", "version"},
		"version as a number":             {"POST", web1, `{` + goodFail + `,"version":1}`, jsonType, 400, "invalid", "version"},
		"unknown state word":              {"POST", web1, `{"state":"BROKEN"}`, jsonType, 400, "invalid", "state"},
		"state word in lower case":        {"POST", web1, `{"state":"fail detected"}`, jsonType, 400, "invalid", "state"},
		"state as a state":                {"POST", web1, `{"state":"failed"}`, jsonType, 400, "invalid", "state"},
		"no state":                        {"POST", web1, `{"reason":"x"}`, jsonType, 400, "invalid", "state"},
		"null for an object":              {"POST", web1, `null`, jsonType, 400, "invalid", "body"},
		"null state":                      {"POST", web1, `{"state":null}`, jsonType, 400, "invalid", "state"},
		"unknown scope":                   {"POST", add, `{` + goodAdd + `,"scope":"planet:mars"}`, jsonType, 400, "invalid", "scope"},
		"scope without an id":             {"POST", add, `{` + goodAdd + `,"scope":"pool:"}`, jsonType, 400, "invalid", "scope"},
		"unknown word to hear":            {"POST", add, `{` + goodAdd + `,"detections":["ALL DETECTED"]}`, jsonType, 400, "invalid", "detections"},
		"unknown subjects":                {"POST", add, `{` + goodAdd + `,"subjects":"pools"}`, jsonType, 400, "invalid", "subjects"},
		"unknown scheme":                  {"POST", add, `{` + goodAdd + `,"scheme":"gopher"}`, jsonType, 400, "invalid", "scheme"},
		"negative port":                   {"POST", add, `{"address":"127.0.0.1","port":-1}`, jsonType, 400, "invalid", "port"},
		"port 0":                          {"POST", add, `{"address":"127.0.0.1","port":0}`, jsonType, 400, "invalid", "port"},
		"port too high":                   {"POST", add, `{"address":"127.0.0.1","port":65536}`, jsonType, 400, "invalid", "port"},
		"port as text":                    {"POST", add, `{"address":"127.0.0.1","port":"http"}`, jsonType, 400, "invalid", "port"},
		"port with a fraction":            {"POST", add, `{"address":"127.0.0.1","port":80.5}`, jsonType, 400, "invalid", "port"},
		"port beyond all numbers":         {"POST", add, `{"address":"127.0.0.1","port":1e999}`, jsonType, 400, "invalid", "port"},
		"no port":                         {"POST", add, `{"address":"127.0.0.1"}`, jsonType, 400, "invalid", "port"},
		"port as text in a form":          {"POST", add, `address=127.0.0.1&port=http`, formType, 400, "invalid", "port"},
		"negative port to remove":         {"POST", "/api/monitors/remove", `{"monitor_id":"` + noID + `","port":-1}`, jsonType, 400, "invalid", "port"},
		"bad IP":                          {"POST", add, `{"address":"10.0.0.300","port":1}`, jsonType, 400, "invalid", "address"},
		"half an IP":                      {"POST", add, `{"address":"127.1","port":1}`, jsonType, 400, "invalid", "address"},
		"address with a port":             {"POST", add, `{"address":"localhost:80","port":1}`, jsonType, 400, "invalid", "address"},
		"no address":                      {"POST", add, `{"port":1}`, jsonType, 400, "invalid", "address"},
		"path that climbs":                {"POST", add, `{` + goodAdd + `,"path":"/a/../b"}`, jsonType, 400, "invalid", "path"},
		"echo as text":                    {"POST", add, `{` + goodAdd + `,"echo":"yes"}`, jsonType, 400, "invalid", "echo"},
		"echo as text in a form":          {"POST", add, `address=127.0.0.1&port=1&echo=perhaps`, formType, 400, "invalid", "echo"},
		"secret without its mark":         {"POST", add, `{` + goodAdd + `,"secret":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"}`, jsonType, 400, "invalid", "secret"},
		"secret of 23 bytes":              {"POST", add, `{` + goodAdd + `,"secret":"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY="}`, jsonType, 400, "invalid", "secret"},
		"empty secret":                    {"POST", add, `{` + goodAdd + `,"secret":""}`, jsonType, 400, "invalid", "secret"},
		"verify as text":                  {"POST", add, `{` + goodAdd + `,"verify":"yes"}`, jsonType, 400, "invalid", "verify"},
		"verify as text in a form":        {"POST", add, "address=127.0.0.1&port=1&verify=perhaps", formType, 400, "invalid", "verify"},
		"short ttl of a monitor":          {"POST", add, `{` + goodAdd + `,"ttl":"59s"}`, jsonType, 400, "invalid", "ttl"},
		"negative ttl of a monitor":       {"POST", add, `{` + goodAdd + `,"ttl":-60}`, jsonType, 400, "invalid", "ttl"},
		"ttl of a monitor for centuries":  {"POST", add, `{` + goodAdd + `,"ttl":"999999h"}`, jsonType, 400, "invalid", "ttl"},
		"ttl of a monitor as a list":      {"POST", add, `{` + goodAdd + `,"ttl":["1h"]}`, jsonType, 400, "invalid", "ttl"},
		"ttl of a monitor in a form":      {"POST", add, "address=127.0.0.1&port=1&ttl=soon", formType, 400, "invalid", "ttl"},
		"format that is none":             {"POST", add, `{` + goodAdd + `,"format":"batches"}`, jsonType, 400, "invalid", "format"},
		"unknown field":                   {"POST", web1, `{` + goodFail + `,"severity":"high"}`, jsonType, 400, "invalid", "severity"},
		"field in another case":           {"POST", web1, `{"State":"FAIL DETECTED"}`, jsonType, 400, "invalid", "State"},
		"unknown field in a form":         {"POST", web1, `state=FAIL+DETECTED&severity=high`, formType, 400, "invalid", "severity"},
		"unknown field of a probe":        {"PUT", "/api/instances/web-9", `{"deployment_id":"shop","probe":{"type":"tcp","target":"a:1","retries":3}}`, jsonType, 400, "invalid", "probe.retries"},
		"subject in body and path":        {"POST", web1, `{` + goodFail + `,"instance_id":"web-2"}`, jsonType, 400, "invalid", "instance_id"},
		"wrong type":                      {"POST", web1, `{"state":["FAIL DETECTED"]}`, jsonType, 400, "invalid", "state"},
		"wrong type inside":               {"PUT", "/api/deployments/new", `{"metadata":{"team":1}}`, jsonType, 400, "invalid", "metadata.team"},
		"wrong type in a list":            {"PUT", "/api/instances/web-9", `{"deployment_id":"shop","probe":{"type":"exec","command":["/bin/true",1]}}`, jsonType, 400, "invalid", "probe.command.1"},
		"list for an object":              {"POST", web1, `[]`, jsonType, 400, "invalid", "body"},
		"text for an object":              {"POST", web1, `"FAIL DETECTED"`, jsonType, 400, "invalid", "body"},
		"empty body":                      {"POST", web1, ``, "", 400, "invalid", "body"},
		"blank body":                      {"POST", web1, " \n", jsonType, 400, "invalid", "body"},
		"empty form":                      {"POST", web1, ``, formType, 400, "invalid", "body"},
		"half a body":                     {"POST", web1, `{` + goodFail, jsonType, 400, "invalid", "body"},
		"no JSON":                         {"POST", web1, `state: FAIL DETECTED`, jsonType, 400, "invalid", "body"},
		"bytes after the end":             {"POST", web1, `{` + goodFail + `} {}`, jsonType, 400, "invalid", "body"},
		"body too large":                  {"POST", web1, `{` + goodFail + `,"reason":"` + strings.Repeat("x", 1<<20) + `"}`, jsonType, 413, "too-large", "body"},
		"form too large":                  {"POST", web1, `state=FAIL+DETECTED&reason=` + strings.Repeat("x", 1<<20), formType, 413, "too-large", "body"},
		"no UTF-8":                        {"POST", web1, "{" + goodFail + ",\"reason\":\"caf\xe9\"}", jsonType, 400, "invalid", "reason"},
		"no UTF-8 in a form":              {"POST", web1, "state=FAIL+DETECTED&reason=caf%E9", formType, 400, "invalid", "reason"},
		"no UTF-8 in a name of a form":    {"POST", web1, "state=FAIL+DETECTED&caf%E9=1", formType, 400, "invalid", "body"},
		"half a surrogate":                {"POST", web1, `{` + goodFail + `,"reason":"\ud800"}`, jsonType, 400, "invalid", "reason"},
		"raw NUL":                         {"POST", web1, "{" + goodFail + ",\"reason\":\"a\x00b\"}", jsonType, 400, "invalid", "reason"},
		"escaped NUL":                     {"POST", web1, `{` + goodFail + `,"reason":"a\u0000b"}`, jsonType, 400, "invalid", "reason"},
		"NUL in a source":                 {"POST", web1, `{` + goodFail + `,"source":"a\u0000b"}`, jsonType, 400, "invalid", "source"},
		"NUL in a state":                  {"POST", web1, `{"state":"FAIL DETECTED\u0000"}`, jsonType, 400, "invalid", "state"},
		"NUL in a form":                   {"POST", web1, "state=FAIL+DETECTED&reason=a%00b", formType, 400, "invalid", "reason"},
		"NUL in metadata":                 {"PUT", "/api/deployments/new", `{"metadata":{"team":"\u0000"}}`, jsonType, 400, "invalid", "metadata.team"},
		"NUL in a path":                   {"GET", "/api/instances/web%00", "", "", 400, "invalid", "id"},
		"no UTF-8 in a path":              {"GET", "/api/instances/caf%E9", "", "", 400, "invalid", "id"},
		"no UTF-8 in an escaped path":     {"GET", "/api/instances/a%2Fcaf%E9", "", "", 400, "invalid", "id"},
		"doubled key":                     {"POST", web1, `{` + goodFail + `,"state":"START DETECTED"}`, jsonType, 400, "invalid", "state"},
		"doubled key with an escape":      {"POST", web1, `{` + goodFail + `,"st\u0061te":"START DETECTED"}`, jsonType, 400, "invalid", "state"},
		"doubled key inside":              {"PUT", "/api/deployments/new", `{"metadata":{"a":"1","a":"2"}}`, jsonType, 400, "invalid", "metadata.a"},
		"doubled key in a form":           {"POST", web1, `state=FAIL+DETECTED&state=START+DETECTED`, formType, 400, "invalid", "state"},
		"deep lists":                      {"POST", web1, `{"state":` + deep(10_000) + `}`, jsonType, 400, "invalid", "body"},
		"deep objects":                    {"POST", web1, deepObject, jsonType, 400, "invalid", "body"},
		"deep metadata":                   {"PATCH", "/api/deployments/shop", `{"metadata":{"a":` + deep(10_000) + `}}`, patchType, 400, "invalid", "body"},
		"deep detections":                 {"POST", "/api/monitors/detections", `{"detections":` + deep(10_000) + `}`, jsonType, 400, "invalid", "body"},
		"half a million lists":            {"POST", web1, strings.Repeat("[", 500_000), jsonType, 400, "invalid", "body"},
		"id of 256 bytes":                 {"POST", "/api/monitors/deployment/instance/" + strings.Repeat("x", 256), `{` + goodFail + `}`, jsonType, 400, "invalid", "id"},
		"id with a space":                 {"PUT", "/api/deployments/a%20b", `{}`, jsonType, 400, "invalid", "id"},
		"id with a slash":                 {"PUT", "/api/deployments/a%2Fb", `{}`, jsonType, 400, "invalid", "id"},
		"id of dots":                      {"POST", "/api/deployments", `{"id":".."}`, jsonType, 400, "invalid", "id"},
		"id with an escape sequence":      {"POST", "/api/deployments", `{"id":"\u001b[2J"}`, jsonType, 400, "invalid", "id"},
		"another id in the body":          {"PUT", "/api/deployments/new", `{"id":"newer"}`, jsonType, 400, "invalid", "id"},
		"id that is taken":                {"POST", "/api/deployments", `{"id":"shop"}`, jsonType, 409, "conflict", "id"},
		"id patched":                      {"PATCH", "/api/deployments/shop", `{"id":"shop-2"}`, patchType, 400, "invalid", "id"},
		"id patched away":                 {"PATCH", "/api/deployments/shop", `{"id":null}`, patchType, 400, "invalid", "id"},
		"deployment patched":              {"PATCH", "/api/instances/web-1", `{"deployment_id":"other"}`, patchType, 400, "invalid", "deployment_id"},
		"patch that cannot be":            {"PATCH", "/api/instances/web-1", `{"expected_state":"running fast"}`, patchType, 400, "invalid", "expected_state"},
		"patch that is no object":         {"PATCH", "/api/instances/web-1", `null`, patchType, 400, "invalid", "body"},
		"monitor id that is none":         {"POST", "/api/monitors/remove", `{"monitor_id":"a b"}`, jsonType, 400, "invalid", "monitor_id"},
		"no monitor id":                   {"POST", "/api/monitors/remove", `{"address":"127.0.0.1"}`, jsonType, 400, "invalid", "monitor_id"},
		"source and monitor":              {"POST", web1, `{` + goodFail + `,"source":"x","monitor_id":"` + noID + `"}`, jsonType, 400, "invalid", "source"},
		"source that is taken":            {"POST", web1, `{` + goodFail + `,"source":"provider:east"}`, jsonType, 400, "invalid", "source"},
		"time without a zone":             {"POST", web1, `{` + goodFail + `,"detected_at":"2026-01-02T15:04:05"}`, jsonType, 400, "invalid", "detected_at"},
		"time as a number":                {"POST", web1, `{` + goodFail + `,"detected_at":1767366245}`, jsonType, 400, "invalid", "detected_at"},
		"time before all clocks":          {"POST", web1, `{` + goodFail + `,"detected_at":"0001-01-01T00:00:00Z"}`, jsonType, 400, "invalid", "detected_at"},
		"ttl of nothing":                  {"POST", web1, `{` + goodFail + `,"ttl":0}`, jsonType, 400, "invalid", "ttl"},
		"negative ttl":                    {"POST", web1, `{` + goodFail + `,"ttl":"-5s"}`, jsonType, 400, "invalid", "ttl"},
		"ttl of centuries":                {"POST", web1, `{` + goodFail + `,"ttl":"999999h"}`, jsonType, 400, "invalid", "ttl"},
		"ttl that is no number":           {"POST", web1, `{` + goodFail + `,"ttl":"NaN"}`, jsonType, 400, "invalid", "ttl"},
		"unknown intent":                  {"POST", web1, `{` + goodFail + `,"intent":"accident"}`, jsonType, 400, "invalid", "intent"},
		"GET of add":                      {"GET", add, "", "", 405, "method-not-allowed", ""},
		"GET of a detection":              {"GET", web1, "", "", 405, "method-not-allowed", ""},
		"DELETE of a list":                {"DELETE", "/api/deployments", "", "", 405, "method-not-allowed", ""},
		"a method nobody knows":           {"BREW", "/api/deployments", "", "", 405, "method-not-allowed", ""},
		"text":                            {"POST", web1, `{` + goodFail + `}`, "text/plain", 415, "media-type", "Content-Type"},
		"JSON in another alphabet":        {"POST", web1, `{` + goodFail + `}`, "application/json; charset=latin1", 415, "media-type", "Content-Type"},
		"no content type":                 {"POST", web1, `{` + goodFail + `}`, "", 415, "media-type", "Content-Type"},
		"content type that is none":       {"POST", web1, `{` + goodFail + `}`, ";;", 415, "media-type", "Content-Type"},
		"form for a deployment":           {"POST", "/api/deployments", `id=new`, formType, 415, "media-type", "Content-Type"},
		"form for many":                   {"POST", "/api/monitors/detections", `state=x`, formType, 415, "media-type", "Content-Type"},
		"patch for a PUT":                 {"PUT", "/api/deployments/new", `{}`, patchType, 415, "media-type", "Content-Type"},
		"JSON that says it is a form":     {"POST", web1, `{` + goodFail + `}`, formType, 400, "invalid", "Content-Type"},
		"form that is escaped wrongly":    {"POST", web1, `state=%ZZ`, formType, 400, "invalid", "body"},
		"list of a list in a form":        {"POST", web1, `[]`, formType, 400, "invalid", "Content-Type"},
		"no detections":                   {"POST", "/api/monitors/detections", `{"detections":[]}`, jsonType, 400, "invalid", "detections"},
		"detections that are no list":     {"POST", "/api/monitors/detections", `{"detections":{}}`, jsonType, 400, "invalid", "detections"},
		"doubled detections":              {"POST", "/api/monitors/detections", `{"detections":[1],"detections":[]}`, jsonType, 400, "invalid", "detections"},
		"1001 detections":                 {"POST", "/api/monitors/detections", `{"detections":[0` + strings.Repeat(",0", 1000) + `]}`, jsonType, 400, "invalid", "detections"},
		"half the detections":             {"POST", "/api/monitors/detections", `[{` + goodFail + `,"instance_id":"web-1"},`, jsonType, 400, "invalid", "body"},
		"unknown parameter":               {"GET", "/api/instances?colour=red", "", "", 400, "invalid", "colour"},
		"doubled parameter":               {"GET", "/api/instances?limit=1&limit=2", "", "", 400, "invalid", "limit"},
		"empty parameter":                 {"GET", "/api/instances?pool=", "", "", 400, "invalid", "pool"},
		"parameter that is escaped badly": {"GET", "/api/instances?pool=%zz", "", "", 400, "invalid", "query"},
		"parameter that is no UTF-8":      {"GET", "/api/instances?pool=%ff", "", "", 400, "invalid", "pool"},
		"limit 0":                         {"GET", "/api/instances?limit=0", "", "", 400, "invalid", "limit"},
		"limit above all":                 {"GET", "/api/instances?limit=1001", "", "", 400, "invalid", "limit"},
		"limit that is no number":         {"GET", "/api/monitors/list?limit=many", "", "", 400, "invalid", "limit"},
		"unknown state to filter by":      {"GET", "/api/instances?state=broken", "", "", 400, "invalid", "state"},
		"state that only the other has":   {"GET", "/api/deployments?state=suspended", "", "", 400, "invalid", "state"},
		"drift that is no boolean":        {"GET", "/api/instances?drift=1", "", "", 400, "invalid", "drift"},
		"unknown state to await":          {"GET", "/api/instances/web-1?await=degraded", "", "", 400, "invalid", "await"},
		"time-out of nothing to await":    {"GET", "/api/instances/web-1?timeout=5s", "", "", 400, "invalid", "timeout"},
		"time-out too long":               {"GET", "/api/instances/web-1?await=running&timeout=6m", "", "", 400, "invalid", "timeout"},
		"wait too long":                   {"GET", "/api/events?wait=61s", "", "", 400, "invalid", "wait"},
		"after the newest event":          {"GET", "/api/events?after=99999", "", "", 400, "invalid", "after"},
		"before the first event":          {"GET", "/api/events?after=-1", "", "", 400, "invalid", "after"},
		"two scopes":                      {"GET", "/api/events?deployment=shop&instance=web-1", "", "", 400, "invalid", "instance"},
		"availability of nobody":          {"GET", "/api/instances/web-9/availability", "", "", 404, "not-found", "id"},
		"availability from no time":       {"GET", "/api/instances/web-1/availability?from=yesterday", "", "", 400, "invalid", "from"},
		"availability to no time":         {"GET", "/api/deployments/shop/availability?to=2026-01-02", "", "", 400, "invalid", "to"},
		"availability of the future":      {"GET", "/api/deployments/shop/availability?from=2999-01-02T15:04:05Z", "", "", 400, "invalid", "from"},
		"availability backwards":          {"GET", "/api/deployments/shop/availability?from=2026-01-02T15:04:05Z&to=2026-01-02T15:04:05Z", "", "", 400, "invalid", "from"},
		"unknown provider":                {"GET", "/api/providers/nobody", "", "", 404, "not-found", "id"},
		"unknown provider to list":        {"GET", "/api/providers/nobody?dry_run=true", "", "", 404, "not-found", "id"},
		"provider that is no text":        {"GET", "/api/providers/caf%E9", "", "", 400, "invalid", "id"},
		"listing of too much":             {"GET", "/api/providers/static?dry_run=true&limit=1001", "", "", 400, "invalid", "limit"},
		"unknown kind":                    {"GET", "/api/events?kind=pool", "", "", 400, "invalid", "kind"},
		"unknown type":                    {"GET", "/api/events?type=instance.born", "", "", 400, "invalid", "type"},
		"unknown detection":               {"GET", "/api/events?detection=FAIL", "", "", 400, "invalid", "detection"},
		"parameters of no deployable":     {"PUT", "/api/deployments/new", `{"parameters":{"port":80}}`, jsonType, 400, "invalid", "parameters"},
		"parameters that are a list":      {"PUT", "/api/deployments/new", `{"deployable":"d1","parameters":[1]}`, jsonType, 400, "invalid", "parameters"},
		"doubled parameter to deploy":     {"PUT", "/api/deployments/new", `{"deployable":"d1","parameters":{"a":1,"a":2}}`, jsonType, 400, "invalid", "parameters.a"},
		"server that is no instance":      {"PUT", "/api/deployments/new", `{"deployable":"d1","instances":{"server_a":1}}`, jsonType, 400, "invalid", "instances.server_a"},
		"server whose id is none":         {"PUT", "/api/deployments/new", `{"deployable":"d1","instances":{"server_a":"a/b"}}`, jsonType, 400, "invalid", "instances/server_a"},
		"probe that cannot be":            {"PUT", "/api/instances/web-9", `{"deployment_id":"shop","probe":{"type":"tcp","target":"nowhere"}}`, jsonType, 400, "invalid", "probe.target"},
		"interval that is none":           {"PUT", "/api/instances/web-9", `{"deployment_id":"shop","probe":{"type":"tcp","target":"a:1","interval":"soon"}}`, jsonType, 400, "invalid", "probe.interval"},
		"program of nobody's choice":      {"PUT", "/api/instances/web-9", `{"deployment_id":"shop","probe":{"type":"exec","command":["/bin/sh","-c","id"]}}`, jsonType, 400, "invalid", "probe.command"},
	} {
		t.Run(name, func(t *testing.T) {
			s := site.in(t)
			a := s.call(c.method, c.path, c.body, "Content-Type", c.contentType).refused(c.status, c.kind, c.field)
			if len(a.body) > 2000 {
				t.Errorf("the answer is as long as the question: %d bytes", len(a.body))
			}
			if after := s.everything(); after != before {
				t.Errorf("something was stored: before %s\nafter %s", before, after)
			}
		})
	}
}

// everything is all that the API shows.
func (s *site) everything() string {
	var b strings.Builder
	for _, path := range []string{
		"/api/events?limit=1000", "/api/deployments", "/api/instances", "/api/monitors/list",
		"/api/deployments/shop", "/api/instances/web-1", "/api/instances/web-2",
	} {
		w := httptest.NewRecorder()
		s.http.Config.Handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		b.Write(w.Body.Bytes())
	}
	return b.String()
}
