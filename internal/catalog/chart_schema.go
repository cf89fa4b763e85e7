package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// valuesSchema matches the schemas against which Helm checks the values of a chart and of its
// subcharts.
var valuesSchema = regexp.MustCompile(`^(charts/[^/]+/)*values\.schema\.json$`)

// checkSchema rejects a schema of values that Helm cannot use, or that refers to other documents. At the installation
// of the chart, Helm would read such documents: files of the operator, and URLs that only the operator may reach.
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

// A closedLoader refuses to load any schema.
type closedLoader struct{}

func (closedLoader) Load(url string) (any, error) {
	if strings.HasPrefix(url, "urn:") {
		return true, nil // Helm accepts such references without reading anything
	}
	return nil, errors.New("not loaded")
}
