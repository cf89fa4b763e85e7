package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"addon-operator/internal/hook"
)

// Asked identifies the binding for which a hook is called.
type Asked struct {
	// Module is empty for a global hook.
	Module, Hook string
	// Binding is the ID of the binding, which is unique among the bindings of the hook.
	Binding string
}

// Admission is a kubernetesValidating or kubernetesMutating binding.
type Admission struct {
	Asked
	Mutating bool
	Config   hook.AdmissionBinding
}

// Conversion is a kubernetesCustomResourceConversion binding.
type Conversion struct {
	Asked
	Config hook.ConversionBinding
}

// Table contains all bindings that are served. If several webhooks have the same name, the order of
// their bindings determines their unique names. If several chains of conversions are equally short,
// the order of bindings determines which chain is used.
type Table struct {
	Admissions  []Admission
	Conversions []Conversion
	// Complete is true when the bindings of all hooks are known. While Complete is false,
	// conversion webhooks that are not in the table are not removed from the cluster, and requests
	// that reach them are rejected. Otherwise the API server would return stored objects in another
	// version without a conversion.
	Complete bool
}

// path returns the URL path at which the API server calls the binding: "/hooks/" and a unique name.
func (a Admission) path() string {
	kind := "validating"
	if a.Mutating {
		kind = "mutating"
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{kind, a.Module, a.Hook, a.Binding}, "\x00")))
	return "/hooks/" + a.Config.Name + "-" + hex.EncodeToString(sum[:4])
}

// hookType returns the type of review request with which the hook is called for the binding.
func (a Admission) hookType() hook.Type {
	if a.Mutating {
		return hook.TypeMutating
	}
	return hook.TypeValidating
}

// crdPath returns the URL path at which the API server requests conversions of objects of a
// CustomResourceDefinition.
func crdPath(crd string) string { return "/" + crd }

// crds returns the conversion bindings by the name of their CustomResourceDefinition.
func (t Table) crds() map[string][]Conversion {
	all := map[string][]Conversion{}
	for _, c := range t.Conversions {
		all[c.Config.CRDName] = append(all[c.Config.CRDName], c)
	}
	return all
}

// ReviewRequest is a review request for one hook.
type ReviewRequest struct {
	Asked
	// Type is TypeValidating, TypeMutating or TypeConversion.
	Type hook.Type
	// Review is the AdmissionReview or ConversionReview as JSON.
	Review json.RawMessage
	// UID is the UID of the review, which the API server has set.
	UID string
	// DryRun is true if the hook must have no side effects.
	DryRun bool
	// FromVersion and ToVersion are the versions of the conversion step, as the hook's
	// configuration names them.
	FromVersion, ToVersion string
	// Objects are the objects to convert, and Version is the requested GROUP/VERSION.
	Objects []json.RawMessage
	Version string
}

// Answer is the response of a hook to a review request.
type Answer struct {
	// Verdict is the response to an admission request, and Converted is the response to a
	// conversion request.
	Verdict   hook.Verdict
	Converted hook.Converted
	// Ran is the duration of the hook's run; zero if the hook was not started.
	Ran time.Duration
}

// Ask calls the hook of a review request. ctx ends shortly before the API server stops waiting for
// the response, so an Ask must then return soon.
//
// The error wraps [ErrHookFailed] if the hook failed or its response is invalid, and
// [hook.ErrNoResponse] if the hook succeeded without a response. It wraps [ErrNotApplied] if the
// hook succeeded, but the operator could not apply its output. It wraps [ErrWithdrawn] if the
// binding was removed; then an admission request is allowed, and a conversion uses other bindings.
// If the error of a conversion wraps [hook.ErrGone], the conversion also uses other bindings, and fails
// with this error if there are none.
// Any other error has a cause outside the hook.
type Ask func(ctx context.Context, q ReviewRequest) (Answer, error)

// ErrWithdrawn is the error for a request whose binding was removed. The table of the server may
// still contain the binding for a short time.
var ErrWithdrawn = errors.New("the binding was withdrawn")

// ErrHookFailed is the error for a hook that ran and failed.
var ErrHookFailed = errors.New("hook failed")

// ErrNotApplied is the error for a hook that succeeded, but whose valid output could not be applied,
// for example because the disk is full. An Ask returns it even if the disk stays full until the timeout
// of the request, because the hook did not cause the timeout. If only the end of its context has
// prevented an Ask from applying the output, the Ask returns another error.
var ErrNotApplied = errors.New("output not applied")
