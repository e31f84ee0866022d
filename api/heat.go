package api

import (
	"encoding/json"
	"fmt"
	"net/http"

	"windsock"
)

// markUnhealthy takes what Heat takes to mark a resource of a stack unhealthy, or no longer
// so. Its rule is heat.
func (s *Server) markUnhealthy(w http.ResponseWriter, r *http.Request) error {
	resource, err := pathText(r, "resource")
	if err != nil {
		return err
	}
	stack, err := pathText(r, "stack")
	if err != nil {
		return err
	}
	var mark struct {
		Unhealthy *bool  `json:"mark_unhealthy"`
		Reason    string `json:"resource_status_reason"`
	}
	if err := decode(w, r, &mark, typePatch); err != nil {
		return err
	}
	if mark.Unhealthy == nil {
		return windsock.Invalid("mark_unhealthy", "is required: true or false")
	}
	body, err := json.Marshal(map[string]any{
		"mark_unhealthy": *mark.Unhealthy, "resource_status_reason": mark.Reason, "stack": stack, "resource": resource,
	})
	if err != nil {
		return err
	}
	done, err := s.report(r, "heat", body, false)
	if err != nil {
		return err
	}
	if _, ok := scopeOf(r.Context()); ok && done.Refused > 0 {
		return at("resource", fmt.Errorf("%s: %w", done.Items[0].Why, windsock.ErrForbidden))
	}
	if done.Unmatched > 0 {
		return at("resource", fmt.Errorf("resource %q: %w", windsock.Clip(resource), windsock.ErrNotFound))
	}
	return answer(w, http.StatusOK, done)
}
