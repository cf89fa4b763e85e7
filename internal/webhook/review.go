package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"addon-operator/internal/hook"
)

// The API groups of reviews.
const (
	admissionGroup  = "admission.k8s.io"
	conversionGroup = "apiextensions.k8s.io"
)

// admissionReview contains the fields of an AdmissionReview that the server reads. These fields are
// the same in v1 and v1beta1.
type admissionReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID    string `json:"uid"`
		DryRun bool   `json:"dryRun"`
	} `json:"request"`
}

// conversionReview contains the fields of a ConversionReview that the server reads and passes to
// hooks.
type conversionReview struct {
	Kind       string             `json:"kind"`
	APIVersion string             `json:"apiVersion"`
	Request    *conversionRequest `json:"request"`
}

type conversionRequest struct {
	UID               string            `json:"uid"`
	DesiredAPIVersion string            `json:"desiredAPIVersion"`
	Objects           []json.RawMessage `json:"objects"`
}

// isReview returns an error if the apiVersion or kind of a review is not the expected one. The
// versions v1 and v1beta1 are supported.
func isReview(group, kind, gotVersion, gotKind string) error {
	version, ours := strings.CutPrefix(gotVersion, group+"/")
	if gotKind != kind || !ours || version != "v1" && version != "v1beta1" {
		return fmt.Errorf("the review must be a %s of %s/v1 or v1beta1, not %q of %q", kind, group, gotKind, gotVersion)
	}
	return nil
}

func readAdmission(body []byte) (r admissionReview, err error) {
	if err := json.Unmarshal(body, &r); err != nil {
		return r, err
	}
	if err := isReview(admissionGroup, "AdmissionReview", r.APIVersion, r.Kind); err != nil {
		return r, err
	}
	if r.Request == nil || r.Request.UID == "" {
		return r, errors.New("the AdmissionReview has no request with a uid")
	}
	return r, nil
}

func readConversion(body []byte) (r conversionReview, err error) {
	if err := json.Unmarshal(body, &r); err != nil {
		return r, err
	}
	if err := isReview(conversionGroup, "ConversionReview", r.APIVersion, r.Kind); err != nil {
		return r, err
	}
	if r.Request == nil || r.Request.UID == "" || r.Request.DesiredAPIVersion == "" {
		return r, errors.New("the ConversionReview has no request with a uid and a desiredAPIVersion")
	}
	return r, nil
}

// reply is the review, with a response, that the server sends to the API server.
type reply struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Response   any    `json:"response"`
}

type admissionResponse struct {
	UID       string   `json:"uid"`
	Allowed   bool     `json:"allowed"`
	Status    *status  `json:"status,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	Patch     []byte   `json:"patch,omitempty"`
	PatchType string   `json:"patchType,omitempty"`
}

type status struct {
	Status  string `json:"status,omitempty"`
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

type conversionResponse struct {
	UID     string            `json:"uid"`
	Objects []json.RawMessage `json:"convertedObjects,omitempty"`
	Result  status            `json:"result"`
}

// answer returns the reply to the review r with the verdict v.
func (r admissionReview) answer(v hook.Verdict) reply {
	response := admissionResponse{UID: r.Request.UID, Allowed: v.Allowed, Warnings: v.Warnings}
	switch {
	case !v.Allowed:
		response.Status = &status{Code: http.StatusForbidden, Message: v.Message}
	case v.Patch != nil:
		response.Patch, response.PatchType = v.Patch, "JSONPatch"
	}
	return reply{r.APIVersion, r.Kind, response}
}

// answer returns the reply to the review r with the converted objects, or the failure, in c.
func (r conversionReview) answer(c hook.Converted) reply {
	response := conversionResponse{UID: r.Request.UID, Objects: c.Objects, Result: status{Status: "Success"}}
	if c.Failed != "" {
		response.Objects, response.Result = nil, status{Status: "Failure", Message: c.Failed}
	}
	return reply{r.APIVersion, r.Kind, response}
}

// versionOf returns the apiVersion of an object.
func versionOf(object json.RawMessage) (string, error) {
	var o struct {
		APIVersion string `json:"apiVersion"`
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return "", fmt.Errorf("an object to convert: %w", err)
	}
	return o.APIVersion, nil
}

// relabelled returns the object with another apiVersion and no other change. The API server
// converts objects in the same way if their CustomResourceDefinition has no conversion webhook.
func relabelled(object json.RawMessage, version string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, fmt.Errorf("an object to convert: %w", err)
	}
	text, err := json.Marshal(version)
	if err != nil || fields == nil {
		return nil, errors.Join(err, errors.New("an object to convert is not a JSON object"))
	}
	fields["apiVersion"] = text
	return json.Marshal(fields)
}
