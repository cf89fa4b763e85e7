package schema

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// The names of the files in a directory of schemas.
const (
	configFile = "config-values.yaml"
	valuesFile = "values.yaml"
)

// The limits of one schema: the size of its file in bytes, the depth of nesting, and the number of
// subschemas. The largest schemas in use have a few thousand lines.
const (
	maxBytes = 1 << 20
	maxDepth = 64
	maxNodes = 50_000
)

// A Set contains the schemas of one section. Each schema may be nil, and the Set may be nil. A nil
// schema accepts all values.
type Set struct {
	// Config is the schema of the section in the ConfigMap, from the file config-values.yaml.
	Config *Schema
	// Values is the schema of the merged values, from the file values.yaml.
	Values *Schema
	// Helm is the schema of the values for Helm: Values, in which the names in x-required-for-helm
	// are also required.
	Helm *Schema
}

// A Schema is one compiled schema. It is safe for concurrent use.
type Schema struct {
	file  string
	root  spec.Schema
	rules *ruled
}

// File returns the path of the file from which the schema was read.
func (s *Schema) File() string {
	if s == nil {
		return ""
	}
	return s.file
}

// A File is the text of one schema file. A file with an empty text contains no schema.
type File struct {
	Path string
	Text []byte
}

func readFile(path string) (File, error) {
	text, err := open(path)
	if err != nil {
		return File{}, fmt.Errorf("cannot read a schema: %w", err)
	}
	return File{Path: path, Text: text}, nil
}

// open returns the content of the file at path, or nil if the file does not exist.
func open(path string) ([]byte, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: replace or remove it", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // an error of Close does not matter, because the file was only read
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("%s has more than %d bytes: split the module into several modules", path, maxBytes)
	}
	return text, err
}

// Parse returns the schemas of one section. The argument config is the file config-values.yaml, and
// values is the file values.yaml. The schema in values.yaml may extend the schema in
// config-values.yaml.
func Parse(config, values File) (*Set, error) {
	set := &Set{}
	var parent *spec.Schema
	if root, found, err := config.schema(nil); err != nil {
		return nil, err
	} else if found {
		parent = &root
		if set.Config, err = compile(config.Path, root); err != nil {
			return nil, err
		}
	}
	root, found, err := values.schema(parent)
	if err != nil || !found {
		return set, err
	}
	if set.Values, err = compile(values.Path, root); err != nil {
		return nil, err
	}
	forHelm, err := requiredForHelm(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", values.Path, err)
	}
	set.Helm, err = compile(values.Path, forHelm)
	return set, err
}

// schema decodes the file. If the decoded schema has the key x-extend, it is extended by the parts of
// the schema parent: see [extend]. References are replaced by their targets. If additionalProperties
// is not set, the decoded schema rejects unknown keys.
func (f File) schema(parent *spec.Schema) (root spec.Schema, found bool, err error) {
	if len(f.Text) > maxBytes {
		return root, false, fmt.Errorf("%s has more than %d bytes", f.Path, maxBytes)
	}
	text, err := yaml.YAMLToJSON(f.Text)
	if err != nil {
		return root, false, fmt.Errorf("%s is not valid YAML: %s", f.Path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if string(text) == "null" {
		return root, false, nil
	}
	if err := checkSize(text); err != nil {
		return root, false, fmt.Errorf("%s: %w", f.Path, err)
	}
	if err := decode(text, &root); err != nil {
		return root, false, fmt.Errorf("%s is not an OpenAPI schema: %w", f.Path, err)
	}
	root = extend(root, parent)
	if root, err = expand(root); err != nil {
		return root, false, fmt.Errorf("%s: %w", f.Path, err)
	}
	root, err = closed(root)
	return root, true, err
}

// decode decodes a schema from JSON. The error names the position in the schema.
func decode(text []byte, root *spec.Schema) (err error) {
	if text[0] != '{' {
		return errors.New("it must be a map, as in \"type: object\" and \"properties:\"")
	}
	if err := root.UnmarshalJSON(text); err != nil {
		return explainDecode(err)
	}
	return nil
}

// explainDecode returns err, which is an error of the decoder, with a text for users. The text
// names parts of the file instead of Go types. It is the same for the same file in each process.
func explainDecode(err error) error {
	text := err.Error()
	_, where, found := strings.Cut(text, ` within "`)
	if !found {
		return errors.New(strings.TrimPrefix(text, "json: "))
	}
	where, why, _ := strings.Cut(where, `"`)
	why = strings.TrimPrefix(why, ": ")
	if _, kind, isKind := strings.Cut(text, " unmarshal JSON "); isKind && why == "" {
		kind, _, _ = strings.Cut(kind, " ")
		why = "a " + kind + " is not permitted here"
	}
	return fmt.Errorf("%s: %s", where, why)
}

// checkSize returns an error if a JSON text is nested too deeply for a schema, or if it is too long
// because YAML aliases were replaced.
func checkSize(text []byte) error {
	if len(text) > 16*maxBytes {
		return errors.New("its YAML aliases make it too large")
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > 4*maxDepth {
				return errors.New("it is nested too deeply")
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
