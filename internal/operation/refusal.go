package operation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/kube"
)

// refusal is a final error: a retry of the operation would fail again.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// IsRefused reports whether an error of [Executor.Do] is final: a retry of the operation would fail
// again. All other errors are temporary: the server is unavailable or overloaded, or does not serve
// the kind at the moment.
func IsRefused(err error) bool {
	var final refusal
	return errors.As(err, &final) || kube.IsRefused(err) && !isUnserved(err)
}

// sparing is the error of a deletion that did not delete its object.
type sparing struct {
	error
	object kube.Ref
}

func (s sparing) Unwrap() error { return s.error }

// NotDeleted reports whether err is the final error of a deletion that has found an object but not
// deleted it, and returns this object. Before it failed, the deletion stored a mark for the object.
func NotDeleted(err error) (object kube.Ref, ok bool) {
	var left sparing
	if !IsRefused(err) || !errors.As(err, &left) {
		return object, false
	}
	return left.object, true
}

// answer is an error of the API server whose text contains no content of an object.
type answer struct {
	text string
	err  error
}

func (a answer) Error() string { return a.text }
func (a answer) Unwrap() error { return a.err }

// explain returns err with a text for users. If the API server rejects fields of the object as
// invalid, the text contains the messages of the server without the values of the fields. A timeout
// gets a fixed text. Any other error is returned unchanged.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return answer{"the API server did not answer in time", err}
	}
	var answered apierrors.APIStatus
	if !errors.As(err, &answered) {
		return err
	}
	status := answered.Status()
	fields := kube.RejectedFields(&status)
	if len(fields) == 0 {
		return err
	}
	return answer{"the API server rejects it as invalid: " + strings.Join(fields, "; "), err}
}

// isUnserved reports whether err means that the API server does not serve the kind or the
// subresource of the request.
func isUnserved(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == "")
}

// isMissing reports whether err means that the object does not exist or, for a new object, that its
// namespace does not exist.
func isMissing(err error) bool { return apierrors.IsNotFound(err) && !isUnserved(err) }

// isUnsupported reports whether err, the error of a watch, means that the operator cannot watch the
// kind, because the kind does not support watches or access is denied.
func isUnsupported(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) &&
		(status.Status().Code == http.StatusForbidden || status.Status().Code == http.StatusMethodNotAllowed || status.Status().Code == http.StatusNotFound)
}
