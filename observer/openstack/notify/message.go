package notify

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"windsock"
)

const maxBody = 1 << 20 // bytes

// subject returns what a notification is about: the server or the stack, by the id that
// OpenStack knows it by. The rest of it may be old by now, so nothing of it is used.
func subject(body []byte) (s windsock.Subject, ok bool) {
	var envelope struct {
		Message string `json:"oslo.message"` // JSON once more
	}
	var message struct {
		Type    string `json:"event_type"`
		Payload struct {
			Instance string `json:"instance_id"`
			Stack    string `json:"stack_identity"`
			Object   struct {
				ID       string `json:"uuid"`
				Instance string `json:"instance_uuid"`
			} `json:"nova_object.data"` // of a versioned one
		} `json:"payload"`
	}
	if len(body) > maxBody || json.Unmarshal(body, &envelope) != nil || json.Unmarshal([]byte(envelope.Message), &message) != nil {
		return s, false
	}
	if strings.HasSuffix(message.Type, ".exists") { // told of each server every hour, for accounting
		return s, false
	}
	p := &message.Payload
	s = windsock.Subject{Kind: windsock.KindInstance}
	switch {
	case p.Stack != "":
		s = windsock.Subject{Kind: windsock.KindDeployment, ID: p.Stack}
	case p.Instance != "":
		s.ID = p.Instance
	case strings.HasPrefix(message.Type, "instance."):
		s.ID = p.Object.ID
	case strings.HasPrefix(message.Type, "compute_task."): // there was no host for it
		s.ID = p.Object.Instance
	}
	return s, len(s.ID) == 36 && uuid.Validate(s.ID) == nil
}
