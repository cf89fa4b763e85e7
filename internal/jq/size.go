package jq

import (
	"fmt"
	"math/big"
)

// room says how many bytes and how many levels of nesting are left for a result. Values of jq can share their parts,
// so the text of a result can be much larger than its value in memory. Therefore the size of the text is computed
// before the result is encoded.
type room struct {
	bytes int
	depth int
}

// subtract subtracts a lower bound for the number of bytes in the text of value from r.bytes. If value is too large or
// nested too deeply, subtract returns an error.
func (r *room) subtract(value any) error {
	const comma = 1 // size of a comma; a colon and a bracket have the same size
	if r.depth--; r.depth < 0 {
		return fmt.Errorf("its result is nested deeper than %d levels", maxDepth)
	}
	defer func() { r.depth++ }()
	r.bytes -= comma
	switch value := value.(type) {
	case string:
		r.bytes -= len(value)
	case *big.Int:
		r.bytes -= value.BitLen() / 4 // a decimal digit has 3.3 bits
	case []any:
		for _, element := range value {
			if err := r.subtract(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, element := range value {
			r.bytes -= len(key) + comma
			if err := r.subtract(element); err != nil {
				return err
			}
		}
	}
	if r.bytes < 0 {
		return fmt.Errorf("its result has more than %d bytes", maxResult)
	}
	return nil
}
