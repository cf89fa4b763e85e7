package settings

import "fmt"

// An Error says which setting is invalid. It is a mistake of the caller, not a failure of the operator.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.err }

// Invalid returns an Error with a text made as by fmt.Errorf.
func Invalid(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }
