package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// valuesSchema matches the names of the schema files with which Helm validates the values of a chart and its
// subcharts.
var valuesSchema = regexp.MustCompile(`^(charts/[^/]+/)*values\.schema\.json$`)

// checkSchema returns an error if Helm cannot use text as a schema of values, or if the schema refers to other
// documents. Helm would read these documents when it installs the chart. They could be files of the operator, or URLs
// that only the operator can reach.
func checkSchema(text []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the schema cannot be used: %v", r)
		}
	}()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	if err != nil {
		return fmt.Errorf("the schema is not JSON: %w", err)
	}
	const url = "file:///values.schema.json" // as Helm names it
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(closedLoader{})
	if err := compiler.AddResource(url, document); err != nil {
		return fmt.Errorf("the schema cannot be used: %w", err)
	}
	_, err = compiler.Compile(url)
	if refused, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return fmt.Errorf("reference to %s: only references within the schema are supported; copy what it refers to into $defs", refused.URL)
	}
	if err != nil {
		return fmt.Errorf("the schema cannot be used: %w", err)
	}
	return nil
}

// A closedLoader returns an error for each schema that it is asked to load, except for a URN.
type closedLoader struct{}

func (closedLoader) Load(url string) (any, error) {
	if strings.HasPrefix(url, "urn:") {
		return true, nil // Helm accepts URN references and reads nothing for them
	}
	return nil, errors.New("not loaded")
}
