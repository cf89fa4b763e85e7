package hook

import (
	"errors"
	"fmt"

	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
)

// FileError returns the error about an output file of a hook, with the name of its variable. If the
// text of the file is not JSON or YAML, the error quotes the beginning without secrets.
func FileError(variable string, text []byte, err error) error {
	if _, ok := errors.AsType[*tree.NotationError](err); ok {
		return fmt.Errorf("%s: %w; the file begins with %s", variable, err, redact.Beginning(text))
	}
	return fmt.Errorf("%s: %w", variable, err)
}
