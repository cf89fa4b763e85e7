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

// Table contains all served bindings. Their order determines the names of webhooks with equal
// names, and the preferred chain of several equally short chains.
type Table struct {
	Admissions  []Admission
	Conversions []Conversion
	// Complete is true when the bindings of all hooks are known. Until then, conversions that are
	// not in the table are not removed from the cluster. Otherwise the API server would return
	// stored objects in another version without a conversion.
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
	// UID is the UID of the API server's request.
	UID string
	// DryRun is true if the hook must have no side effects.
	DryRun bool
	// FromVersion and ToVersion are the versions of a conversion, as written in the binding.
	FromVersion, ToVersion string
	// Objects are the objects to convert, and Version is the requested GROUP/VERSION.
	Objects []json.RawMessage
	Version string
}

// Answer is the response of a hook to a review request.
type Answer struct {
	// Verdict is the response to an admission request, and Converted the response to a conversion
	// request.
	Verdict   hook.Verdict
	Converted hook.Converted
	// Ran is the duration of the hook; zero if the hook was not started.
	Ran time.Duration
}

// Ask calls the hook of a review request. When ctx ends, the API server no longer waits for the
// response, so Ask returns soon after.
//
// The error wraps [ErrHookFailed] if the hook failed or its response is invalid, and
// [hook.ErrNoResponse] if the hook succeeded without a response. It is [ErrWithdrawn] if the
// binding is no longer attached. Any other error has a cause outside the hook.
type Ask func(ctx context.Context, q ReviewRequest) (Answer, error)

// ErrWithdrawn is the error for a binding that is no longer attached: the table will change soon.
var ErrWithdrawn = errors.New("the binding was withdrawn")

// ErrHookFailed is the error for a hook that ran and failed.
var ErrHookFailed = errors.New("hook failed")
