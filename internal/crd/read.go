package crd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"addon-operator/internal/tree"
)

const (
	apiVersion = "apiextensions.k8s.io/v1"
	kind       = "CustomResourceDefinition"

	// maxFile is the maximum size of a file in bytes. The API server accepts objects of up to about a fifth of this
	// size, but a file may contain several definitions.
	maxFile = 8 << 20
)

// Definition is one CustomResourceDefinition in a file.
type Definition struct {
	// File is the path of the file.
	File string
	// Document is the number of the definition's YAML document in the file, from 1. Line is the number of the first
	// line of this document.
	Document, Line int

	object *unstructured.Unstructured // only with name, labels, annotations and spec
}

// Name returns metadata.name.
func (d Definition) Name() string { return d.object.GetName() }

// String returns a text with the file, the document, the line and the name of the definition, for messages.
func (d Definition) String() string {
	at := fmt.Sprintf("%s, document %d (line %d)", d.File, d.Document, d.Line)
	if d.object == nil {
		return at
	}
	return at + ", " + d.Name()
}

// Read returns the definitions in the files *.yaml in and below dir. It ignores files and directories whose names
// begin with a dot, and files whose names begin with one of the prefixes in skip. If dir does not exist, Read returns
// no definitions. The directory dir can be a symbolic link.
//
// The error names every document that is not a valid definition, with a hint. Read returns the valid definitions
// nevertheless. If several definitions have the same name, Read returns only the first, and the error names the
// others.
func Read(dir string, skip []string) ([]Definition, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	root, err := filepath.EvalSymlinks(dir) // WalkDir does not follow a link
	if err != nil {
		return nil, fmt.Errorf("cannot read CustomResourceDefinitions: %w", err)
	}
	var found []Definition
	var wrong []error
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || filepath.Ext(path) != ".yaml" || isSkipped(entry.Name(), skip):
			return nil
		}
		path = filepath.Join(dir, strings.TrimPrefix(path, root)) // the name that the author of the module knows
		text, err := readFile(path)
		if err != nil {
			wrong = append(wrong, err)
			return nil
		}
		more, err := Parse(path, text)
		wrong = append(wrong, err)
		found = append(found, more...)
		return nil
	})
	if err != nil {
		wrong = append(wrong, fmt.Errorf("cannot read CustomResourceDefinitions: %w", err))
	}
	found, err = distinct(found)
	return found, errors.Join(append(wrong, err)...)
}

func isSkipped(name string, skip []string) bool {
	for _, prefix := range skip {
		if prefix != "" && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read CustomResourceDefinitions: %w", err)
	}
	defer file.Close() // the error does not matter, because the file was only read
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read CustomResourceDefinitions: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d MiB: split it", path, maxFile>>20)
	}
	return text, nil
}

// distinct returns the first definition of each name. The error names all other definitions, and for each of them the
// first definition of the same name.
func distinct(all []Definition) (kept []Definition, err error) {
	by := map[string]Definition{}
	var wrong []error
	for _, d := range all {
		if first, taken := by[d.Name()]; taken {
			wrong = append(wrong, fmt.Errorf("%s: it is already defined in %s: remove one of them", d, first))
			continue
		}
		by[d.Name()] = d
		kept = append(kept, d)
	}
	return kept, errors.Join(wrong...)
}

// Parse returns the definitions in text, the content of file. It ignores empty documents and documents with only
// comments, but counts them for [Definition.Document]. The error names every document that is not a valid definition.
// Parse returns the valid definitions nevertheless.
func Parse(file string, text []byte) ([]Definition, error) {
	var found []Definition
	var wrong []error
	for _, part := range tree.Split(text) {
		d := Definition{File: file, Document: part.Number, Line: part.Line}
		object, err := decode(part.Text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", d, err))
			continue
		}
		if object == nil {
			continue
		}
		d.object = object
		found = append(found, d)
	}
	return found, errors.Join(wrong...)
}

// decode returns the definition in a YAML document, or nil if the document is empty.
func decode(text []byte) (*unstructured.Unstructured, error) {
	content, err := tree.FirstYAML(text)
	if err == nil {
		err = kjson.ConvertInterfaceNumbers(&content, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	switch object := content.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return define(unstructured.Unstructured{Object: object})
	default:
		return nil, fmt.Errorf("not an object: must be a %s", kind)
	}
}

// define returns a copy of the definition object that has only its name, labels, annotations and spec. define returns
// an error if a field that the installer needs is missing or wrong. It leaves the check of all other fields to the API
// server.
func define(object unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch {
	case object.GetKind() == kind && object.GetAPIVersion() == "apiextensions.k8s.io/v1beta1":
		return nil, errors.New("apiextensions.k8s.io/v1beta1 is served by no API server since Kubernetes 1.22: rewrite it for " + apiVersion)
	case object.GetKind() != kind || object.GetAPIVersion() != apiVersion:
		return nil, fmt.Errorf("it is a %q of %q: each document in crds must be a %s of %s; move other objects to templates",
			object.GetKind(), object.GetAPIVersion(), kind, apiVersion)
	case object.GetName() == "":
		return nil, errors.New("it has no metadata.name: write PLURAL.GROUP")
	}
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil || spec == nil {
		return nil, errors.New("spec is not a map: it must have group, names, scope and versions")
	}
	made := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	made.SetAPIVersion(apiVersion)
	made.SetKind(kind)
	made.SetName(object.GetName())
	made.SetLabels(object.GetLabels())
	made.SetAnnotations(object.GetAnnotations())
	if _, err := shapeOf(made); err != nil {
		return nil, err
	}
	return made, nil
}

// shape contains those fields of the spec of a definition that the installer needs.
type shape struct {
	group, kind, plural string
	versions            []map[string]any
	storage, served     string // names of the first version with storage: true and the first with served: true
}

// shapeOf returns the shape of the definition o. shapeOf returns an error if the group, a name or the list of versions
// is missing or has a wrong type. The fields storage and served can be empty.
func shapeOf(o *unstructured.Unstructured) (s shape, err error) {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, path...)
		if value == "" {
			err = errors.Join(err, fmt.Errorf("%s is missing, or not a string", strings.Join(path, ".")))
		}
		return value
	}
	s.group, s.kind, s.plural = text("spec", "group"), text("spec", "names", "kind"), text("spec", "names", "plural")
	versions, _, listErr := unstructured.NestedFieldNoCopy(o.Object, "spec", "versions")
	list, isList := versions.([]any)
	if listErr != nil || !isList || len(list) == 0 {
		return s, errors.Join(err, errors.New("spec.versions is missing, or not a list"))
	}
	for i, element := range list {
		version, _ := element.(map[string]any)
		name, _ := version["name"].(string)
		if name == "" {
			err = errors.Join(err, fmt.Errorf("spec.versions[%d].name is missing, or not a string", i))
			continue
		}
		s.versions = append(s.versions, version)
		if stored, _ := version["storage"].(bool); stored && s.storage == "" {
			s.storage = name
		}
		if served, _ := version["served"].(bool); served && s.served == "" {
			s.served = name
		}
	}
	return s, err
}

// has reports whether the definition has this version.
func (s shape) has(version string) bool {
	for _, v := range s.versions {
		if v["name"] == version {
			return true
		}
	}
	return false
}
