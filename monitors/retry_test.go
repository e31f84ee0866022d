package monitors

import (
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoff(t *testing.T) {
	middle := func() float64 { return 0.5 }
	for attempts, want := range []time.Duration{
		0, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, time.Hour,
	} {
		if got := backoff(attempts, middle); got != want {
			t.Errorf("after %d tries in vain: %v, want %v", attempts, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		attempts := rapid.IntRange(0, 1<<40).Draw(t, "attempts")
		r := rapid.Float64Range(0, 0.999999).Draw(t, "rand")
		got, plain := backoff(attempts, func() float64 { return r }), backoff(attempts, middle)
		if got < plain*8/10-1 || got > plain*12/10+1 || got > maxWait {
			t.Fatalf("%v is not within 20%% of %v", got, plain)
		}
	})
}

func TestAskedWait(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		status int
		value  string
		want   time.Duration
	}{
		"seconds":               {503, "17", 17 * time.Second},
		"seconds, too many":     {429, " 17 ", 17 * time.Second},
		"a date":                {503, "Tue, 01 Dec 2026 12:10:00 GMT", 10 * time.Minute},
		"a date in RFC 850":     {503, "Tuesday, 01-Dec-26 12:10:00 GMT", 10 * time.Minute},
		"a date far off":        {503, "Fri, 01 Dec 2028 12:10:00 GMT", time.Hour},
		"a date that has been":  {503, "Mon, 01 Dec 2025 12:10:00 GMT", time.Second},
		"now":                   {503, "0", time.Second},
		"for ever":              {503, "18446744073709551615", time.Hour},
		"more than for ever":    {503, "99999999999999999999999", 0},
		"a negative number":     {503, "-5", 0},
		"a fraction":            {503, "1.5", 0},
		"nothing":               {503, "", 0},
		"words":                 {503, "in a while", 0},
		"no matter on success":  {200, "17", 0},
		"no matter on an error": {500, "17", 0},
	}
	for name, tc := range tests {
		if got := askedWait(tc.status, http.Header{"Retry-After": {tc.value}}, now); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	for name, clock := range map[string]string{"an hour ahead of ours": "Tue, 01 Dec 2026 13:00:00 GMT", "an hour behind ours": "Tue, 01 Dec 2026 11:00:00 GMT"} {
		sent, _ := http.ParseTime(clock)
		header := http.Header{"Date": {clock}, "Retry-After": {sent.Add(2 * time.Minute).Format(http.TimeFormat)}}
		if got := askedWait(503, header, now); got != 2*time.Minute {
			t.Errorf("a date by a clock that is %s: %v, want 2 minutes", name, got)
		}
	}
	if got := askedWait(503, http.Header{}, now); got != 0 {
		t.Errorf("without the header: %v", got)
	}
}
