package debugapi

import (
	"fmt"
	"io"
	"net/http"
)

// WriteWithdrawn writes which webhook configurations were deleted.
func WriteWithdrawn(w io.Writer, deleted []string, namespace string) {
	for _, one := range deleted {
		_, _ = fmt.Fprintln(w, one, "deleted")
	}
	if len(deleted) == 0 {
		_, _ = fmt.Fprintf(w, "the operator in namespace %s has no webhook configurations\n", namespace)
	}
}

// withdrawRoute deletes the configurations of the running operator until its next start.
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
