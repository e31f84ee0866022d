package api

import (
	"context"
	"net/http"
	"time"

	"windsock"
)

// addition is what POST /api/monitors/add takes.
type addition struct {
	windsock.MonitorSpec
	windsock.Keys
}

// added answers it.
type added struct {
	Result string `json:"result"`
	windsock.Monitor
	Secret string `json:"secret,omitempty"` // the one that was made, this once
}

func (s *Server) addMonitor(w http.ResponseWriter, r *http.Request) error {
	var a addition
	if err := decode(w, r, &a, typeForm); err != nil {
		return err
	}
	if err := a.MonitorSpec.Complete(); err != nil {
		return err
	}
	if err := a.Keys.Complete(a.Scheme); err != nil {
		return err
	}
	m, err := s.Store.AddMonitor(r.Context(), a.MonitorSpec, a.Keys)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if m.Created {
		status = http.StatusCreated
	}
	w.Header().Set("Location", "/api/monitors/"+m.ID)
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, status, added{success, s.overlaid(r.Context(), m.Monitor), string(m.Made)})
}

// rotation is what POST /api/monitors/{id}/secret takes.
type rotation struct {
	Version string           `json:"version"`
	Secret  *windsock.Secret `json:"secret"`
}

func (s *Server) rotateSecret(w http.ResponseWriter, r *http.Request) error {
	var in rotation
	if r.ContentLength != 0 {
		if err := decode(w, r, &in, typeForm); err != nil {
			return err
		}
	}
	if err := windsock.CheckVersion(in.Version); err != nil {
		return err
	}
	if in.Secret != nil {
		if err := windsock.CheckSecret("secret", *in.Secret); err != nil {
			return err
		}
	}
	id := r.PathValue("id")
	done, err := s.Store.RotateSecret(r.Context(), id, in.Secret)
	if err != nil {
		return at("id", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, http.StatusOK, struct {
		Result    string    `json:"result"`
		MonitorID string    `json:"monitor_id"`
		Secret    string    `json:"secret,omitempty"` // the one that was made, this once
		OldUntil  time.Time `json:"old_secret_until,omitzero"`
	}{success, id, string(done.Made), done.OldUntil})
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
	s.overlay(r.Context(), monitors)
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
	return represent(w, r, http.StatusOK, s.overlaid(r.Context(), m))
}

func (s *Server) pauseMonitor(w http.ResponseWriter, r *http.Request) error {
	m, err := s.Store.PauseMonitor(r.Context(), r.PathValue("id"), windsock.PausedByOperator, "by an operator")
	if err != nil {
		return at("id", err)
	}
	return answer(w, http.StatusOK, added{Result: success, Monitor: s.overlaid(r.Context(), m)})
}

// resumption is what POST /api/monitors/{id}/resume takes, if it has a body at all.
type resumption struct {
	Version string          `json:"version"`
	From    windsock.Resume `json:"from"`
}

func (s *Server) resumeMonitor(w http.ResponseWriter, r *http.Request) error {
	var m resumption
	if r.ContentLength != 0 {
		if err := decode(w, r, &m, typeForm); err != nil {
			return err
		}
	}
	if err := windsock.CheckVersion(m.Version); err != nil {
		return err
	}
	switch m.From {
	case "":
		m.From = windsock.Replay
	case windsock.Replay, windsock.Coalesced, windsock.Skip:
	default:
		return windsock.Invalid("from", "want replay, latest or skip, got %q", windsock.Clip(string(m.From)))
	}
	resumed, err := s.Store.ResumeMonitor(r.Context(), r.PathValue("id"), m.From)
	if err != nil {
		return at("id", err)
	}
	return answer(w, http.StatusOK, added{Result: success, Monitor: s.overlaid(r.Context(), resumed)})
}

// overlay adds how the callbacks to monitors go, as the deliverer knows it. Whether one is
// paused or pending the store knows first.
func (s *Server) overlay(ctx context.Context, list []windsock.Monitor) {
	if s.Deliveries == nil {
		return
	}
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	known := s.Deliveries.Deliveries(ctx, ids)
	for i := range list {
		m := &list[i]
		d, ok := known[m.ID]
		if !ok {
			continue
		}
		d.PausedBy = m.Delivery.PausedBy
		switch {
		case held(m.Delivery.State):
			d.State = m.Delivery.State
		case !held(d.State):
		case d.Backlog > 0:
			d.State = "delivering"
		default:
			d.State = "idle"
		}
		m.Delivery = d
	}
}

// overlaid is overlay for one.
func (s *Server) overlaid(ctx context.Context, m windsock.Monitor) windsock.Monitor {
	list := []windsock.Monitor{m}
	s.overlay(ctx, list)
	return list[0]
}

func held(state string) bool { return state == "paused" || state == "pending" }
