package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"windsock"
	"windsock/api"
	"windsock/store"
)

// instant is a store that takes no time.
type instant struct{ api.Store }

func (instant) Record(_ context.Context, obs []windsock.Observation) ([]windsock.Outcome, error) {
	outs := make([]windsock.Outcome, len(obs))
	for i, o := range obs {
		outs[i] = windsock.Outcome{Subject: o.Subject, State: o.State, Changed: true, EventSeq: 1042}
	}
	return outs, nil
}

// What the API costs of a post, without the network and the store.
func BenchmarkDetection(b *testing.B) {
	benchmark(b, web1, `{"version":"1","state":"FAIL DETECTED","source":"nagios","reason":"connection refused"}`, 1)
}

// And with a token that the store knows, of a reporter with a scope.
func BenchmarkDetectionByToken(b *testing.B) {
	st, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "w.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	_, token, err := st.AddToken(b.Context(), windsock.TokenSpec{Name: "nagios", Role: windsock.MayReport, Scope: "deployment:shop"})
	if err != nil {
		b.Fatal(err)
	}
	h := handler(instant{}, func(srv *api.Server) { srv.Verifiers = []api.Verifier{st} })
	body := `{"version":"1","state":"FAIL DETECTED","source":"nagios","reason":"connection refused"}`
	benchmarkOf(b, h, string(token), web1, body, 1)
}

func BenchmarkHundredDetections(b *testing.B) {
	entry := `{"instance_id":"web-1","state":"FAIL DETECTED","source":"nagios","reason":"connection refused"}`
	benchmark(b, "/api/monitors/detections", `{"detections":[`+strings.Repeat(entry+",", 99)+entry+`]}`, 100)
}

// devnull takes an answer.
type devnull struct {
	header http.Header
	status int
}

func (d *devnull) Header() http.Header         { return d.header }
func (d *devnull) WriteHeader(status int)      { d.status = status }
func (d *devnull) Write(p []byte) (int, error) { return len(p), nil }

func benchmark(b *testing.B, path, body string, detections int, changes ...func(*api.Server)) {
	benchmarkOf(b, handler(instant{}, changes...), "", path, body, detections)
}

func benchmarkOf(b *testing.B, h http.Handler, token, path, body string, detections int) {
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest("POST", path, strings.NewReader(body))
		req.Header.Set("Content-Type", jsonType)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		w := &devnull{header: http.Header{}}
		h.ServeHTTP(w, req)
		if w.status != http.StatusOK {
			b.Fatal(fmt.Sprint(w.status))
		}
	}
	b.ReportMetric(float64(b.N*detections)/b.Elapsed().Seconds(), "detections/s")
}
