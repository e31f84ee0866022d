package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"

	"windsock"

	"github.com/google/uuid"
)

const maxDeployable = 4 << 20 // bytes, with its files

// templateTypes are what a template is sent as when it is sent as it is. The last one is
// what curl says unless it is told better.
var templateTypes = []string{"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain", typeForm}

// deployableSpec is what POST /api/deployables takes as JSON.
type deployableSpec struct {
	Name     string            `json:"name"`
	Template templateText      `json:"template"`
	Files    map[string]string `json:"files"`
}

// templateText is a template as text, or written out as JSON.
type templateText string

func (t *templateText) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '"':
		return json.Unmarshal(data, (*string)(t))
	case '{':
		*t = templateText(data)
		return nil
	}
	return windsock.Invalid("", "want text or an object")
}

func (s *Server) addDeployable(w http.ResponseWriter, r *http.Request) error {
	leave, err := enter(r, s.deployables)
	if err != nil {
		return err
	}
	defer leave()
	spec, err := readDeployable(w, r)
	if err != nil {
		return err
	}
	d, err := s.Software.AddDeployable(r.Context(), windsock.Deployable{
		ID: uuid.Must(uuid.NewV7()).String(), Name: spec.Name, Source: string(spec.Template), Files: spec.Files,
	})
	switch {
	case err != nil && len(d.Findings) > 0:
		return &told{err, facts{Field: "template", Findings: d.Findings}}
	case err != nil:
		return at("template", err)
	}
	d.Source, d.Files = "", nil // it has them
	listed(&d.Summary)
	w.Header().Set("Location", "/api/deployables/"+url.PathEscape(d.ID))
	return represent(w, r, http.StatusCreated, d)
}

func readDeployable(w http.ResponseWriter, r *http.Request) (spec deployableSpec, err error) {
	body, kind, err := readTyped(w, r, maxDeployable, slices.Concat([]string{typeJSON}, templateTypes)...)
	if err != nil {
		return spec, err
	}
	name := r.URL.Query().Get("name")
	if kind == typeJSON {
		if err := decodeJSON(body, &spec); err != nil {
			return spec, err
		}
		if name != "" && spec.Name != "" && name != spec.Name {
			return spec, windsock.Invalid("name", "is another one in the query")
		}
	} else if spec.Template = templateText(body); !utf8.Valid(body) {
		return spec, windsock.Invalid("template", "is not UTF-8")
	}
	if spec.Name == "" {
		spec.Name = name
	}
	if spec.Template == "" {
		return spec, windsock.Invalid("template", "is required")
	}
	return spec, windsock.CheckName("name", spec.Name)
}

func (s *Server) listDeployables(w http.ResponseWriter, r *http.Request) error {
	q := queryOf(r)
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	found, err := s.Software.Deployables(r.Context(), q.Get("after"), limit)
	if err != nil {
		return err
	}
	for i := range found {
		listed(&found[i].Summary)
	}
	return represent(w, r, http.StatusOK, struct {
		Deployables []windsock.Deployable `json:"deployables"`
		Next        string                `json:"next,omitempty"`
	}{orEmpty(found), nextPage(w, r, found, limit, func(d *windsock.Deployable) string { return d.ID })})
}

func (s *Server) showDeployable(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	d, err := s.Software.Deployable(r.Context(), id)
	if err != nil {
		return at("id", err)
	}
	listed(&d.Summary)
	return represent(w, r, http.StatusOK, d)
}

// listed makes sure that lists are shown as such.
func listed(s *windsock.Summary) {
	s.Parameters, s.Instances, s.Components, s.Findings = orEmpty(s.Parameters), orEmpty(s.Instances), orEmpty(s.Components), orEmpty(s.Findings)
}

func (s *Server) removeDeployable(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	if err := s.Software.RemoveDeployable(r.Context(), id); err != nil {
		return at("id", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
