package helm

import (
	"errors"
	"fmt"
	"testing"
)

func TestASingleErrorOfHelmHasNoCount(t *testing.T) {
	t.Parallel()
	cause := errors.New("services is forbidden")
	for text, want := range map[string]string{
		"1 error occurred:\n\t* %w\n\n":     "services is forbidden",
		"2 errors occurred:\n\t* %w\n\t* x": "2 errors occurred:\n\t* services is forbidden\n\t* x",
		"%w":                                "services is forbidden",
	} {
		if err := withoutCount(fmt.Errorf(text, cause)); err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("%q became %q, want %q", text, err, want)
		}
	}
}
