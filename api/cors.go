package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/rs/cors"

	"windsock"
)

// CheckOrigin returns a FieldError when web pages have no such origin. Any origin would be
// all pages of the world, against a windsock that may be on loopback and ask for no token.
func CheckOrigin(field, origin string) error {
	if u, err := url.Parse(origin); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		origin != strings.ToLower(u.Scheme+"://"+u.Host) || strings.Contains(origin, "*") {
		return windsock.Invalid(field, "want an origin such as https://ops.example.com, got %q", windsock.Clip(origin))
	}
	return nil
}

// shared lets web pages of s.Origins use the API, with a token that they send themselves:
// never with what a browser has of its own for us, such as a certificate.
func (s *Server) shared(h http.Handler) http.Handler {
	if len(s.Origins) == 0 {
		return h
	}
	for _, o := range s.Origins {
		if err := s.origin.AddTrustedOrigin(o); err != nil {
			panic(err) // it was not checked
		}
	}
	return cors.New(cors.Options{
		AllowedOrigins: s.Origins,
		AllowedMethods: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"},
		AllowedHeaders: []string{"Authorization", "Content-Type", "If-Match", "If-None-Match", "Last-Event-ID"},
		ExposedHeaders: []string{"Allow", "ETag", "Link", "Location", "RateLimit", "RateLimit-Policy", "Retry-After", "WWW-Authenticate"},
		MaxAge:         600,
	}).Handler(h)
}
