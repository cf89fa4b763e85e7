package operation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/kube"
)

// refusal is an error that no further try at the same operation will change.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// IsRefused reports whether an error of [Executor.Do] is final: the same operation, tried again, would fail again. All else
// comes from a server that is away, overloaded or in trouble, or serves a kind not yet or no more.
func IsRefused(err error) bool {
	var final refusal
	return errors.As(err, &final) || kube.IsRefused(err) && !isUnserved(err)
}

// sparing is an error of the request to delete an object.
type sparing struct {
	error
	object kube.Ref
}

func (s sparing) Unwrap() error { return s.error }

// NotDeleted returns the object that an error of [Executor.Do] has left as it was, of which a mark was noted before, and
// whether there is one: its deletion was refused before it began.
func NotDeleted(err error) (object kube.Ref, ok bool) {
	var left sparing
	if !IsRefused(err) || !errors.As(err, &left) {
		return object, false
	}
	return left.object, true
}

// answer is an error of the API server, told without what may be a part of an object.
type answer struct {
	text string
	err  error
}

func (a answer) Error() string { return a.text }
func (a answer) Unwrap() error { return a.err }

// explain returns err for people: what the server says of a field without the field's value. For a request that was
// cut off it says so in place of the server.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return answer{"the API server did not answer in time", err}
	}
	var said apierrors.APIStatus
	if !errors.As(err, &said) {
		return err
	}
	status := said.Status()
	if status.Reason != metav1.StatusReasonInvalid || status.Details == nil || len(status.Details.Causes) == 0 {
		return err
	}
	causes := make([]string, 0, len(status.Details.Causes))
	for _, cause := range status.Details.Causes {
		causes = append(causes, strings.TrimPrefix(cause.Field+": ", ": ")+withoutValue(cause))
	}
	return answer{"the API server finds it invalid: " + strings.Join(causes, "; "), err}
}

// withoutValue returns what a cause says without the value it is about: "Invalid value: must be a number" for
// `Invalid value: "x": must be a number`. Where it cannot be told where the value ends, what follows is left out.
func withoutValue(cause metav1.StatusCause) string {
	what, rest, found := strings.Cut(cause.Message, ": ")
	neverHaveIt := []metav1.CauseType{
		metav1.CauseTypeFieldValueRequired, metav1.CauseTypeForbidden, metav1.CauseTypeTooLong, metav1.CauseTypeTooMany,
	}
	if !found || slices.Contains(neverHaveIt, cause.Type) {
		return cause.Message
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return what
	}
	if detail, more := strings.CutPrefix(rest[len(quoted):], ": "); more {
		return what + ": " + detail
	}
	return what
}

// isUnserved reports whether the server knows no such path, which is about the kind or the subresource, not about the
// object.
func isUnserved(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return true
	}
	var said apierrors.APIStatus
	return errors.As(err, &said) && (said.Status().Details == nil || said.Status().Details.Name == "")
}

// isMissing reports whether there is no object of the name, or no namespace to make it in.
func isMissing(err error) bool { return apierrors.IsNotFound(err) && !isUnserved(err) }

// isUnsupported reports whether the server serves the kind, but not to be watched, or not by us.
func isUnsupported(err error) bool {
	var said apierrors.APIStatus
	return errors.As(err, &said) &&
		(said.Status().Code == http.StatusForbidden || said.Status().Code == http.StatusMethodNotAllowed || said.Status().Code == http.StatusNotFound)
}
