package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
)

// AdmissionRequest is the request of the API server in a validating or mutating element.
type AdmissionRequest struct {
	UID       string           `json:"uid"`
	Kind      GroupVersionKind `json:"kind"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	// Operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation   string `json:"operation"`
	SubResource string `json:"subResource"`
	UserInfo    User   `json:"userInfo"`
	// Object is the new object, OldObject the stored one; null if there is none.
	Object    json.RawMessage `json:"object"`
	OldObject json.RawMessage `json:"oldObject"`
	DryRun    bool            `json:"dryRun"`
}

// GroupVersionKind is a kind of object.
type GroupVersionKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// User is the sender of a request.
type User struct {
	Username string   `json:"username"`
	UID      string   `json:"uid"`
	Groups   []string `json:"groups"`
}

// AdmissionRequest decodes the review of a validating or mutating element.
func (e Element) AdmissionRequest() (AdmissionRequest, error) {
	var review struct {
		Request AdmissionRequest `json:"request"`
	}
	err := e.review(&review, TypeValidating, TypeMutating)
	return review.Request, err
}

// ConversionObjects decodes the objects to convert of a conversion element.
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

// verdict is the content of the file at ADMISSION_RESPONSE_PATH.
type verdict struct {
	Allowed  bool     `json:"allowed"`
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Patch    []byte   `json:"patch,omitempty"` // in base64
	err      error
}

// Allow allows an admission request. Warnings are shown to the sender of the request.
func (r *Run) Allow(warnings ...string) {
	r.verdict = &verdict{Allowed: true, Warnings: warnings}
}

// AllowChanged allows a mutating request and applies the changes to the object.
func (r *Run) AllowChanged(changes []Change, warnings ...string) {
	r.verdict = &verdict{Allowed: true, Warnings: warnings}
	if len(changes) > 0 {
		r.verdict.Patch, r.verdict.err = json.Marshal(changes)
	}
}

// Deny denies an admission request. The sender of the request gets the message.
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

// conversionResult is the content of the file at CONVERSION_RESPONSE_PATH.
type conversionResult struct {
	Objects []any  `json:"convertedObjects,omitempty"`
	Failed  string `json:"failedMessage,omitempty"`
}

// Converted responds to a conversion request with all its objects, in their order and in the
// requested version.
func (r *Run) Converted(objects ...any) {
	r.converted = &conversionResult{Objects: objects}
}

// NotConverted fails a conversion request with a message.
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
