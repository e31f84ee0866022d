package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"windsock"
)

// answer sends v as JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	send(w, status, "application/json", body)
	return nil
}

// represent sends v as JSON with its entity tag, which is windsock.ETag(v): the one that
// the store compares with If-Match.
func represent(w http.ResponseWriter, r *http.Request, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return show(w, r, status, "application/json", body)
}

// show sends body with its entity tag, or 304 to one who has it already.
func show(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) error {
	tag := windsock.ETagOf(body)
	w.Header().Set("ETag", tag)
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		known := strings.Join(r.Header.Values("If-None-Match"), ",")
		if windsock.MatchWeakly(known, tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	send(w, status, contentType, body)
	return nil
}

func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// demands are the conditions that a writing request sets.
func demands(r *http.Request) windsock.Cond {
	return windsock.Cond{
		IfMatch:     strings.Join(r.Header.Values("If-Match"), ","),
		IfNoneMatch: strings.Join(r.Header.Values("If-None-Match"), ","),
	}
}
