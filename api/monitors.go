package api

import (
	"encoding/base64"
	"net/http"
	"strings"

	"windsock"
)

// addition is what POST /api/monitors/add takes.
type addition struct {
	windsock.MonitorSpec
	Secret *windsock.Secret `json:"secret"`
}

// added answers it.
type added struct {
	Result string `json:"result"`
	windsock.Monitor
}

func (s *Server) addMonitor(w http.ResponseWriter, r *http.Request) error {
	var a addition
	if err := decode(w, r, &a, typeForm); err != nil {
		return err
	}
	secret, err := checkSecret(a.Secret)
	if err != nil {
		return err
	}
	if err := a.Complete(); err != nil {
		return err
	}
	m, created, err := s.Store.AddMonitor(r.Context(), a.MonitorSpec, secret)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	w.Header().Set("Location", "/api/monitors/"+m.ID)
	return answer(w, status, added{success, s.overlay(m)})
}

// checkSecret takes the secrets of Standard Webhooks: whsec_ and 24 to 64 bytes in base64.
func checkSecret(given *windsock.Secret) (windsock.Secret, error) {
	if given == nil {
		return "", nil
	}
	text, ok := strings.CutPrefix(string(*given), "whsec_")
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return "", windsock.Invalid("secret", "want whsec_ and the base64 of 24 to 64 bytes") // not what was got
	}
	return *given, nil
}

// removal is what POST /api/monitors/remove takes.
type removal struct {
	Version   string `json:"version"`
	MonitorID string `json:"monitor_id"`
	Address   string `json:"address"`
	Port      *int   `json:"port"`
}

func (s *Server) removeMonitor(w http.ResponseWriter, r *http.Request) error {
	var m removal
	if err := decode(w, r, &m, typeForm); err != nil {
		return err
	}
	if err := windsock.CheckVersion(m.Version); err != nil {
		return err
	}
	if err := windsock.ValidID("monitor_id", m.MonitorID); err != nil {
		return err
	}
	port := 0
	if m.Port != nil {
		if port = *m.Port; port < 1 || port > 65535 {
			return windsock.Invalid("port", "want 1 to 65535, got %d", port)
		}
	}
	if err := s.Store.RemoveMonitor(r.Context(), m.MonitorID, m.Address, port); err != nil {
		return at("monitor_id", err)
	}
	return answer(w, http.StatusOK, struct {
		Result    string `json:"result"`
		MonitorID string `json:"monitor_id"`
	}{success, m.MonitorID})
}

func (s *Server) listMonitors(w http.ResponseWriter, r *http.Request) error {
	q := queryOf(r)
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	if err := windsock.CheckVersion(q.Get("version")); err != nil {
		return err
	}
	monitors, err := s.Store.Monitors(r.Context(), q.Get("after"), limit)
	if err != nil {
		return err
	}
	for i := range monitors {
		monitors[i] = s.overlay(monitors[i])
	}
	next := nextPage(w, r, monitors, limit, func(m *windsock.Monitor) string { return m.ID })
	return represent(w, r, http.StatusOK, struct {
		Result   string             `json:"result"`
		Monitors []windsock.Monitor `json:"monitors"`
		Next     string             `json:"next,omitempty"`
	}{success, orEmpty(monitors), next})
}

func (s *Server) showMonitor(w http.ResponseWriter, r *http.Request) error {
	m, err := s.Store.Monitor(r.Context(), r.PathValue("id"))
	if err != nil {
		return at("id", err)
	}
	return represent(w, r, http.StatusOK, s.overlay(m))
}

// overlay adds how the callbacks go, as the deliverer knows it.
func (s *Server) overlay(m windsock.Monitor) windsock.Monitor {
	if s.Deliveries != nil {
		if d, ok := s.Deliveries.Delivery(m.ID); ok {
			m.Delivery = d
		}
	}
	return m
}
