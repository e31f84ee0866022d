package windsock

import (
	"errors"
	"fmt"
)

// The errors a caller can act on. Everyone below wraps them with the thing that was
// at stake; one table in api turns them into answers.
var (
	ErrNotFound     = errors.New("not found")
	ErrConflict     = errors.New("conflict")
	ErrTooMany      = errors.New("too many")
	ErrPrecondition = errors.New("changed meanwhile")
	ErrPruned       = errors.New("no longer in the log")
	ErrUnavailable  = errors.New("storage unavailable") // nothing was stored; worth another try
	ErrUnauthorized = errors.New("no such token")
	ErrForbidden    = errors.New("not allowed")
	ErrFinal        = errors.New("over already")
)

// FieldError says which field of what was asked cannot be, and why.
type FieldError struct {
	Field  string // as in JSON, or a JSON Pointer below a list
	Detail string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Detail }

// Invalid returns a FieldError.
func Invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, Detail: fmt.Sprintf(format, args...)}
}
