package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
)

// AdmissionRequest is the request that the hook must allow or deny, in an element of type
// Validating or Mutating.
type AdmissionRequest struct {
	UID       string           `json:"uid"`
	Kind      GroupVersionKind `json:"kind"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	// Operation is "CREATE", "UPDATE", "DELETE" or "CONNECT".
	Operation   string `json:"operation"`
	SubResource string `json:"subResource"`
	UserInfo    User   `json:"userInfo"`
	// Object is the new object, and OldObject is the stored object. Each is the text null if the
	// request has no such object.
	Object    json.RawMessage `json:"object"`
	OldObject json.RawMessage `json:"oldObject"`
	DryRun    bool            `json:"dryRun"`
}

// GroupVersionKind identifies a kind of objects.
type GroupVersionKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// User is the user who has sent a request to the API server.
type User struct {
	Username string   `json:"username"`
	UID      string   `json:"uid"`
	Groups   []string `json:"groups"`
}

// AdmissionRequest decodes the review of an element. The type of the element must be Validating or
// Mutating.
func (e Element) AdmissionRequest() (AdmissionRequest, error) {
	var review struct {
		Request AdmissionRequest `json:"request"`
	}
	err := e.review(&review, TypeValidating, TypeMutating)
	return review.Request, err
}

// ConversionObjects returns the objects to convert from the review of an element. The type of the
// element must be Conversion.
func (e Element) ConversionObjects() ([]json.RawMessage, error) {
	var review struct {
		Request struct {
			Objects []json.RawMessage `json:"objects"`
		} `json:"request"`
	}
	err := e.review(&review, TypeConversion)
	return review.Request.Objects, err
}

func (e Element) review(into any, types ...Type) error {
	for _, t := range types {
		if e.Type == t {
			if err := json.Unmarshal(e.Review, into); err != nil {
				return fmt.Errorf("review of %s: %w", e.Binding, err)
			}
			return nil
		}
	}
	return fmt.Errorf("binding %s is of type %q, which has no such review", e.Binding, e.Type)
}

// verdict is the content of the file whose path is in ADMISSION_RESPONSE_PATH.
type verdict struct {
	Allowed  bool     `json:"allowed"`
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Patch    []byte   `json:"patch,omitempty"` // in base64
	err      error
}

// Allow allows an admission request. The API server shows the warnings to the sender of the
// request.
func (r *Run) Allow(warnings ...string) {
	r.verdict = &verdict{Allowed: true, Warnings: warnings}
}

// AllowChanged allows an admission request for a mutating binding. The API server applies the
// changes to the object of the request.
func (r *Run) AllowChanged(changes []Change, warnings ...string) {
	r.verdict = &verdict{Allowed: true, Warnings: warnings}
	if len(changes) > 0 {
		r.verdict.Patch, r.verdict.err = json.Marshal(changes)
	}
}

// Deny denies an admission request. The API server shows the message to the sender of the request.
func (r *Run) Deny(message string, warnings ...string) {
	r.verdict = &verdict{Message: message, Warnings: warnings}
}

func (v *verdict) output() (variable string, content []byte, err error) {
	const file = "ADMISSION_RESPONSE_PATH"
	if v == nil {
		return file, nil, nil
	}
	if v.err != nil {
		return file, nil, fmt.Errorf("changes of a mutating answer: %w", v.err)
	}
	content, err = json.Marshal(v)
	return file, content, err
}

// conversionResult is the content of the file whose path is in CONVERSION_RESPONSE_PATH.
type conversionResult struct {
	Objects []any  `json:"convertedObjects,omitempty"`
	Failed  string `json:"failedMessage,omitempty"`
}

// Converted responds to a conversion request. The arguments must be all objects of the request, in
// the same order, converted to the requested version.
func (r *Run) Converted(objects ...any) {
	r.converted = &conversionResult{Objects: objects}
}

// NotConverted rejects a conversion request. The API server shows the message to the sender of the
// original request.
func (r *Run) NotConverted(message string) {
	r.converted = &conversionResult{Failed: message}
}

func (c *conversionResult) output() (variable string, content []byte, err error) {
	const file = "CONVERSION_RESPONSE_PATH"
	switch {
	case c == nil:
		return file, nil, nil
	case len(c.Objects) == 0 && c.Failed == "":
		return file, nil, errors.New("the conversion has neither objects nor a message")
	}
	content, err = json.Marshal(c)
	if err != nil {
		err = fmt.Errorf("converted objects: %w", err)
	}
	return file, content, err
}
