package operation

import (
	"encoding/json"
	"slices"
	"strings"
)

// Type says what an operation does.
type Type string

// The types of operations, as hooks write them.
const (
	// Create makes an object. One that exists is a refusal.
	Create Type = "Create"
	// CreateOrUpdate makes an object, or merges what is given into the one that exists.
	CreateOrUpdate Type = "CreateOrUpdate"
	// CreateIfNotExists makes an object, or leaves the one that exists as it is.
	CreateIfNotExists Type = "CreateIfNotExists"
	// Delete deletes an object after all it owns, and waits until it is gone.
	Delete Type = "Delete"
	// DeleteInBackground deletes an object, and leaves what it owns to the garbage collector.
	DeleteInBackground Type = "DeleteInBackground"
	// DeleteNonCascading deletes an object, and nothing that it owns.
	DeleteNonCascading Type = "DeleteNonCascading"
	// MergePatch changes an object by a JSON merge patch (RFC 7386).
	MergePatch Type = "MergePatch"
	// JSONPatch changes an object by a JSON patch (RFC 6902).
	JSONPatch Type = "JSONPatch"
	// JQPatch makes of an object what a jq filter makes of it.
	JQPatch Type = "JQPatch"
)

// allTypes are all of them, in the order errors list them.
var allTypes = []Type{
	Create, CreateOrUpdate, CreateIfNotExists, Delete, DeleteInBackground, DeleteNonCascading, MergePatch, JSONPatch, JQPatch,
}

// Deletes reports whether t deletes an object.
func (t Type) Deletes() bool {
	return slices.Contains([]Type{Delete, DeleteInBackground, DeleteNonCascading}, t)
}

// creates reports whether an operation of type t brings an object.
func (t Type) creates() bool {
	return slices.Contains([]Type{Create, CreateOrUpdate, CreateIfNotExists}, t)
}

// Repeatable reports whether an operation of type t, done again after the ones behind it, and these again after it, ends
// as if all were done once.
func (t Type) Repeatable() bool {
	return slices.Contains([]Type{CreateOrUpdate, CreateIfNotExists, MergePatch}, t)
}

// Operation is one thing a hook wants done with one object. It is valid if [Parse] returned it. It may be written down as
// JSON and done by another process.
type Operation struct {
	Type Type `json:"operation"`
	// APIVersion may be empty: then the kind is looked for in the preferred versions of all groups.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind goes by any of its names, in any case.
	Kind string `json:"kind"`
	// Namespace has no meaning for a kind without namespaces.
	Namespace string `json:"namespace,omitempty"`
	// Name is empty only for an object that brings a prefix for it, metadata.generateName.
	Name string `json:"name,omitempty"`
	// Subresource is what a patch is sent to, as "status"; empty is the object itself.
	Subresource string `json:"subresource,omitempty"`

	// Object, MergePatch and JSONPatch are JSON, each there for the types that need it.
	Object     json.RawMessage `json:"object,omitempty"`
	MergePatch json.RawMessage `json:"mergePatch,omitempty"`
	JSONPatch  json.RawMessage `json:"jsonPatch,omitempty"`
	// JQFilter is a jq program.
	JQFilter string `json:"jqFilter,omitempty"`

	// IgnoreMissingObject makes a patch of an object that does not exist a success.
	IgnoreMissingObject bool `json:"ignoreMissingObject,omitempty"`
}

// String returns the operation for messages: type, kind and name, as in "JSONPatch Deployment/status prod/web". It tells
// nothing of what is in the object.
func (o Operation) String() string {
	var text strings.Builder
	text.WriteString(string(o.Type) + " " + o.Kind)
	if o.Subresource != "" {
		text.WriteString("/" + o.Subresource)
	}
	text.WriteString(" ")
	if o.Namespace != "" {
		text.WriteString(o.Namespace + "/")
	}
	if o.Name == "" {
		text.WriteString("(name made from metadata.generateName)")
	}
	text.WriteString(o.Name)
	return text.String()
}
