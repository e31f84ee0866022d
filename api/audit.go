package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"windsock"
)

// Audit keeps who did what.
type Audit interface {
	KeepAct(context.Context, *windsock.Act) error
	Acts(ctx context.Context, before int64, limit int) ([]*windsock.Act, error)
}

// act serves a request, and has it kept who made it if that needs an administrator and
// changes something: by the store, in the transaction that does it, or else afterwards,
// with what was answered.
func (s *Server) act(rt route, w *recorder, r *http.Request) error {
	by := windsock.PrincipalOf(r.Context()).Name
	if by == "" || rt.needs != admin || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return rt.serve(w, r)
	}
	a := &windsock.Act{
		At: time.Now(), Name: by, Method: r.Method, Route: rt.path, Subject: subjectIn(r), Status: http.StatusOK, Address: clientOf(r).String(),
	}
	err := rt.serve(w, r.WithContext(windsock.WithAct(r.Context(), a)))
	if a.Kept() {
		return err
	}
	a.Status = w.status
	if err != nil {
		a.Status = problemOf(err).Status
	}
	if failed := s.Store.KeepAct(context.WithoutCancel(r.Context()), a); failed != nil {
		s.Logger.Error("an act is not in the audit", "name", a.Name, "method", a.Method, "route", a.Route, "subject", a.Subject, "status", a.Status, "error", failed)
	}
	return err
}

// subjectIn is what the path names.
func subjectIn(r *http.Request) string {
	var parts []string
	for _, name := range []string{"id", "source", "name"} {
		if r.PathValue(name) == "" {
			continue
		}
		if text, err := pathText(r, name); err == nil {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " ")
}

// listActs shows who did what, the newest first.
func (s *Server) listActs(w http.ResponseWriter, r *http.Request) error {
	q := queryOf(r)
	before, limit := q.number("after", 0, 1, 1<<62), q.limit()
	if q.err != nil {
		return q.err
	}
	list, err := s.Store.Acts(r.Context(), before, limit)
	if err != nil {
		return err
	}
	next := nextPage(w, r, list, limit, func(a **windsock.Act) string { return strconv.FormatInt((*a).ID, 10) })
	return represent(w, r, http.StatusOK, struct {
		Acts []*windsock.Act `json:"acts"`
		Next string          `json:"next,omitempty"`
	}{list, next})
}
