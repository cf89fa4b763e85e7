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

// Asked identifies the binding that a review request calls.
type Asked struct {
	// Module is empty for a global hook.
	Module, Hook string
	// Binding is the binding's id, unique among those of the hook.
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

// Table contains all served bindings. The order of the bindings decides between otherwise equal
// ones.
type Table struct {
	Admissions  []Admission
	Conversions []Conversion
	// Complete is true when the bindings of all hooks are known. Until then, conversions that are
	// not in the table are not removed from the cluster: otherwise objects would be read in a
	// version that they were not written in.
	Complete bool
}

// path returns the URL path of the binding: /hooks/ and a unique name.
func (a Admission) path() string {
	kind := "validating"
	if a.Mutating {
		kind = "mutating"
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{kind, a.Module, a.Hook, a.Binding}, "\x00")))
	return "/hooks/" + a.Config.Name + "-" + hex.EncodeToString(sum[:4])
}

// crdPath returns the URL path for conversions of a CustomResourceDefinition.
func crdPath(crd string) string { return "/" + crd }

// crds returns the conversions by the names of their CustomResourceDefinitions.
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
	// UID is the uid of the API server's request.
	UID string
	// DryRun is true if the request must have no side effects.
	DryRun bool
	// FromVersion and ToVersion are the versions of a conversion, as written in the binding.
	FromVersion, ToVersion string
	// Objects are the objects to convert, and Version is the requested GROUP/VERSION.
	Objects []json.RawMessage
	Version string
}

// Answer is the response of a hook to a review request.
type Answer struct {
	// Verdict is for an admission, Converted for a conversion.
	Verdict   hook.Verdict
	Converted hook.Converted
	// Ran is the time that the hook ran; zero if it was not started.
	Ran time.Duration
}

// Ask calls the hook of a review request. It returns soon after ctx has ended, because the API
// server then no longer waits.
//
// The error wraps [ErrHookFailed] if the hook failed or its response is invalid, and
// [hook.ErrNoResponse] if it succeeded without a response. It is [ErrWithdrawn] if the binding is
// no longer attached. Other errors are not caused by the hook.
type Ask func(ctx context.Context, q ReviewRequest) (Answer, error)

// ErrWithdrawn is the error for a binding that is no longer attached: the table is about to change.
var ErrWithdrawn = errors.New("the binding was withdrawn")

// ErrHookFailed is the error for a hook that ran and failed.
var ErrHookFailed = errors.New("hook failed")
