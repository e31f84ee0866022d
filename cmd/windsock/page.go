package main

import (
	"net/http"

	"windsock/page"
)

// withPage answers with the page where that lies, and everywhere else by the API.
func withPage(api http.Handler) http.Handler {
	shown := page.New()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page.Serves(r.URL.Path) {
			shown.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
