package hook

import (
	"errors"
	"fmt"

	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
)

// FileError returns err with the name of an environment variable of a hook in front of it. The variable contains the
// path of an output file, and text is the content of this file. If err says that text is not JSON or YAML, the result
// also quotes the beginning of text, without secrets.
func FileError(variable string, text []byte, err error) error {
	if _, ok := errors.AsType[*tree.NotationError](err); ok {
		return fmt.Errorf("%s: %w; the file begins with %s", variable, err, redact.Beginning(text))
	}
	return fmt.Errorf("%s: %w", variable, err)
}
