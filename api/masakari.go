package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"windsock"
)

// notify takes a notification as Masakari's API does, so that masakari-monitors may be
// pointed here. Its rule is masakari.
func (s *Server) notify(w http.ResponseWriter, r *http.Request) error {
	body, _, err := readBody(w, r, typeJSON)
	if err != nil {
		return err
	}
	var given struct {
		Notification struct {
			Type          string          `json:"type"`
			Hostname      string          `json:"hostname"`
			GeneratedTime string          `json:"generated_time"`
			Payload       json.RawMessage `json:"payload"`
		} `json:"notification"`
	}
	if json.Unmarshal(body, &given) != nil {
		given.Notification.Payload = nil // what is wrong is told by who reads it
	}
	n := given.Notification
	same := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %s", n.Type, n.Hostname, n.GeneratedTime, n.Payload))
	if !s.notified.add(same, time.Now()) {
		return fmt.Errorf("this notification was taken already: %w", windsock.ErrConflict)
	}
	done, err := s.report(r, "masakari", body, false)
	if err != nil {
		s.notified.remove(same)
		return err
	}
	status := "ignored"
	if done.Recorded > 0 {
		status = "finished"
	}
	now := time.Now().UTC()
	return answer(w, http.StatusAccepted, map[string]any{"notification": map[string]any{
		"id": now.UnixMicro(), "notification_uuid": uuid.NewString(), "status": status,
		"source_host_uuid": uuid.NewSHA1(uuid.NameSpaceDNS, []byte(n.Hostname)).String(),
		"type":             n.Type, "generated_time": n.GeneratedTime, "payload": n.Payload,
		"created_at": now.Format(time.RFC3339), "updated_at": nil, "deleted": false, "deleted_at": nil,
	}})
}

// Masakari takes a notification for the same as one of the last three minutes. What is
// taken twice here changes nothing, so that it is forgotten at a restart does no harm.
const (
	notifiedFor  = 3 * time.Minute
	notifiedMost = 10_000
)

// notified remembers notifications for a while.
type notified struct {
	mu   sync.Mutex
	when map[[32]byte]time.Time
}

// add reports whether it is a new one.
func (n *notified) add(same [32]byte, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.when[same]; ok && now.Sub(at) < notifiedFor {
		return false
	}
	if len(n.when) >= notifiedMost {
		for k, at := range n.when {
			if now.Sub(at) >= notifiedFor {
				delete(n.when, k)
			}
		}
	}
	if n.when == nil || len(n.when) >= notifiedMost {
		n.when = map[[32]byte]time.Time{}
	}
	n.when[same] = now
	return true
}

func (n *notified) remove(same [32]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.when, same)
}
