package debugapi

import (
	"fmt"
	"io"
	"net/http"
)

// WriteWithdrawn writes the names of the deleted webhook configurations. If none were deleted, WriteWithdrawn writes
// that the operator in namespace has none.
func WriteWithdrawn(w io.Writer, deleted []string, namespace string) {
	for _, one := range deleted {
		_, _ = fmt.Fprintln(w, one, "deleted")
	}
	if len(deleted) == 0 {
		_, _ = fmt.Fprintf(w, "the operator in namespace %s has no webhook configurations\n", namespace)
	}
}

// withdrawRoute deletes the admission webhook configurations of the operator. The next start creates them again.
func (act actions) withdrawRoute(w http.ResponseWriter, r *http.Request) {
	if act.withdraw == nil {
		Fail(w, errNotRunning)
		return
	}
	deleted, namespace, err := act.withdraw(r.Context())
	if err != nil {
		Fail(w, err)
		return
	}
	WriteWithdrawn(w, deleted, namespace)
	act.carriedOut(w, r, "webhooks withdraw", "")
}
