package jq

import (
	"fmt"
	"math/big"
)

// room is what is left of the bounds of one result, in bytes of its text and in levels of nesting. Values of jq share their
// parts, so that a program of a line can have a result whose text fills any memory: it is measured before it is written.
type room struct {
	bytes int
	depth int
}

// take takes the text of a value out of the room, at least as much of it as there is in any way of writing, and stops where
// there is no more.
func (r *room) take(value any) error {
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
			if err := r.take(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, element := range value {
			r.bytes -= len(key) + comma
			if err := r.take(element); err != nil {
				return err
			}
		}
	}
	if r.bytes < 0 {
		return fmt.Errorf("its result has more than %d bytes", maxResult)
	}
	return nil
}
