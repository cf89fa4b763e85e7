package settings

import "fmt"

// An Error is the error of an invalid setting. An Error is a usage error, not a failure of the
// operator.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.err }

// Invalid returns an Error with a text formatted as by fmt.Errorf.
func Invalid(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }
