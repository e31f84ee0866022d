package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"windsock"
	"windsock/api"
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
	h := handler(instant{}, changes...)
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest("POST", path, strings.NewReader(body))
		req.Header.Set("Content-Type", jsonType)
		w := &devnull{header: http.Header{}}
		h.ServeHTTP(w, req)
		if w.status != http.StatusOK {
			b.Fatal(fmt.Sprint(w.status))
		}
	}
	b.ReportMetric(float64(b.N*detections)/b.Elapsed().Seconds(), "detections/s")
}
