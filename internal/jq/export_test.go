package jq

import (
	"context"
	"encoding/json"
)

// ApplyHere runs a filter in this process if Apply would do so. The result ran reports whether the
// filter was run.
func ApplyHere(ctx context.Context, f *Filter, in *Input) (result json.RawMessage, ran bool, err error) {
	if f == nil || !f.plain.fits(len(in.text)) {
		return nil, false, nil
	}
	tree, err := in.decoded()
	if err != nil {
		return nil, false, err
	}
	result, err = f.here(ctx, tree)
	return result, true, err
}
