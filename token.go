package windsock

import "time"

// TokenSpec is what a token is made for.
type TokenSpec struct {
	Name      string     `json:"name"`                 // its own, as the audit has it
	Role      Permission `json:"role"`                 // default read
	Scope     Scope      `json:"scope,omitempty"`      // of role report: on what it may; default global
	MonitorID string     `json:"monitor_id,omitempty"` // of role report: the monitor that is the source of all that it reports
	TTL       Duration   `json:"ttl,omitempty"`        // how long it is valid; 0: until it is revoked
}

// Complete fills in the defaults and returns a FieldError when there can be no such token.
func (s *TokenSpec) Complete() error {
	setDefault(&s.Role, MayRead)
	setDefault(&s.Scope, Global)
	err := firstError(ValidID("name", s.Name), s.Role.Validate(), s.Scope.Validate())
	switch {
	case err != nil:
		return err
	case s.Scope != Global && s.Role != MayReport:
		return Invalid("scope", "only the role report has one")
	case s.MonitorID != "" && s.Role != MayReport:
		return Invalid("monitor_id", "only the role report has one")
	case s.TTL < 0 || s.TTL > Duration(MaxTTL):
		return Invalid("ttl", "want at most a year, got %v", time.Duration(s.TTL))
	}
	return nil
}

// Token is a token that was made; the token itself is nowhere.
type Token struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Role       Permission `json:"role"`
	Scope      Scope      `json:"scope"`
	MonitorID  string     `json:"monitor_id,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  time.Time  `json:"expires_at,omitzero"`   // zero: never
	LastUsedAt time.Time  `json:"last_used_at,omitzero"` // to the minute; zero: never
}

// Principal is who calls with the token.
func (t *Token) Principal() Principal {
	return Principal{Name: t.Name, Permission: t.Role, Scope: t.Scope, MonitorID: t.MonitorID}
}
