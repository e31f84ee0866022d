package providertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A Fault is a way in which a cloud answers wrongly.
type Fault struct {
	name  string
	serve func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

func (f Fault) String() string { return f.name }

// Wrap returns a handler that answers as next would, but for this fault.
func (f Fault) Wrap(next http.Handler) http.Handler {
	if f.serve == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, next) })
}

// Fine is no fault. With Repeating each page begins with the last instance of the one
// before, which is for the fake to do.
var (
	Fine      = Fault{name: "fine"}
	Repeating = Fault{name: "repeating"}
)

// The faults that have to be errors.
var faults = []Fault{
	{"refused", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			c.Close()
		}
	}},
	refuses("unauthorized", http.StatusUnauthorized),
	refuses("forbidden", http.StatusForbidden),
	refuses("busy", http.StatusTooManyRequests),
	refuses("broken", http.StatusInternalServerError),
	refuses("away", http.StatusServiceUnavailable),
	{"truncated", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body := recorded(r, next)
		io.WriteString(w, body[:len(body)/2])
	}},
	{"cut off", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body := recorded(r, next)
		w.Header().Set("Content-Length", "1000000")
		io.WriteString(w, body[:len(body)/2])
	}},
	says("garbage", "<html>the proxy is being maintained</html>"),
	says("empty", ""),
	says("nothing", "{}"),
	says("null", "null"),
	says("a list", "[]"),
}

func refuses(name string, status int) Fault {
	return Fault{name, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		io.WriteString(w, `{"error": {"message": "`+name+`"}}`)
	}}
}

func says(name, body string) Fault {
	return Fault{name, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { io.WriteString(w, body) }}
}

// recorded is what next answers.
func recorded(r *http.Request, next http.Handler) string {
	w := httptest.NewRecorder()
	next.ServeHTTP(w, r)
	return w.Body.String()
}

// Hanging never answers, until whoever asked hangs up or the test ends.
func Hanging(t *testing.T) Fault {
	return Fault{"hanging", func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		io.Copy(io.Discard, r.Body) // only then is the end of the connection seen
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}}
}
