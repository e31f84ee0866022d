package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"windsock"

	"github.com/google/uuid"
)

// model is deployments or instances over HTTP: things V that an owner declares by a
// description S.
type model[S, V any] struct {
	*Server
	kind   windsock.Kind
	path   string // with a slash at its end
	states []windsock.State

	id       func(*S) *string
	observed func(*V) windsock.State
	complete func(s *S) error             // fills in defaults, or says what cannot be
	permit   func(before, after *S) error // says what may not be declared over HTTP, or not any more; before is nil for what is new

	putOne    func(context.Context, S, windsock.Cond) (V, bool, error)
	patchOne  func(context.Context, string, windsock.Cond, func(*S) error) (V, error)
	removeOne func(context.Context, string, windsock.Cond) error
	one       func(context.Context, string) (V, error)
	some      func(context.Context, windsock.Filter) ([]V, error)
	idOf      func(*V) string
}

// list shows a page of those that the query selects.
func (m *model[S, V]) list(w http.ResponseWriter, r *http.Request) error {
	return m.page(w, r, queryOf(r).Get("deployment"))
}

func (m *model[S, V]) page(w http.ResponseWriter, r *http.Request, deployment string) error {
	q := queryOf(r)
	f := windsock.Filter{
		After:      q.Get("after"),
		Limit:      q.limit(),
		State:      q.state("state", m.states),
		Drift:      q.flag("drift"),
		Stale:      q.flag("stale"),
		Provider:   q.Get("provider"),
		Pool:       q.Get("pool"),
		Deployment: deployment,
		Assembly:   q.Get("assembly"),
	}
	if q.err != nil {
		return q.err
	}
	found, err := m.some(r.Context(), f)
	if err != nil {
		return err
	}
	body := map[string]any{string(m.kind) + "s": orEmpty(found)}
	if next := nextPage(w, r, found, f.Limit, m.idOf); next != "" {
		body["next"] = next
	}
	return represent(w, r, http.StatusOK, body)
}

// nextPage returns the id after which the next page begins, and links to it; "" when
// this one, being short, is the last.
func nextPage[V any](w http.ResponseWriter, r *http.Request, found []V, limit int, id func(*V) string) string {
	if len(found) < limit {
		return ""
	}
	next := id(&found[len(found)-1])
	q := r.URL.Query()
	q.Set("after", next)
	q.Set("limit", strconv.Itoa(limit))
	w.Header().Set("Link", "<"+r.URL.EscapedPath()+"?"+q.Encode()+`>; rel="next"`)
	return next
}

// orEmpty makes sure that a list is shown as one.
func orEmpty[V any](list []V) []V {
	if list == nil {
		return []V{}
	}
	return list
}

// show shows one, if so asked only once it is in a certain state.
func (m *model[S, V]) show(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	v, err := m.await(w, r, id)
	if err != nil {
		return at("id", err)
	}
	return represent(w, r, http.StatusOK, v)
}

// create declares one whose id, if it is not given, is ours to choose.
func (m *model[S, V]) create(w http.ResponseWriter, r *http.Request) error {
	var spec S
	if err := decode(w, r, &spec); err != nil {
		return err
	}
	if id := m.id(&spec); *id == "" {
		*id = uuid.Must(uuid.NewV7()).String()
	}
	windsock.About(r.Context(), *m.id(&spec))
	v, _, err := m.declare(r, spec, windsock.Cond{IfNoneMatch: "*"})
	if errors.Is(err, windsock.ErrPrecondition) {
		return at("id", errExists)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", m.path+url.PathEscape(m.idOf(&v)))
	return represent(w, r, http.StatusCreated, v)
}

// put declares the one that the path names.
func (m *model[S, V]) put(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	var spec S
	if err := decode(w, r, &spec); err != nil {
		return err
	}
	if own := m.id(&spec); *own == "" {
		*own = id
	} else if *own != id {
		return windsock.Invalid("id", "is another one in the path")
	}
	v, created, err := m.declare(r, spec, demands(r))
	if err != nil {
		return err
	}
	if !created {
		return represent(w, r, http.StatusOK, v)
	}
	w.Header().Set("Location", m.path+url.PathEscape(id))
	return represent(w, r, http.StatusCreated, v)
}

func (m *model[S, V]) declare(r *http.Request, spec S, c windsock.Cond) (v V, created bool, err error) {
	if err = m.complete(&spec); err == nil {
		err = m.permit(nil, &spec)
	}
	if err == nil {
		v, created, err = m.putOne(r.Context(), spec, c)
	}
	return v, created, err
}

// patch changes the declaration of one by a JSON merge patch (RFC 7396).
func (m *model[S, V]) patch(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	body, _, err := readBody(w, r, typePatch, typeJSON)
	if err != nil {
		return err
	}
	if err := decodeJSON(body, new(S)); err != nil { // whatever there is to be patched
		return err
	}
	v, err := m.patchOne(r.Context(), id, demands(r), func(spec *S) error { return m.merge(spec, body) })
	if err != nil {
		return at("id", err)
	}
	return represent(w, r, http.StatusOK, v)
}

func (m *model[S, V]) merge(spec *S, patch []byte) error {
	before := *spec
	present, err := json.Marshal(before)
	if err != nil {
		return err
	}
	var after S // shares nothing with before
	if err := decodeJSON(present, &after); err != nil {
		return err
	}
	if err := decodeJSON(patch, &after); err != nil {
		return err
	}
	if err := m.complete(&after); err != nil {
		return err
	}
	*spec = after
	return m.permit(&before, &after)
}

// remove takes one out of the model.
func (m *model[S, V]) remove(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	if err := m.removeOne(r.Context(), id, demands(r)); err != nil {
		return at("id", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// clear forgets what one source says of one.
func (m *model[S, V]) clear(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	source, err := pathText(r, "source")
	if err != nil {
		return err
	}
	v, err := m.one(r.Context(), id)
	if err != nil {
		return at("id", err)
	}
	subject := windsock.Subject{Kind: m.kind, ID: m.idOf(&v)}
	if err := m.Store.ClearEvidence(r.Context(), subject, source); err != nil {
		return at("source", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
