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

// Asked names whom a question goes to.
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

// Table is all bindings that are served, each kind in the order that decides between equals.
type Table struct {
	Admissions  []Admission
	Conversions []Conversion
	// Complete is set once all hooks there are have been heard of. Until then conversions that are not in the table are
	// not taken back: objects would be read in a version they were not written in.
	Complete bool
}

// path returns where the API server asks: /hooks/ and what no other binding has.
func (a Admission) path() string {
	kind := "validating"
	if a.Mutating {
		kind = "mutating"
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{kind, a.Module, a.Hook, a.Binding}, "\x00")))
	return "/hooks/" + a.Config.Name + "-" + hex.EncodeToString(sum[:4])
}

// crdPath returns where the API server has objects of a CustomResourceDefinition converted.
func crdPath(crd string) string { return "/" + crd }

// crds returns the conversions by the names of their CustomResourceDefinitions.
func (t Table) crds() map[string][]Conversion {
	all := map[string][]Conversion{}
	for _, c := range t.Conversions {
		all[c.Config.CRDName] = append(all[c.Config.CRDName], c)
	}
	return all
}

// ReviewRequest is one thing that a hook is asked.
type ReviewRequest struct {
	Asked
	// Type is TypeValidating, TypeMutating or TypeConversion.
	Type hook.Type
	// Review is the AdmissionReview or ConversionReview, JSON.
	Review json.RawMessage
	// UID is that of the API server's request.
	UID string
	// DryRun is set where nothing may be changed by it.
	DryRun bool
	// FromVersion and ToVersion are those of a conversion, as the binding has them.
	FromVersion, ToVersion string
	// Objects are those to be converted, and Version what they are to be in, GROUP/VERSION.
	Objects []json.RawMessage
	Version string
}

// Answer is what a hook has to say to a question.
type Answer struct {
	// Verdict answers an admission, Converted a conversion.
	Verdict   hook.Verdict
	Converted hook.Converted
	// Ran is how long the hook ran; zero where it was not started.
	Ran time.Duration
}

// Ask puts a question to its hook. It returns soon after ctx has ended, which is when nobody waits for the answer any more.
//
// The error is, or wraps, [ErrHookFailed] where the hook ran and did not end well or wrote what cannot be taken, and
// [hook.ErrNoResponse] where it ended well and wrote nothing. It is [ErrWithdrawn] where the binding is not
// attached. Any other is not the hook's either.
type Ask func(ctx context.Context, q ReviewRequest) (Answer, error)

// ErrWithdrawn is what the error is for a binding that is not attached any more: the table is about to change.
var ErrWithdrawn = errors.New("the binding was withdrawn")

// ErrHookFailed is what the error is for a hook that ran and failed.
var ErrHookFailed = errors.New("hook failed")
