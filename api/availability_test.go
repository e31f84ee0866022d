package api_test

import (
	"testing"
	"time"
)

func TestAvailabilityOfADeployment(t *testing.T) {
	s := open(t)
	begin := time.Now()
	s.detect("web-1", "START DETECTED").want(200)
	s.detect("web-2", "START DETECTED").want(200)
	s.detect("web-2", "FAIL DETECTED").want(200)
	a := s.call("GET", "/api/deployments/shop/availability?from="+begin.Add(-time.Hour).UTC().Format(time.RFC3339), "").want(200)
	a.has(map[string]any{"kind": "deployment", "id": "shop", "truncated": true, "failures": 1.0, "mttr_seconds": nil, "planned_seconds": 0.0})
	span := func(name string) time.Time { return must(time.Parse(time.RFC3339Nano, a.field(name).(string))) }
	sum := 0.0
	for _, seconds := range a.field("seconds").(map[string]any) {
		sum += seconds.(float64)
	}
	if off := sum - span("to").Sub(span("from")).Seconds(); off > 1e-6 || off < -1e-6 || sum == 0 {
		t.Errorf("%s is %g s more than the time", a.body, off)
	}
	if uptime := a.field("uptime").(float64); uptime <= 0 || uptime >= 1 {
		t.Errorf("uptime %g", uptime)
	}
}
