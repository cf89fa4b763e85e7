package jq

import (
	"fmt"
	"math/big"
)

// room is the remaining size and nesting of one result. Values of jq can share their parts, so the
// text of a result can be much larger than the value in memory. Therefore the size is computed
// before the result is encoded.
type room struct {
	bytes int
	depth int
}

// subtract subtracts a lower bound of the size of value's text from r. If value is too large or
// nested too deeply, subtract returns an error.
func (r *room) subtract(value any) error {
	const comma = 1 // or colon, or bracket
	if r.depth--; r.depth < 0 {
		return fmt.Errorf("its result is nested deeper than %d levels", maxDepth)
	}
	defer func() { r.depth++ }()
	r.bytes -= comma
	switch value := value.(type) {
	case string:
		r.bytes -= len(value)
	case *big.Int:
		r.bytes -= value.BitLen() / 4 // a digit is 3.3 bits
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
