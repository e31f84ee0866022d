package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"windsock"
)

const workPath = "/api/instances/{id}/components"

// issueToken makes the token by which an instance asks for its work, and shows it this
// once.
func (s *Server) issueToken(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	i, err := s.Store.Instance(r.Context(), id)
	if err != nil {
		return at("id", err)
	}
	token, err := s.Software.IssueToken(r.Context(), i.ID)
	if err != nil {
		return at("id", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, http.StatusCreated, struct {
		InstanceID string `json:"instance_id"`
		Token      string `json:"token"`
	}{i.ID, string(token)})
}

// work shows an instance what it may run. One who has that already can wait for another.
func (s *Server) work(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	q := queryOf(r)
	wait := q.duration("wait", 0, maxWait)
	if q.err != nil {
		return q.err
	}
	token, err := bearer(r)
	if err != nil {
		return err
	}
	base, err := s.publicURL(r)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	known := strings.Join(r.Header.Values("If-None-Match"), ",")
	has, err := s.showWork(w, r, id, token, base, known)
	if has == nil || err != nil {
		return err
	}
	if wait > 0 && s.park(w, r, has, wait) {
		return nil
	}
	if wait > 0 {
		linger(w, wait)
		waiting, cancel := s.untilStop(r.Context(), wait)
		err := s.Software.AwaitWork(waiting, has.InstanceID, has.Revision)
		over := waiting.Err() != nil && r.Context().Err() == nil
		cancel()
		switch {
		case err == nil:
			if has, err = s.showWork(w, r, id, token, base, known); has == nil || err != nil {
				return err
			}
		case !over:
			return err
		}
	}
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// showWork answers, or returns what the known tags say that the instance has already, but
// for the components: they need not be read for that.
func (s *Server) showWork(w http.ResponseWriter, r *http.Request, id string, token windsock.Secret, base, known string) (has *windsock.Work, err error) {
	if known != "" {
		work, err := s.Software.WorkRevision(r.Context(), id, token)
		if tag := s.workTag(work); err == nil && windsock.MatchWeakly(known, tag) {
			w.Header().Set("ETag", tag)
			return &work, nil
		} // what is wrong is told below
	}
	work, err := s.Software.Work(r.Context(), id, token, base)
	switch {
	case errors.Is(err, windsock.ErrNotFound):
		return nil, at("id", err)
	case err != nil:
		return nil, at("Authorization", err)
	}
	w.Header().Set("ETag", s.workTag(work))
	work.Components = orEmpty(work.Components)
	for i := range work.Components { // hooks do not expect null
		job := &work.Components[i].Job
		job.Inputs, job.Outputs = orEmpty(job.Inputs), orEmpty(job.Outputs)
		if job.Options == nil {
			job.Options = map[string]any{}
		}
	}
	return nil, answer(w, http.StatusOK, work)
}

// workTag has the id of the database, too: another counts anew.
func (s *Server) workTag(work windsock.Work) string {
	return fmt.Sprintf(`"%d-%s"`, work.Revision, s.ID)
}

// publicURL is where whoever asks reaches this API.
func (s *Server) publicURL(r *http.Request) (string, error) {
	if s.PublicURL != "" {
		return strings.TrimRight(s.PublicURL, "/"), nil
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	base := scheme + "://" + r.Host
	if u, err := url.Parse(base); err != nil || u.Host != r.Host || windsock.CheckPublicURL(base) != nil {
		return "", windsock.Invalid("Host", "want the name or address of this server")
	}
	return base, nil
}
