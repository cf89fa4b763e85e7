package hook

import (
	"errors"
	"fmt"

	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
)

// FileError returns an error for an output file of a hook: err with the name of the environment
// variable of the file. If err says that text is not JSON or YAML, the error quotes the beginning
// of text without secrets.
func FileError(variable string, text []byte, err error) error {
	if _, ok := errors.AsType[*tree.NotationError](err); ok {
		return fmt.Errorf("%s: %w; the file begins with %s", variable, err, redact.Beginning(text))
	}
	return fmt.Errorf("%s: %w", variable, err)
}
