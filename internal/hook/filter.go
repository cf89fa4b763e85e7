package hook

import (
	"fmt"

	"github.com/itchyny/gojq"
)

// maxFilter bounds a jqFilter in bytes. Compiling recurses with its nesting, and a stack that overflows ends the process.
const maxFilter = 64 << 10

// CompileFilter makes a jqFilter ready to run. The filter sees nothing of the environment, reads no further input and
// imports no modules.
func CompileFilter(filter string) (*gojq.Code, error) {
	if len(filter) > maxFilter {
		return nil, fmt.Errorf("jq filter has %d bytes, at most %d are taken", len(filter), maxFilter)
	}
	query, err := gojq.Parse(filter)
	if err != nil {
		return nil, fmt.Errorf("is no jq filter: %w", err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("jq filter does not compile: %w", err)
	}
	return code, nil
}
