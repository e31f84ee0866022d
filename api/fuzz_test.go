package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"windsock"
	"windsock/api"
)

// willing is a store that takes in whatever reaches it, and fails the test when that
// should not have.
type willing struct {
	api.Store
	*testing.T
}

func (s *willing) Record(_ context.Context, obs []windsock.Observation) ([]windsock.Outcome, error) {
	outs := make([]windsock.Outcome, len(obs))
	for i, o := range obs {
		outs[i] = windsock.Outcome{Subject: o.Subject, State: o.State}
		if o.State == "" || o.Source == "" || o.Subject.ID == "" || o.TTL < 0 || o.TTL > windsock.MaxTTL {
			s.Errorf("recorded %+v", o)
		}
		s.text(o.Subject.ID, o.Source, o.Reason)
	}
	return outs, nil
}

func (s *willing) Monitor(context.Context, string) (windsock.Monitor, error) {
	return windsock.Monitor{}, nil
}

func (s *willing) AddMonitor(_ context.Context, spec windsock.MonitorSpec, keys windsock.Keys) (windsock.Registration, error) {
	if err := keys.Complete(spec.Scheme); err != nil {
		s.Errorf("added with %+v: %v", keys, err)
	}
	if again := spec; again.Complete() != nil || spec.Port < 1 || spec.Port > 65535 {
		s.Errorf("added %+v", spec)
	}
	s.text(spec.Address, spec.Path, spec.Name, string(spec.Scope))
	return windsock.Registration{Monitor: windsock.Monitor{MonitorSpec: spec, ID: noID}, Created: true}, nil
}

func (s *willing) text(texts ...string) {
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			s.Errorf("let through %q", text)
		}
	}
}

// poster sends bodies to the API over a willing store.
func poster() func(t *testing.T, path, contentType, body string) {
	store := new(willing)
	h := handler(store)
	return func(t *testing.T, path, contentType, body string) {
		store.T = t
		post(t, h, path, contentType, body)
	}
}

// post fails the test unless the answer is a success, or a whole 4xx problem.
func post(t *testing.T, h http.Handler, path, contentType, body string) {
	t.Helper()
	req := httptest.NewRequest("POST", path, strings.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	var got struct {
		Result, Type string
		Status       int
	}
	if err := json.NewDecoder(w.Result().Body).Decode(&got); err != nil && err != io.EOF {
		t.Errorf("%d: %v: %s", w.Code, err, w.Body)
	}
	switch {
	case w.Code < 300 && got.Result == "success":
	case w.Code >= 400 && w.Code < 500 && got.Result == "fail" && got.Status == w.Code && got.Type != "":
	default:
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func FuzzDetection(f *testing.F) {
	for _, body := range []string{
		`{"state":"FAIL DETECTED"}`,
		`{"version":"1","state":"START DETECTED","source":"nagios","reason":"ok","detected_at":"2026-01-02T15:04:05.678901Z","ttl":"90s"}`,
		`{"state":"STOP DETECTED","monitor_id":"` + noID + `","ttl":1e2,"intent":"requested"}`,
		`{"state":"FAIL DETECTED","state":"FAIL DETECTED"}`,
		`{"state":"FAIL DETECTED","reason":"\u0000\ud800"}`,
		`{"detections":[{"instance_id":"web-1","state":"FAIL DETECTED"},{"deployment_id":"shop","state":1},null]}`,
		`[{"instance_id":"web-1","state":"FAIL DETECTED"}]`,
		`{"state":[[[[{}]]]]}`, `[`, `null`, ``, "\xff",
	} {
		f.Add(body, true)
	}
	f.Add("state=FAIL+DETECTED&source=a&ttl=5&detected_at=2026-01-02T15:04:05Z", false)
	f.Add("state=%ff&%00=&state", false)
	post := poster()
	f.Fuzz(func(t *testing.T, body string, asJSON bool) {
		contentType := formType
		if asJSON {
			contentType = jsonType
			post(t, "/api/monitors/detections", contentType, body)
		}
		post(t, web1, contentType, body)
	})
}

func FuzzAddMonitor(f *testing.F) {
	for _, body := range []string{
		`{"address":"127.0.0.1","port":9000}`,
		`{"version":"1","name":"n","scheme":"https","address":"pager.example.com","port":443,"path":"/a","scope":"pool:east","detections":["FAIL DETECTED"],"subjects":"both","echo":true,"secret":"` + secret + `"}`,
		`{"address":"::1","port":1,"sign":true,"bearer":"a.b","headers":{"x-team":"blue"},"scheme":"https","ca":"","client_cert":"","client_key":""}`,
		`{"address":"::1","port":1,"detections":"all"}`,
		`{"address":"::1","port":1,"detections":null,"secret":null}`,
		`{"address":"10.0.0.300","port":-1}`, `{"port":1e400}`, `{"detections":[[[1]]]}`, `{`, `null`,
	} {
		f.Add(body, true)
	}
	f.Add("address=127.0.0.1&port=9000&detections=all&echo=true&secret="+secret, false)
	f.Add("port=%31&address=a%00", false)
	post := poster()
	f.Fuzz(func(t *testing.T, body string, asJSON bool) {
		contentType := formType
		if asJSON {
			contentType = jsonType
		}
		post(t, add, contentType, body)
	})
}
